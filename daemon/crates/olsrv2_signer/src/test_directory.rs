//! A directory for one test.

use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A new directory, which is removed with all that is in it, also when the test fails.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let name = format!("olsrv2-signer-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Deref for Directory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

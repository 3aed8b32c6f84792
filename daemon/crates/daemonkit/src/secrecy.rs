//! Keeps keys private: the memory of a process that has them, out of core dumps, out of reach of other programs of its
//! user and, if its limit allows, out of swap; and files with them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::mm::{mlockall, MlockAllFlags};
use rustix::process::{getrlimit, set_dumpable_behavior, DumpableBehavior, Resource};

/// Keeps this process's memory private. A failure is only logged, because it is no reason not to protect traffic.
pub fn keep_private() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        log::warn!("the memory of this process may be dumped: prctl: {error}");
    }
    // With a limit, an allocation beyond it would fail from now on.
    if getrlimit(Resource::Memlock).current.is_some() {
        log::debug!("memory is not locked: LimitMEMLOCK= is not infinity");
        return;
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(flags) {
        log::warn!("the memory of this process may be swapped: mlockall: {error}");
    }
}

/// Refuses a file with secrets that others than its owner may read.
///
/// A credential of a service manager may be readable by a group to which only this process belongs.
///
/// # Errors
/// The message says what is allowed.
pub fn refuse_readable(path: &Path) -> Result<(), String> {
    let mode = fs::metadata(path)
        .map_err(|error| error.to_string())?
        .mode()
        & 0o777;
    let is_credential = credentials().is_some_and(|directory| path.parent() == Some(&*directory));
    let forbidden = if is_credential { 0o007 } else { 0o077 };
    if mode & forbidden == 0 {
        return Ok(());
    }
    Err(format!(
        "it has mode {mode:04o}, so others may read its secrets; allowed: 0600 (chmod 600 {})",
        path.display()
    ))
}

/// Returns the directory of the credentials from the service manager (systemd.exec(5)).
pub fn credentials() -> Option<PathBuf> {
    env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn what_keeps_its_memory_private_cannot_be_dumped() {
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        keep_private();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
}

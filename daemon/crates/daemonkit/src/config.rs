//! Reads configuration files. The result is checked values, or an error that names file, line, key, bad value and what
//! is allowed.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::Spanned;

/// IFNAMSIZ - 1: the longest name of a Linux interface, in octets.
pub const INTERFACE_NAME_MAX: usize = 15;
/// Longest path of a UNIX socket that fits `sun_path`, in octets.
pub const SOCKET_PATH_MAX: usize = 107;

/// Reads a file and checks it with `parse`.
///
/// # Errors
/// The file cannot be read, or `parse` refuses it.
pub fn load<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, Fault>,
) -> Result<T, ConfigError> {
    let refuse = |line, message| ConfigError {
        path: path.to_owned(),
        line,
        message,
    };
    let text =
        fs::read_to_string(path).map_err(|error: io::Error| refuse(None, error.to_string()))?;
    parse(&text).map_err(|fault| refuse(fault.line(&text), fault.message))
}

/// Decodes the values of a text without checking them further.
///
/// # Errors
/// The text is not TOML, or has unknown keys or values of other types.
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    toml::from_str(text).map_err(|error| Fault::syntax(text, &error))
}

/// Why a configuration was refused.
#[derive(Debug)]
pub struct ConfigError {
    path: PathBuf,
    line: Option<usize>,
    message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// Refuses a whole file.
    pub fn of_file(path: &Path, message: String) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            message,
        }
    }
}

/// Why a text is refused, with the place in it.
#[derive(Debug)]
pub struct Fault {
    /// Offset of the refused part in bytes.
    offset: Option<usize>,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl Fault {
    /// Refuses a text that is not TOML or has unknown keys.
    fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span();
        let found = span
            .clone()
            .and_then(|span| text.get(span))
            .filter(|found| !found.is_empty() && !found.contains('\n'));
        let message = match found {
            Some(found) => format!("`{found}`: {}", error.message().replace('\n', "; ")),
            None => error.message().replace('\n', "; "),
        };
        Self {
            offset: span.map(|span| span.start),
            message,
        }
    }

    /// Refuses a text without naming a place in it.
    pub fn whole(message: String) -> Self {
        Self {
            offset: None,
            message,
        }
    }

    /// Refuses a value; the message names its key, the value as `shown`, and what is allowed.
    pub fn value<T>(
        key: &str,
        found: &Spanned<T>,
        shown: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> Self {
        Self {
            offset: Some(found.span().start),
            message: format!("{key} = {shown} is refused; allowed: {allowed}"),
        }
    }

    /// Returns the line in the text, counted from 1.
    pub fn line(&self, text: &str) -> Option<usize> {
        let before = text.as_bytes().get(..self.offset?)?;
        Some(1 + before.iter().filter(|&&octet| octet == b'\n').count())
    }
}

/// Returns a text in quotation marks.
pub fn quoted(raw: &Spanned<String>) -> String {
    format!("{:?}", raw.as_ref())
}

/// Returns whether an interface other than `lo` may have that name.
pub fn is_interface_name(name: &str) -> bool {
    let fits = (1..=INTERFACE_NAME_MAX).contains(&name.len());
    let special = matches!(name, "." | ".." | "lo");
    fits && !special
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control())
}

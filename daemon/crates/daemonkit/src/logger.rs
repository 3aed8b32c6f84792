//! Log lines on standard error, with the journal's priorities under systemd.

use std::io::{self, Write};

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Stderr {
    program: &'static str,
    journal: bool,
}

/// Installs the logger of a program; lines below `level` are left out.
pub fn install(program: &'static str, level: LevelFilter) {
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    if log::set_boxed_logger(Box::new(Stderr { program, journal })).is_ok() {
        log::set_max_level(level);
    }
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let line = if self.journal {
            format!("<{}>{}\n", priority(record.level()), record.args())
        } else {
            format!(
                "{}: {}: {}\n",
                self.program,
                record.level().as_str().to_lowercase(),
                record.args()
            )
        };
        // Nobody is left to tell of a standard error that cannot be written.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// The priority of sd-daemon(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

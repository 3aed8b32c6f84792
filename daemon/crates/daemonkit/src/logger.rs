//! Writes log lines to standard error, with the journal's priorities under systemd. The program can also read the lines
//! and show them elsewhere.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};

/// Largest number of lines that wait for [`take_lines`], a burst between two turns of an event loop.
const MAX_LINES: usize = 256;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// The source file that wrote it, without its folder.
    pub file: String,
    /// Its line in that file.
    pub line: u32,
    /// What it says.
    pub message: String,
}

/// The lines that the program reads itself.
struct Tap {
    level: LevelFilter,
    lines: VecDeque<Line>,
    /// The level of standard error.
    installed: LevelFilter,
}

static TAP: Mutex<Tap> = Mutex::new(Tap {
    level: LevelFilter::Off,
    lines: VecDeque::new(),
    installed: LevelFilter::Off,
});

struct Stderr {
    program: &'static str,
    journal: bool,
    level: LevelFilter,
}

/// Installs the logger of a program; lines below `level` are left out.
pub fn install(program: &'static str, level: LevelFilter) {
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    if log::set_boxed_logger(Box::new(Stderr {
        program,
        journal,
        level,
    }))
    .is_ok()
    {
        log::set_max_level(level);
        with_tap(|tap| tap.installed = level);
    }
}

/// Keeps lines down to `level` for [`take_lines`]. Standard error is not affected.
pub fn tap(level: LevelFilter) {
    with_tap(|tap| {
        tap.level = level;
        log::set_max_level(level.max(tap.installed));
    });
}

/// Returns the lines that were logged since the last call: the last [`MAX_LINES`] of them.
#[must_use]
pub fn take_lines() -> VecDeque<Line> {
    with_tap(|tap| std::mem::take(&mut tap.lines))
}

fn with_tap<T>(act: impl FnOnce(&mut Tap) -> T) -> T {
    act(&mut TAP.lock().unwrap_or_else(PoisonError::into_inner))
}

fn keep(record: &Record) {
    with_tap(|tap| {
        if record.level() > tap.level {
            return;
        }
        if tap.lines.len() >= MAX_LINES {
            tap.lines.pop_front();
        }
        let path = Path::new(record.file().unwrap_or_default());
        let file = path.file_name().unwrap_or_default();
        tap.lines.push_back(Line {
            level: record.level(),
            file: file.to_string_lossy().into_owned(),
            line: record.line().unwrap_or_default(),
            message: record.args().to_string(),
        });
    });
}

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record) {
        keep(record);
        if record.level() > self.level {
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
        // An error is ignored: there is nowhere to report that standard error cannot be written.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Returns the priority of a level (sd-daemon(3)).
fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

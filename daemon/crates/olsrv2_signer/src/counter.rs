//! The counter of signed messages. It grows with each message, also across crashes and power cuts.
//!
//! The file has the first counter that is not reserved yet. A block of counters is reserved on the disk before the
//! first of them is used; after a restart the rest of the block stays unused. So the disk is written once in a block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{flock, FlockOperation};

/// Counters that are reserved at a time: an hour of a busy router.
const BLOCK: u64 = 4096;
/// Without a file the counters begin at the seconds of the clock times this, so that they most likely exceed those of a
/// file that was lost. Nothing else depends on the clock.
const PER_SECOND: u64 = 1 << 16;

/// The counter and its file.
#[derive(Debug)]
pub struct Counter {
    path: PathBuf,
    next: u64,
    /// Counters from here on are not reserved.
    reserved: u64,
    /// Locked for this process, because two would use the same counters.
    _lock: File,
}

impl Counter {
    /// Locks and reads the file; without one the counters begin by the clock.
    ///
    /// # Errors
    /// The message names the file, what is wrong with it, and what helps.
    pub fn open(path: &Path) -> Result<Self, String> {
        let lock = lock(path)?;
        let next = match fs::read_to_string(path) {
            Ok(text) => text.trim_end().parse().map_err(|_| {
                let file = path.display();
                format!("{file}: {text:?} is no counter; allowed: a number below 2^64 (remove the file: rm {file})")
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => since_1970().as_secs() * PER_SECOND,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        Ok(Self {
            path: path.to_owned(),
            next,
            reserved: next,
            _lock: lock,
        })
    }

    /// Returns the next counter, and never the same one again.
    ///
    /// # Errors
    /// The disk does not take the reservation, or all counters are used. Nothing may be signed then.
    pub fn next(&mut self) -> io::Result<u64> {
        if self.next >= self.reserved {
            let reserved = self.next.checked_add(BLOCK);
            let reserved = reserved.ok_or_else(|| io::Error::other("all counters are used"))?;
            store(&self.path, reserved)?;
            self.reserved = reserved;
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// Locks a file beside the counter's, which is replaced, until this process ends.
fn lock(path: &Path) -> Result<File, String> {
    let beside = path.with_extension("lock");
    let refuse = |why: io::Error| format!("{}: {why}", beside.display());
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&beside).map_err(refuse)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let path = path.display();
        format!(
            "{path}: another process uses this counter; give each signer its own: --counter FILE"
        )
    })?;
    Ok(file)
}

/// Replaces the file, so that after a power cut it has the old or the new number.
fn store(path: &Path, reserved: u64) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    writeln!(file, "{reserved}")?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::Directory;

    #[test]
    fn no_counter_comes_twice_wherever_the_power_is_cut() {
        let directory = Directory::new("cut");
        let path = directory.join("counter");
        let mut last = None;
        for used in [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3] {
            let mut counter = Counter::open(&path).unwrap();
            for _ in 0..used {
                let next = counter.next().unwrap();
                assert!(last.is_none_or(|last| next > last));
                last = Some(next);
            }
        }
    }

    #[test]
    fn the_disk_is_written_once_in_a_block_and_before_a_counter_is_used() {
        let directory = Directory::new("blocks");
        let path = directory.join("counter");
        fs::write(&path, "5\n").unwrap();
        let mut counter = Counter::open(&path).unwrap();
        assert_eq!(counter.next().unwrap(), 5);
        let stored = || fs::read_to_string(&path).unwrap();
        assert_eq!(stored(), format!("{}\n", 5 + BLOCK));
        fs::remove_file(&path).unwrap();
        for n in 1..BLOCK {
            assert_eq!(counter.next().unwrap(), 5 + n);
        }
        assert!(!path.exists());
        assert_eq!(counter.next().unwrap(), 5 + BLOCK);
        assert_eq!(stored(), format!("{}\n", 5 + 2 * BLOCK));
    }

    #[test]
    fn the_file_is_replaced_and_never_written_over() {
        let directory = Directory::new("replaced");
        let (path, old) = (directory.join("counter"), directory.join("old"));
        fs::write(&path, "5\n").unwrap();
        fs::hard_link(&path, &old).unwrap();
        Counter::open(&path).unwrap().next().unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "5\n");
        assert_ne!(fs::read_to_string(&path).unwrap(), "5\n");
    }

    #[test]
    fn without_a_file_the_counters_begin_by_the_clock() {
        let directory = Directory::new("clock");
        let before = since_1970().as_secs();
        let mut counter = Counter::open(&directory.join("counter")).unwrap();
        let first = counter.next().unwrap();
        assert_eq!(first % 65536, 0);
        assert!((before..=since_1970().as_secs()).contains(&(first / 65536)));
    }

    #[test]
    fn without_a_disk_or_a_counter_nothing_is_given() {
        let gone = Directory::new("gone");
        let mut counter = Counter::open(&gone.join("counter")).unwrap();
        fs::remove_dir_all(&*gone).unwrap();
        assert!(counter.next().is_err());
        fs::create_dir_all(&*gone).unwrap();
        assert!(counter.next().is_ok());
        fs::write(gone.join("counter"), u64::MAX.to_string()).unwrap();
        drop(counter);
        let mut last = Counter::open(&gone.join("counter")).unwrap();
        assert!(last.next().is_err());
    }

    #[test]
    fn two_processes_do_not_share_a_counter() {
        let directory = Directory::new("two");
        let path = directory.join("counter");
        let first = Counter::open(&path).unwrap();
        let refused = Counter::open(&path).unwrap_err();
        assert!(refused.contains("another process"), "{refused}");
        drop(first);
        assert!(Counter::open(&path).is_ok());
    }

    #[test]
    fn a_reservation_that_fails_is_not_used_whether_or_not_it_reached_the_disk() {
        let directory = Directory::new("torn");
        let path = directory.join("counter");
        fs::write(&path, "5\n").unwrap();
        let obstacle = path.with_extension("new");
        fs::create_dir(&obstacle).unwrap();
        let mut counter = Counter::open(&path).unwrap();
        assert!(counter.next().is_err() && counter.next().is_err());
        fs::remove_dir(&obstacle).unwrap();
        assert_eq!(counter.next().unwrap(), 5);
        drop(counter);
        fs::write(&path, format!("{}\n", 5 + BLOCK)).unwrap();
        assert_eq!(Counter::open(&path).unwrap().next().unwrap(), 5 + BLOCK);
    }

    #[test]
    fn a_file_without_a_counter_is_refused_and_said_by_name() {
        let directory = Directory::new("wrong");
        let path = directory.join("counter");
        for text in ["", "-1", "0x10", "18446744073709551616", "1 2"] {
            fs::write(&path, text).unwrap();
            let refused = Counter::open(&path).unwrap_err();
            assert!(
                refused.contains("counter: ") && refused.contains("rm /"),
                "{refused}"
            );
        }
        // It is there, so the clock is not asked.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(Counter::open(&path).is_err());
    }
}

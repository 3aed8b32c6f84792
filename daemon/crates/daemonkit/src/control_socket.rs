//! A UNIX socket through which other programs observe a daemon. Its owner and one group may connect.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{chown, DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Mode of the socket: its owner and group may connect.
const SOCKET_MODE: u32 = 0o660;
/// Mode of the socket's directory: everybody may list it, only the owner may create files in it.
const DIRECTORY_MODE: u32 = 0o755;

/// A listening socket, which is removed when it is dropped.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Creates the socket and its directory, and listens. Without `group`, the group of the process may connect.
    ///
    /// # Errors
    /// The path cannot be created, another process listens there, or the group is unknown.
    pub fn listen(path: &Path, group: Option<&str>) -> io::Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory)?;
        remove_stale(path)?;
        let listener = bind_private(path)?;
        admit(path, group)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: path.into(),
        })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the group that may connect.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn admit(&self, group: Option<&str>) -> io::Result<()> {
        admit(&self.path, group)
    }

    /// Accepts a waiting connection and makes it non-blocking.
    ///
    /// # Errors
    /// No connection is waiting, or its other end has disconnected.
    pub fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            log::debug!("{}: {error}", self.path.display());
        }
    }
}

/// Removes the socket of a process that has ended. A socket in use is left alone.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something other than a socket is there",
        )),
        Ok(_) if UnixStream::connect(path).is_ok() => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there",
        )),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Binds the socket so that it never grants rights to others, not even briefly.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    listener
}

/// Lets the owner and a group connect.
fn admit(path: &Path, group: Option<&str>) -> io::Result<()> {
    let group = group.map_or(Ok(rustix::process::getegid().as_raw()), group_id)?;
    chown(path, None, Some(group))?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))
}

/// Returns the number of a group from `/etc/group` (group(5)).
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group")?;
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group))
            .then(|| fields.nth(1).and_then(|number| number.parse().ok()))
            .flatten()
    });
    number.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("no group {group:?} in /etc/group"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let directory = std::env::temp_dir().join(format!("daemonkit-test-{}", std::process::id()));
        let path = directory.join("run/control.sock");
        let first = ControlSocket::listen(&path, None).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            SOCKET_MODE
        );
        let refused = ControlSocket::listen(&path, None).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        drop(UnixListener::bind(&path).unwrap());
        drop(ControlSocket::listen(&path, None).unwrap());
        fs::write(&path, "").unwrap();
        assert!(ControlSocket::listen(&path, None).is_err());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_unknown_group_is_refused() {
        assert_eq!(group_id("root").unwrap(), 0);
        assert_eq!(group_id("1234").unwrap(), 1234);
        assert!(group_id("no such group").is_err());
    }
}

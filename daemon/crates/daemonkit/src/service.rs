//! Sends messages to the service manager (sd_notify(3)), and never waits for it.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::Time;

/// The service manager, if there is one.
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// Interval of the watchdog messages: half of what the service manager allows (sd_watchdog_enabled(3)).
    pub watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Finds the service manager that `NOTIFY_SOCKET` and `WATCHDOG_USEC` name.
    pub fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|address| {
            connect(&address)
                .map_err(|error| log::warn!("service manager at {address:?}: {error}"))
                .ok()
        });
        Self {
            watchdog: socket.as_ref().and_then(|_| watchdog_period()),
            socket,
        }
    }

    /// Reports that the daemon is ready.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// Reports that the daemon reads its configuration again, since `now` on the monotonic clock.
    pub fn reloading(&self, now: Time) {
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
    }

    /// Reports that the daemon is stopping.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// Reports that the event loop is alive.
    pub fn alive(&self) {
        self.say("WATCHDOG=1");
    }

    fn say(&self, state: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(state.as_bytes()) {
            log::warn!("cannot report {state:?} to the service manager: {error}");
        }
    }
}

fn connect(address: &OsStr) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

fn watchdog_period() -> Option<Duration> {
    let for_us =
        std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
    let micros = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    let period = Duration::from_micros(micros) / 2;
    (for_us && !period.is_zero()).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_that_does_not_read_holds_nobody_up() {
        let name = format!("daemonkit-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let socket = connect(OsStr::new(&format!("@{name}"))).unwrap();
        let service = ServiceManager {
            socket: Some(socket),
            watchdog: None,
        };
        service.reloading(Duration::from_micros(7));
        for _ in 0..1000 {
            service.alive();
        }
        let mut text = [0; 64];
        let length = manager.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"RELOADING=1\nMONOTONIC_USEC=7");
    }
}

//! What every daemon of the workspace needs in addition to its protocol: an event loop, signals, log lines, messages to
//! the service manager, and the sockets through which others observe it.
#![forbid(unsafe_code)]

pub mod config;
pub mod control_socket;
pub mod logger;
pub mod node_key;
mod reactor;
mod readers;
pub mod secrecy;
mod service;
pub mod session;
mod signals;

pub use control_socket::ControlSocket;
pub use reactor::{Code, Reactor};
pub use readers::Readers;
pub use service::ServiceManager;
pub use signals::Signals;

/// Time since an arbitrary start, on CLOCK_MONOTONIC.
pub type Time = std::time::Duration;

/// Returns the present time on CLOCK_MONOTONIC.
pub fn now() -> Time {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time::try_from(time).unwrap_or_default()
}

/// Returns an error whose message begins with what it is about.
pub fn named(what: &str, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{what}: {error}"))
}

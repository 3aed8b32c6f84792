//! What every daemon of the workspace needs besides its protocol: an event
//! loop, signals, log lines, word to the service manager, and the sockets by
//! which others look into it.
#![forbid(unsafe_code)]

pub mod config;
pub mod control_socket;
pub mod logger;
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

/// Now, on CLOCK_MONOTONIC.
pub fn now() -> Time {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time::try_from(time).unwrap_or_default()
}

/// An error that says what it is about.
pub fn named(what: &str, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{what}: {error}"))
}

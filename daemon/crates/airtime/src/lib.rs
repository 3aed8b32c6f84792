//! The air between 802.11 stations: who may send when, how long a frame takes, and who receives it.
//!
//! Theory of operation. A [`Medium`] has stations that hear each other as [`Reach`] says. The caller gives it frames
//! ([`Medium::handle_frame`]) and the time ([`Medium::handle_timeout`]); it returns what happens
//! ([`Medium::poll_event`]) and when to be called again ([`Medium::poll_timeout`]). Each station follows the
//! distributed coordination function (IEEE 802.11-2020, section 10.3): it waits until the air is free for it, counts
//! down a random number of slots, sends, and waits for the acknowledgement. Nothing in a station knows more than its
//! own antenna hears. Hidden stations, collisions and the unequal shares of a line of relays are consequences, and no
//! rule of this model.
//!
//! [`scenario`] runs flows over a medium in virtual time. All randomness is seeded: the same calls give the same run.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod frame;
mod medium;
mod phy;
mod rate;
mod reach;
pub mod scenario;
mod station;

pub use frame::{Attempt, Carried, Event, Frame, Receiver, Sent, Times, What};
pub use medium::{Medium, Settings};
pub use phy::Phy;
pub use rate::Rate;
pub use reach::{Propagation, Reach};
pub use station::Counters;

/// Time since an arbitrary start.
pub type Time = core::time::Duration;

/// Number of a station of a [`Medium`], counted from 0.
pub type StationId = usize;

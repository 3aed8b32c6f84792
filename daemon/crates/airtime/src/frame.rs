//! What the caller gives to a medium, and what it gets back.

use alloc::vec::Vec;
use core::time::Duration;

use crate::rate::Rate;
use crate::StationId;

/// To whom a frame is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// Everybody in reach: sent once, and never acknowledged.
    All,
    /// One station.
    Station(StationId),
    /// A station that is not there: repeated as one that does not answer.
    Nobody,
}

/// A row of a frame's rate table: so many attempts at this rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The rate.
    pub rate: Rate,
    /// Number of attempts.
    pub count: u8,
    /// Whether RTS and CTS precede the frame, whatever the station's threshold is.
    pub rts: bool,
}

/// A frame to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The caller's name for it, which comes back in events.
    pub id: u64,
    /// To whom it goes.
    pub to: Receiver,
    /// Octets with header and check sequence.
    pub octets: usize,
    /// The rates, in the order in which they are tried. With none, the slowest basic rate is tried once.
    pub attempts: Vec<Attempt>,
    /// Whether the receiver acknowledges it; broadcasts are never acknowledged.
    pub acknowledged: bool,
    /// Whether it may share one transmission with others to the same station (A-MPDU).
    pub aggregated: bool,
    /// Name of the channel, for instance its frequency: stations on different channels do not hear each other.
    pub channel: u32,
}

/// Where the time of a frame went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Behind other frames of the same station.
    pub queue: Duration,
    /// Waiting for the air: interframe spaces, slots, and the frames of others.
    pub access: Duration,
    /// RTS, CTS and the spaces after them, in the attempt that succeeded.
    pub rts_cts: Duration,
    /// The frame itself, in the attempt that succeeded.
    pub data: Duration,
    /// The acknowledgement and the space before it.
    pub ack: Duration,
    /// Attempts that failed, with the time in which no answer came.
    pub retries: Duration,
}

/// The kind of what a station puts on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A question whether the receiver's air is free.
    Rts,
    /// Its answer.
    Cts,
    /// Frames of the caller.
    Data,
    /// An acknowledgement of one frame.
    Ack,
    /// An acknowledgement of an aggregate.
    BlockAck,
}

/// A frame of the caller within a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The frame.
    pub id: u64,
    /// Its octets with header and check sequence.
    pub octets: usize,
    /// Whether it was sent before.
    pub retry: bool,
}

/// What a station puts on the air, as a radio that hears everything captures it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// When its preamble begins.
    pub at: Duration,
    /// Who sends it.
    pub from: StationId,
    /// To whom it is addressed.
    pub to: Receiver,
    /// What it is.
    pub what: What,
    /// At which rate.
    pub rate: Rate,
    /// The caller's frames in it: none unless it is data, several in an aggregate.
    pub carried: Vec<Carried>,
}

/// What happened on the air.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A station received a frame.
    Received {
        /// The frame.
        id: u64,
        /// Who sent it.
        from: StationId,
        /// Who received it; others than the addressed one overhear it.
        to: StationId,
        /// Signal over noise in dB.
        snr_db: f64,
        /// Rate at which it came.
        rate: Rate,
        /// Whether it was addressed to this station, or to all.
        addressed: bool,
        /// Whether it is a repetition by the sender.
        retry: bool,
        /// Whether the addressed station has received this frame before.
        duplicate: bool,
    },
    /// A station has finished with a frame.
    Done {
        /// The frame.
        id: u64,
        /// Who sent it.
        station: StationId,
        /// Whether it was acknowledged; true for a frame that asks for none.
        acknowledged: bool,
        /// Attempts made, of which the last one may have succeeded. 0: it never left the station.
        attempts: u32,
        /// Where the time went.
        times: Times,
    },
}

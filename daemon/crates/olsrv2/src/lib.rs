//! OLSRv2 (RFC 7181), sans-IO.
//!
//! [`Router`] takes packets, interface events and the time, and gives packets
//! to send, changes of its information bases and the time of its next timer.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod accept;
mod address;
mod airtime;
mod belief;
mod config;
mod duplicate;
mod event;
mod evict;
mod expected;
mod extension;
mod hello;
mod instance;
mod mpr;
mod outbox;
mod own_counters;
mod own_seqno;
mod pause;
mod quote;
mod rate;
mod refusal;
mod router;
mod routing;
mod seen;
mod seqnum;
mod signatures;
mod speakers;
mod tc;
mod tc_error;
mod tier;
mod topology;
mod view;
mod voice;
mod window;
mod word;

pub use accept::{Accept, AcceptedNetwork};
pub use airtime::{Airtime, Measurement, ACCESS, BAND, MAXIMUM_LOSS, PAUSE, SMOOTHING};
pub use config::{Attached, Config, HelloTiming, Limits, Timing};
pub use event::{Counters, Event, InterfaceEvent, Transmit};
pub use nhdp::{Family, InterfaceId, LinkStatus, Time};
pub use refusal::{Refusal, RefusalClaim, RefusalKind, RefusalSource};
pub use rfc5444::{Metric, Prefix};
pub use router::{Router, ToSign, Verify};
pub use signatures::{Signatures, TrustedKey};
pub use view::{
    AttachedView, EdgeView, InterfaceView, LinkView, NeighbourView, NodeView, RouteView, TwoHopView,
};

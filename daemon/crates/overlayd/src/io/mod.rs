//! Input and output: datagrams and frames in batches, the TUN device, and the buffers between them.

#[cfg(test)]
mod allocations;
pub mod beacons;
pub mod buffers;
mod checksum;
pub mod ethernet;
mod headers;
mod interfaces;
pub mod links;
mod offload;
mod outbox;
mod pieces;
mod ring;
mod system;
pub mod tun;
pub mod udp;

pub use outbox::Flow;
pub use system::peer_user;

use overlay_node::LinkAddress;

use buffers::Part;

/// A frame that an interface has received.
pub struct Arrival {
    /// Its sender.
    pub from: LinkAddress,
    /// Whether it was marked as a beacon.
    pub is_beacon: bool,
    /// The frame.
    pub frame: Part,
}

/// What an interface has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Frames that came.
    pub frames_in: u64,
    /// Calls of the kernel that brought them.
    pub calls_in: u64,
    /// Frames that were sent.
    pub frames_out: u64,
    /// Calls of the kernel that took them.
    pub calls_out: u64,
    /// Frames and beacons that came and were malformed.
    pub malformed: u64,
    /// Frames that came and were longer than any frame may be.
    pub oversize: u64,
    /// How often the kernel took no more for now.
    pub stalls: u64,
    /// Frames that the kernel refused to send.
    pub refused: u64,
    /// Frames to send that were dropped because the interface takes no more.
    pub overflow: u64,
}

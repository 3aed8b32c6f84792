//! Frames of ethertype 0xfc00: `u8 0 | u8 0 | u16 length with these six bytes | u16 fc00`, then the frame. A broadcast
//! is a beacon. A frame that the device is too short for goes in two pieces, which have marks in place of the zeroes.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use overlay_node::LinkAddress;
use socket2::{Domain, Protocol, Socket, Type};

use super::buffers::{Part, Pool, CONTENT_MAX};
use super::interfaces;
use super::outbox::{is_blocked, Flow, Outbox};
use super::pieces::{is_mark, Joiner, Mark, Numbers, WHOLE};
use super::system::{self, Received, Train, BATCH};
use super::udp::enlarge;
use super::{Arrival, IoCounters};

/// Length of the header before each frame in bytes.
const HEADER: usize = 6;
/// The ethertype, which the header repeats.
const ETHERTYPE: u16 = 0xfc00;
/// The broadcast address.
const BROADCAST: [u8; 6] = [0xff; 6];
/// Length of the longest frame with its header. A frame that fits into an Ethernet device is never longer.
const READ_MAX: usize = HEADER + CONTENT_MAX;

/// An Ethernet device that may appear and disappear, with its packet socket while it is present, and the queued frames.
pub struct Ethernet {
    device: String,
    /// The socket with the index of the device. Another device of the same name has another index.
    socket: Option<(i32, Socket)>,
    /// Length of the longest frame that the device takes, without header.
    longest: usize,
    numbers: Numbers,
    joiner: Joiner,
    buffers: Vec<Box<[u8]>>,
    received: Vec<Received>,
    /// Index of the frame to be read next.
    next: usize,
    outbox: Outbox<([u8; 6], Mark)>,
    trains: Vec<Train>,
    /// Its counters.
    pub counters: IoCounters,
}

impl Ethernet {
    /// Opens a socket for a device if the device is present.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open(device: &str) -> io::Result<Self> {
        let mut ethernet = Self {
            device: device.to_owned(),
            socket: None,
            longest: CONTENT_MAX,
            numbers: Numbers::default(),
            joiner: Joiner::default(),
            buffers: (0..BATCH).map(|_| vec![0; READ_MAX].into()).collect(),
            received: Vec::with_capacity(BATCH),
            next: 0,
            outbox: Outbox::default(),
            trains: Vec::with_capacity(BATCH),
            counters: IoCounters::default(),
        };
        ethernet.follow()?;
        Ok(ethernet)
    }

    /// Returns whether the device is present.
    pub const fn is_there(&self) -> bool {
        self.socket.is_some()
    }

    /// Opens a socket for a device that has appeared, and then returns `true`. Closes the socket of one that is gone.
    ///
    /// # Errors
    /// The kernel refuses the socket. An absent device is no error.
    pub fn follow(&mut self) -> io::Result<bool> {
        // No protocol until it is bound, so that it gets no frames of other devices.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(0)))?;
        let there = interfaces::index_if_there(&socket, &self.device)?;
        if let Some(mtu) = interfaces::mtu_if_there(&socket, &self.device)? {
            self.longest = mtu.saturating_sub(HEADER);
        }
        if there == self.socket.as_ref().map(|(index, _)| *index) {
            return Ok(false);
        }
        self.socket = None;
        self.received.clear();
        let Some(index) = there else {
            return Ok(false);
        };
        socket.set_nonblocking(true)?;
        socket.bind(&system::packet_address(index, ETHERTYPE, [0; 6]))?;
        enlarge(&socket);
        self.socket = Some((index, socket));
        Ok(true)
    }

    /// Returns the descriptor of its socket, if there is one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|(_, socket)| socket.as_fd())
    }

    /// Reads waiting frames from the kernel; false if none waits. All of them must be taken with [`Ethernet::next`]
    /// before the next call.
    ///
    /// # Errors
    /// Reading from the socket fails; ENETDOWN once when the device goes down.
    pub fn receive(&mut self) -> io::Result<bool> {
        self.next = 0;
        let Some((_, socket)) = &self.socket else {
            return Ok(false);
        };
        match system::receive(socket, &mut self.buffers, &mut self.received) {
            Ok(()) => {
                self.counters.calls_in += 1;
                Ok(true)
            }
            Err(error) if is_blocked(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the next received frame in a buffer of the pool; `None` if there is no frame or no buffer.
    pub fn next(&mut self, pool: &mut Pool) -> Option<Arrival> {
        loop {
            let received = self.received.get(self.next)?;
            let sender = system::packet_sender(&received.from);
            let frame = content(&self.buffers[self.next][..received.length]);
            let (Some((mac, is_beacon)), Some((mark, piece))) = (sender, frame) else {
                // A truncated frame has length 0.
                *match received.length {
                    0 => &mut self.counters.oversize,
                    _ => &mut self.counters.malformed,
                } += u64::from(sender.is_some());
                self.next += 1;
                continue;
            };
            let Some(frame) = self.joiner.join(mac, mark, piece) else {
                self.next += 1;
                continue;
            };
            let frame = pool.hold(frame)?;
            self.next += 1;
            self.counters.frames_in += 1;
            return Some(Arrival {
                from: LinkAddress::Ethernet(mac),
                is_beacon,
                frame,
            });
        }
    }

    /// Queues a frame, in two pieces if the device is too short for it; `None` means broadcast.
    pub fn push(&mut self, to: Option<[u8; 6]>, frame: Part, pool: &mut Pool) {
        let to = to.unwrap_or(BROADCAST);
        let (outbox, counters) = (&mut self.outbox, &mut self.counters);
        if frame.range.len() <= self.longest {
            outbox.push((to, WHOLE), frame, pool, counters);
            return;
        }
        let Some(halves) = pool.halves(&frame) else {
            counters.overflow += 1;
            pool.give(frame.buffer);
            return;
        };
        for (mark, half) in self.numbers.next_marks().into_iter().zip(halves) {
            outbox.push((to, mark), half, pool, counters);
        }
    }

    /// Returns whether enough frames are queued for a system call.
    pub fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// Sends the queued frames.
    pub fn flush(&mut self, pool: &mut Pool) -> Flow {
        let Some((index, socket)) = &self.socket else {
            let waiting = self.outbox.iter().count();
            self.counters.refused += waiting as u64;
            self.outbox.done(waiting, pool);
            return Flow::Free;
        };
        while !self.outbox.is_empty() {
            let mut headers = [[0; HEADER]; BATCH];
            for (header, ((_, mark), part)) in headers.iter_mut().zip(self.outbox.iter()) {
                *header = header_of(*mark, part.range.len());
            }
            let mut slices = [IoSlice::new(&[]); 2 * BATCH];
            self.trains.clear();
            for (number, ((to, _), part)) in self.outbox.iter().take(BATCH).enumerate() {
                slices[2 * number] = IoSlice::new(&headers[number]);
                slices[2 * number + 1] = IoSlice::new(pool.part(part));
                self.trains.push(Train {
                    to: system::packet_address(*index, ETHERTYPE, *to),
                    slices: 2 * number..2 * number + 2,
                    segment: None,
                });
            }
            let done = match system::send(socket, &self.trains, &slices) {
                Ok(sent) => {
                    self.counters.calls_out += 1;
                    self.counters.frames_out += sent as u64;
                    sent
                }
                Err(error) if is_blocked(&error) => {
                    self.counters.stalls += 1;
                    return Flow::Blocked;
                }
                Err(error) => {
                    log::debug!("ethernet: a frame was refused: {error}");
                    self.counters.refused += 1;
                    1
                }
            };
            self.outbox.done(done, pool);
        }
        Flow::Free
    }
}

/// Returns the header for a frame or piece of `length` bytes, which is less than 64 KiB.
fn header_of([half, number]: Mark, length: usize) -> [u8; HEADER] {
    let [high, low] = ((length + HEADER) as u16).to_be_bytes();
    let [first, second] = ETHERTYPE.to_be_bytes();
    [half, number, high, low, first, second]
}

/// Returns the mark, and the frame or piece without its header and without the padding of the shortest Ethernet frames.
fn content(octets: &[u8]) -> Option<(Mark, &[u8])> {
    let (header, rest) = octets.split_first_chunk::<HEADER>()?;
    let mark = [header[0], header[1]];
    let length = usize::from(u16::from_be_bytes([header[2], header[3]])).checked_sub(HEADER)?;
    let content = rest.get(..length)?;
    let is_sound = is_mark(mark) && *header == header_of(mark, length) && !content.is_empty();
    is_sound.then_some((mark, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_cut_to_its_length() {
        let mut octets = header_of(WHOLE, 3).to_vec();
        octets.extend_from_slice(b"abc filled up");
        assert_eq!(octets[..HEADER], [0, 0, 0, 9, 0xfc, 0]);
        assert_eq!(content(&octets), Some((WHOLE, &b"abc"[..])));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let sound = [0, 0, 0, 7, 0xfc, 0, 1];
        assert!(content(&sound).is_some());
        assert!(content(&sound[..6]).is_none());
        for (at, octet) in [(0, 3), (1, 1), (3, 5), (3, 6), (3, 8), (4, 0xfb), (5, 1)] {
            let mut wrong = sound;
            wrong[at] = octet;
            assert!(content(&wrong).is_none(), "{wrong:?}");
        }
    }
}

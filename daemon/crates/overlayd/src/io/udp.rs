//! UDP in batches: many datagrams in each system call, and many in each datagram of the kernel (UDP_SEGMENT, UDP_GRO).

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use overlay_node::LinkAddress;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::buffers::{Part, Pool, CONTENT_MAX};
use super::outbox::{is_blocked, Flow, Outbox};
use super::system::{self, Received, Train, BATCH};
use super::{Arrival, IoCounters};

/// Number of buffers that one call reads. The kernel may join many datagrams in one of them (UDP_GRO).
const READS: usize = 8;
/// Longest datagram in bytes, joined ones included.
const READ_MAX: usize = 65_535;
/// Largest number of frames that one call sends.
const SLICES: usize = 256;
/// Largest number of frames in a train (UDP_MAX_SEGMENTS of kernels before 6.9).
const TRAIN_FRAMES: usize = 64;
/// Largest length of a train in bytes. It leaves space for the headers of IPv6 and UDP.
const TRAIN_MAX: usize = 65_000;
/// Receive buffer in bytes, about ten milliseconds of the fastest traffic.
const RECEIVE_BUFFER: i32 = 4 << 20;

/// A UDP socket with the frames that it has received and those that it will send.
pub struct Udp {
    socket: UdpSocket,
    inbox: Inbox,
    outbox: Outbox<SocketAddr>,
    trains: Vec<Train>,
    /// Whether the kernel accepts several frames as one train.
    can_segment: bool,
    /// Number of the first frames that are sent separately, because the kernel refused them as a train.
    singly: usize,
    /// Its counters.
    pub counters: IoCounters,
}

struct Inbox {
    buffers: Vec<Box<[u8]>>,
    received: Vec<Received>,
    /// The datagram to be read next, and the offset in it.
    datagram: usize,
    offset: usize,
}

impl Udp {
    /// Opens a socket.
    ///
    /// # Errors
    /// The address is not one of this machine, or is in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        enlarge(&socket);
        // Kernels before 5.0 do not join datagrams; each arrives separately.
        if let Err(error) = system::set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1) {
            log::info!("udp {address}: the kernel does not join datagrams: {error}");
        }
        Ok(Self {
            socket: socket.into(),
            inbox: Inbox {
                buffers: (0..READS).map(|_| vec![0; READ_MAX].into()).collect(),
                received: Vec::with_capacity(BATCH),
                datagram: 0,
                offset: 0,
            },
            outbox: Outbox::default(),
            trains: Vec::with_capacity(BATCH),
            can_segment: true,
            singly: 0,
            counters: IoCounters::default(),
        })
    }

    /// Returns the address that it is bound to.
    ///
    /// # Errors
    /// The socket fails.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Reads waiting frames from the kernel; false if none waits. All of them must be taken with [`Udp::next`] before
    /// the next call.
    ///
    /// # Errors
    /// The socket fails.
    pub fn receive(&mut self) -> io::Result<bool> {
        let inbox = &mut self.inbox;
        (inbox.datagram, inbox.offset) = (0, 0);
        match system::receive(&self.socket, &mut inbox.buffers, &mut inbox.received) {
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
            let (from, frame) = self.inbox.peek()?;
            if frame.is_empty() || frame.len() > CONTENT_MAX {
                *match frame.is_empty() {
                    true => &mut self.counters.malformed,
                    false => &mut self.counters.oversize,
                } += 1;
                self.inbox.pass();
                continue;
            }
            let Some(from) = from.as_socket() else {
                self.inbox.pass();
                continue;
            };
            let frame = pool.hold(frame)?;
            self.inbox.pass();
            self.counters.frames_in += 1;
            return Some(Arrival {
                from: LinkAddress::Udp(canonical(from)),
                is_beacon: false,
                frame,
            });
        }
    }

    /// Queues a frame.
    pub fn push(&mut self, to: SocketAddr, frame: Part, pool: &mut Pool) {
        self.outbox.push(to, frame, pool, &mut self.counters);
    }

    /// Returns whether enough frames are queued for a system call.
    pub fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// Sends the queued frames.
    pub fn flush(&mut self, pool: &mut Pool) -> Flow {
        while !self.outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            self.form_trains(&mut slices, pool);
            let frames = |trains: &[Train]| trains.iter().map(|train| train.slices.len()).sum();
            let frames: usize = match system::send(&self.socket, &self.trains, &slices) {
                Ok(sent) => {
                    let frames: usize = frames(&self.trains[..sent]);
                    self.counters.calls_out += 1;
                    self.counters.frames_out += frames as u64;
                    frames
                }
                Err(error) if is_blocked(&error) => {
                    self.counters.stalls += 1;
                    return Flow::Blocked;
                }
                Err(error) => {
                    let refused = frames(&self.trains[..1]);
                    self.refused(refused, &error)
                }
            };
            self.singly = self.singly.saturating_sub(frames);
            self.outbox.done(frames, pool);
        }
        Flow::Free
    }

    /// Handles an error for a train of `frames` frames. Returns how many of them are dropped.
    fn refused(&mut self, frames: usize, error: &io::Error) -> usize {
        if frames > 1 {
            // Either the path to this receiver accepts only shorter frames in a train, or the device accepts no trains.
            if error.raw_os_error() == Some(Errno::IO.raw_os_error()) {
                log::info!(
                    "udp: the device does not split joined datagrams; they are sent one by one"
                );
                self.can_segment = false;
            }
            self.singly = frames;
            return 0;
        }
        log::debug!("udp: a frame was refused: {error}");
        self.counters.refused += 1;
        1
    }

    /// Joins consecutive frames to the same receiver.
    fn form_trains<'a>(&mut self, slices: &mut [IoSlice<'a>; SLICES], pool: &'a Pool) {
        self.trains.clear();
        let mut open: Option<Open> = None;
        for (number, (to, part)) in self.outbox.iter().take(SLICES).enumerate() {
            let frame = pool.part(part);
            let alone = !self.can_segment || number < self.singly;
            slices[number] = IoSlice::new(frame);
            if let (Some(open), Some(train)) = (&mut open, self.trains.last_mut()) {
                if !alone && open.takes(*to, frame.len()) {
                    train.slices.end += 1;
                    train.segment = Some(open.segment as u16);
                    continue;
                }
            }
            if self.trains.len() == BATCH {
                break;
            }
            self.trains.push(Train {
                to: SockAddr::from(*to),
                slices: number..number + 1,
                segment: None,
            });
            open = (!alone).then(|| Open::with(*to, frame.len()));
        }
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Inbox {
    fn peek(&self) -> Option<(&SockAddr, &[u8])> {
        let received = self.received.get(self.datagram)?;
        let whole = &self.buffers[self.datagram][..received.length];
        let rest = &whole[self.offset.min(whole.len())..];
        let length = received.segment.unwrap_or(rest.len()).min(rest.len());
        Some((&received.from, &rest[..length]))
    }

    /// Skips the frame that [`Inbox::peek`] returns.
    fn pass(&mut self) {
        let Some(length) = self.peek().map(|(_, frame)| frame.len()) else {
            return;
        };
        self.offset += length;
        if self.offset >= self.received[self.datagram].length {
            (self.datagram, self.offset) = (self.datagram + 1, 0);
        }
    }
}

/// The last train while it grows.
struct Open {
    to: SocketAddr,
    segment: usize,
    octets: usize,
    frames: usize,
    /// A shorter frame ends a train.
    ended: bool,
}

impl Open {
    fn with(to: SocketAddr, length: usize) -> Self {
        Self {
            to,
            segment: length,
            octets: length,
            frames: 1,
            ended: false,
        }
    }

    fn takes(&mut self, to: SocketAddr, length: usize) -> bool {
        let takes = !self.ended
            && to == self.to
            && length <= self.segment
            && length > 0
            && self.frames < TRAIN_FRAMES
            && self.octets + length <= TRAIN_MAX;
        if takes {
            self.octets += length;
            self.frames += 1;
            self.ended = length < self.segment;
        }
        takes
    }
}

/// Returns the address without its flow label, which is no part of a neighbour's address.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(mut address) => {
            address.set_flowinfo(0);
            address.into()
        }
        address => address,
    }
}

/// Gives a socket a larger receive buffer than the default, if this process may. The send buffer stays small: its
/// contents have no order of precedence, and on a slow radio they would wait for seconds.
pub fn enlarge(socket: &Socket) {
    let set = |name| system::set_option(socket, libc::SOL_SOCKET, name, RECEIVE_BUFFER);
    if set(libc::SO_RCVBUFFORCE).is_err() && set(libc::SO_RCVBUF).is_err() {
        log::debug!("the socket's receive buffer cannot be enlarged");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::{Duration, Instant};

    use super::*;

    fn pair() -> (Udp, Udp, SocketAddr) {
        let sender = Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let receiver = Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = receiver.local_address().unwrap();
        (sender, receiver, to)
    }

    /// All frames that come, until there are `count`.
    fn frames(receiver: &mut Udp, pool: &mut Pool, count: usize) -> VecDeque<Vec<u8>> {
        let mut frames = VecDeque::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while frames.len() < count {
            assert!(Instant::now() < deadline, "{} of {count}", frames.len());
            if !receiver.receive().unwrap() {
                std::thread::yield_now();
            }
            while let Some(arrival) = receiver.next(pool) {
                frames.push_back(pool.part(&arrival.frame).to_vec());
                pool.give(arrival.frame.buffer);
            }
        }
        frames
    }

    #[test]
    fn frames_of_every_length_arrive_in_order_in_few_calls() {
        let (mut sender, mut receiver, to) = pair();
        let mut pool = Pool::new(300);
        let lengths = [1400, 1400, 1400, 900, 1400, 20, 20, 20, 1, 1500];
        let sent: VecDeque<_> = (0..200_usize)
            .map(|number| vec![number as u8; lengths[number % lengths.len()]])
            .collect();
        for frame in &sent {
            let part = pool.hold(frame).unwrap();
            sender.push(to, part, &mut pool);
        }
        assert_eq!(sender.flush(&mut pool), Flow::Free);
        assert_eq!(frames(&mut receiver, &mut pool, sent.len()), sent);
        assert_eq!(pool.free(), 300);
        assert_eq!(sender.counters.frames_out, 200);
        assert!(sender.counters.calls_out <= 10, "{:?}", sender.counters);
    }

    #[test]
    fn what_the_kernel_refuses_as_a_train_is_sent_frame_by_frame() {
        let (mut sender, mut receiver, to) = pair();
        let mut pool = Pool::new(20);
        for _ in 0..5 {
            let part = pool.hold(&[7; 100]).unwrap();
            sender.push(to, part, &mut pool);
        }
        assert_eq!(sender.refused(5, &Errno::IO.into()), 0);
        assert_eq!(sender.flush(&mut pool), Flow::Free);
        assert_eq!(frames(&mut receiver, &mut pool, 5).len(), 5);
        assert!(!sender.can_segment && sender.singly == 0);
    }

    #[test]
    fn a_frame_that_cannot_be_sent_is_counted_and_holds_nobody_up() {
        let (mut sender, mut receiver, to) = pair();
        let mut pool = Pool::new(4);
        let nowhere = "127.0.0.1:0".parse().unwrap();
        for to in [nowhere, to] {
            let part = pool.hold(b"frame").unwrap();
            sender.push(to, part, &mut pool);
        }
        assert_eq!(sender.flush(&mut pool), Flow::Free);
        assert_eq!(frames(&mut receiver, &mut pool, 1).len(), 1);
        assert_eq!((sender.counters.refused, pool.free()), (1, 4));
    }
}

//! The TUN device, which carries this machine's packets, in pieces of up to 64 KiB if its kernel supports them.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use daemonkit::Time;
use socket2::{Domain, Socket, Type};

use overlay_node::HEAD_ROOM;

use super::buffers::{Part, Pool, CONTENT_MAX};
use super::interfaces;
use super::offload::{Cutter, Offload, Train, JOINED_MAX, OFFLOAD, PIECE_MAX};
use super::ring::Ring;

const DEVICE: &str = "/dev/net/tun";
/// Prefix length of fc00::/8, which contains all nodes, so that the device becomes the route to them.
const PREFIX: u8 = 8;
/// Checksums and segmentation of TCP alone, and with those of UDP (kernels from 6.2 on).
const TCP_FEATURES: u32 =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const ALL_FEATURES: u32 = TCP_FEATURES | libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// Counters of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunCounters {
    /// Packets from this machine.
    pub packets_in: u64,
    /// Pieces in which they arrived.
    pub pieces_in: u64,
    /// Packets to this machine.
    pub packets_out: u64,
    /// Pieces in which they were written.
    pub pieces_out: u64,
    /// Pieces that could not be cut, or are longer than a packet may be.
    pub malformed: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
}

/// The device, and the piece that was read from it.
pub struct Tun {
    device: File,
    name: String,
    index: u32,
    mtu: u16,
    piece: Box<[u8]>,
    waiting: Vec<Part>,
    joins_udp: bool,
    ring: Ring,
    /// Its counters.
    pub counters: TunCounters,
}

impl Tun {
    /// Creates the device. It is deleted when this is dropped.
    ///
    /// # Errors
    /// The kernel refuses something; the error names it.
    pub fn open(name: &str) -> io::Result<Self> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(DEVICE)
            .map_err(|error| daemonkit::named(DEVICE, &error))?;
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let name = interfaces::tun_attach(&device, name, flags)?;
        let joins_udp = interfaces::tun_offload(&device, ALL_FEATURES).is_ok();
        if !joins_udp && interfaces::tun_offload(&device, TCP_FEATURES).is_err() {
            log::info!("{name}: the kernel does not support segmentation offload");
        }
        Ok(Self::over(device, name, joins_udp))
    }

    /// Uses a descriptor on which each read and each write is one piece.
    pub(super) fn over(device: File, name: String, joins_udp: bool) -> Self {
        Self {
            device,
            name,
            index: 0,
            mtu: 0,
            piece: vec![0; OFFLOAD + PIECE_MAX].into(),
            waiting: Vec::with_capacity(JOINED_MAX),
            joins_udp,
            ring: Ring::default(),
            counters: TunCounters::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its index, once it is configured.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Returns its MTU in bytes, once it is configured.
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Brings the device up. An address, if given, also makes it the route to all nodes.
    ///
    /// # Errors
    /// The kernel refuses something; the error names it.
    pub fn configure(&mut self, address: Option<Ipv6Addr>, mtu: u16) -> io::Result<()> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        interfaces::set_mtu(&socket, &self.name, mtu)
            .map_err(|error| daemonkit::named(&format!("mtu {mtu}"), &error))?;
        interfaces::set_up(&socket, &self.name)?;
        let index = interfaces::index_of(&socket, &self.name)?;
        (self.index, self.mtu) = (index.unsigned_abs(), mtu);
        let Some(address) = address else {
            return Ok(());
        };
        interfaces::add_address(&socket, index, address.octets(), PREFIX)
            .map_err(|error| daemonkit::named(&format!("address {address}"), &error))
    }

    /// Reads a piece from the kernel; `None` if none waits, and an empty one if the piece is useless.
    ///
    /// # Errors
    /// The device was deleted.
    pub fn receive(&mut self) -> io::Result<Option<Packets<'_>>> {
        let length = match self.device.read(&mut self.piece) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        self.counters.pieces_in += 1;
        let cutter = self.piece[..length]
            .split_first_chunk_mut::<OFFLOAD>()
            .and_then(|(beside, piece)| Cutter::new(&Offload::decode(beside), piece).ok())
            .filter(|cutter| cutter.longest() <= CONTENT_MAX);
        self.counters.malformed += u64::from(cutter.is_none());
        Ok(Some(Packets {
            cutter,
            counters: &mut self.counters,
        }))
    }

    /// Notes that a turn that started with the counters `before` has left packets in the ring.
    pub fn note_crowd(&mut self, now: Time, before: &TunCounters) {
        let pieces = self.counters.pieces_in - before.pieces_in;
        let packets = self.counters.packets_in - before.packets_in;
        if let Some(length) = self.ring.crowd(now, pieces, packets) {
            self.set_queue_length(length);
        }
    }

    /// Notes that an interface is blocked.
    pub fn note_stall(&mut self, now: Time) {
        if let Some(length) = self.ring.stall(now) {
            self.set_queue_length(length);
        }
    }

    fn set_queue_length(&self, length: u16) {
        let set = || {
            let name = interfaces::tun_name(&self.device)?;
            let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
            interfaces::set_queue_length(socket, &name, length)
        };
        match set() {
            Ok(()) => log::debug!("{}: the queue has {length} places now", self.name),
            Err(error) => log::debug!(
                "{}: the length of the queue cannot be changed: {error}",
                self.name
            ),
        }
    }

    /// Queues a packet.
    pub fn push(&mut self, packet: Part) {
        self.waiting.push(packet);
    }

    /// Writes the queued packets to the kernel.
    pub fn flush(&mut self, pool: &mut Pool) {
        let mut at = 0;
        while at < self.waiting.len() {
            at += self.write_piece(at, pool);
        }
        for part in self.waiting.drain(..) {
            pool.give(part.buffer);
        }
    }

    /// Writes the packet at `at` and all that follow it in its flow. Returns their number.
    fn write_piece(&mut self, at: usize, pool: &mut Pool) -> usize {
        let train = Train::begin(pool.part(&self.waiting[at]))
            .filter(|train| self.joins_udp || train.is_tcp());
        let (mut count, mut skipped, mut beside) = (1, 0, Offload::default());
        if let Some(mut train) = train {
            let follows = |part: &&Part| train.takes(pool.part(&self.waiting[at]), pool.part(part));
            count += self.waiting[at + 1..].iter().take_while(follows).count();
            skipped = train.header();
            beside = train.finish(pool.part_mut(&self.waiting[at]));
        }
        let beside = beside.encode();
        let mut slices = [IoSlice::new(&[]); 1 + JOINED_MAX];
        slices[0] = IoSlice::new(&beside);
        for (number, part) in self.waiting[at..at + count].iter().enumerate() {
            let packet = pool.part(part);
            slices[1 + number] = IoSlice::new(if number == 0 {
                packet
            } else {
                &packet[skipped..]
            });
        }
        match (&self.device).write_vectored(&slices[..1 + count]) {
            Ok(_) => {
                self.counters.pieces_out += 1;
                self.counters.packets_out += count as u64;
            }
            Err(error) => {
                log::debug!("{}: a packet was refused: {error}", self.name);
                self.counters.refused += count as u64;
            }
        }
        count
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// The packets of a piece.
pub struct Packets<'a> {
    cutter: Option<Cutter<'a>>,
    counters: &'a mut TunCounters,
}

impl Packets<'_> {
    /// Returns the next packet in a buffer of the pool. The pool must have a free buffer.
    pub fn next(&mut self, pool: &mut Pool) -> Option<Part> {
        let cutter = self.cutter.as_mut()?;
        let buffer = pool.take()?;
        let Some(length) = cutter.cut(&mut pool.octets_mut(buffer)[HEAD_ROOM..]) else {
            pool.give(buffer);
            return None;
        };
        self.counters.packets_in += 1;
        Some(Part {
            buffer,
            range: HEAD_ROOM..HEAD_ROOM + length,
        })
    }
}

//! The TUN device, by which this machine's packets come and go: in pieces of up to 64 KiB, where its kernel can.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use daemonkit::Time;
use socket2::{Domain, Socket, Type};

use overlay_node::HEAD_ROOM;

use super::buffers::{Part, Pool, CONTENT_MAX};
use super::offload::{Cutter, Offload, Train, JOINED_MAX, OFFLOAD, PIECE_MAX};
use super::ring::Ring;
use super::system;

const DEVICE: &str = "/dev/net/tun";
/// All nodes are in fc00::/8, which makes the device the way to them.
const PREFIX: u8 = 8;
/// Checksums and segmentation of TCP, without and with that of UDP (kernels from 6.2 on).
const TCP_FEATURES: u32 =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const ALL_FEATURES: u32 = TCP_FEATURES | libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// What was counted at the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunCounters {
    /// Packets of this machine.
    pub packets_in: u64,
    /// Pieces that they came in.
    pub pieces_in: u64,
    /// Packets to this machine.
    pub packets_out: u64,
    /// Pieces that they went in.
    pub pieces_out: u64,
    /// What could not be cut, or is longer than a packet may be.
    pub malformed: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
}

/// The device with the piece that was read from it.
pub struct Tun {
    device: File,
    name: String,
    index: u32,
    mtu: u16,
    piece: Box<[u8]>,
    waiting: Vec<Part>,
    joins_udp: bool,
    ring: Ring,
    /// What was counted.
    pub counters: TunCounters,
}

impl Tun {
    /// Makes the device; it goes when it is dropped.
    ///
    /// # Errors
    /// What the kernel refuses, named.
    pub fn open(name: &str) -> io::Result<Self> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(DEVICE)
            .map_err(|error| daemonkit::named(DEVICE, &error))?;
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let name = system::tun_attach(&device, name, flags)?;
        let joins_udp = system::tun_offload(&device, ALL_FEATURES).is_ok();
        if !joins_udp && system::tun_offload(&device, TCP_FEATURES).is_err() {
            log::info!("{name}: the kernel cuts all packets itself");
        }
        Ok(Self::over(device, name, joins_udp))
    }

    /// Moves pieces over a descriptor by which each read and each write is one piece.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its index, once it is configured.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Its MTU in octets, once it is configured.
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Brings the device up, and gives it an address and with it the way to all nodes.
    ///
    /// # Errors
    /// What the kernel refuses, named.
    pub fn configure(&mut self, address: Option<Ipv6Addr>, mtu: u16) -> io::Result<()> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        system::set_mtu(&socket, &self.name, mtu)
            .map_err(|error| daemonkit::named(&format!("mtu {mtu}"), &error))?;
        system::set_up(&socket, &self.name)?;
        let index = system::index_of(&socket, &self.name)?;
        (self.index, self.mtu) = (index.unsigned_abs(), mtu);
        let Some(address) = address else {
            return Ok(());
        };
        system::add_address(&socket, index, address.octets(), PREFIX)
            .map_err(|error| daemonkit::named(&format!("address {address}"), &error))
    }

    /// Takes a piece from the kernel; `None` when none waits, and an empty one when it is of no use.
    ///
    /// # Errors
    /// The device's: it was deleted.
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

    /// Notes that a turn which began with these counters has left packets behind.
    pub fn note_crowd(&mut self, now: Time, before: &TunCounters) {
        let pieces = self.counters.pieces_in - before.pieces_in;
        let packets = self.counters.packets_in - before.packets_in;
        if let Some(length) = self.ring.crowd(now, pieces, packets) {
            self.set_queue_length(length);
        }
    }

    /// Notes that an interface takes no more for now.
    pub fn note_stall(&mut self, now: Time) {
        if let Some(length) = self.ring.stall(now) {
            self.set_queue_length(length);
        }
    }

    fn set_queue_length(&self, length: u16) {
        let set = || {
            let name = system::tun_name(&self.device)?;
            let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
            system::set_queue_length(socket, &name, length)
        };
        match set() {
            Ok(()) => log::debug!("{}: {length} pieces may wait", self.name),
            Err(error) => log::debug!("{}: the queue stays as long as it is: {error}", self.name),
        }
    }

    /// Puts a packet behind those that wait.
    pub fn push(&mut self, packet: Part) {
        self.waiting.push(packet);
    }

    /// Gives the kernel what waits.
    pub fn flush(&mut self, pool: &mut Pool) {
        let mut at = 0;
        while at < self.waiting.len() {
            at += self.write_piece(at, pool);
        }
        for part in self.waiting.drain(..) {
            pool.give(part.buffer);
        }
    }

    /// Writes the packet at `at` with all that follow it in its flow; how many they are.
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
    /// The next packet, in a buffer of the pool, which must have one.
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

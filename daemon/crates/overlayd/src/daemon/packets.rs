//! Frames and packets between interfaces, node and TUN device.

use std::io;

use daemonkit::{now, Time};
use overlay_node::{Destination, InterfaceId, Verdict};

use super::{Daemon, PACKETS, ROUNDS};
use crate::io::buffers::{Buffer, Part};
use crate::io::tun::Tun;
use crate::io::Arrival;

impl Daemon {
    /// Reads packets of this machine from the TUN device.
    pub(super) fn take_packets(&mut self) -> io::Result<()> {
        // Moved out of `self`, because the node and the pool are used while it is read.
        let Some(mut tun) = self.tun.take() else {
            return Ok(());
        };
        let before = tun.counters;
        let mut taken = Ok(0);
        let mut packets = 0;
        while packets < PACKETS && !self.ports.iter().any(|port| port.is_blocked) {
            taken = self.take_piece(&mut tun);
            match taken {
                Ok(count) if count > 0 => packets += count,
                Ok(_) | Err(_) => break,
            }
        }
        if packets >= PACKETS {
            tun.note_crowd(now(), &before);
        }
        self.tun = Some(tun);
        taken.map(drop)
    }

    /// Reads one piece from the device. Returns the number of packets and pieces, 0 if nothing waits.
    pub(super) fn take_piece(&mut self, tun: &mut Tun) -> io::Result<usize> {
        let now = now();
        let Some(mut packets) = tun.receive()? else {
            return Ok(0);
        };
        let mut count = 1;
        while let Some(Part { buffer, range }) = packets.next(&mut self.pool) {
            let octets = self.pool.octets_mut(buffer);
            let verdict = self.node.send_packet(now, &mut self.rng, octets, range);
            self.obey(buffer, verdict);
            self.drain(now);
            self.flush_when_short();
            count += 1;
        }
        Ok(count)
    }

    /// Reads frames of other nodes from an interface.
    pub(super) fn take_frames(&mut self, number: usize) {
        for _ in 0..ROUNDS {
            let now = now();
            match self.ports[number].receive() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    log::warn!("{}: {error}", self.ports[number].name);
                    break;
                }
            }
            while let Some(arrival) = self.ports[number].next(&mut self.pool) {
                self.take_frame(now, self.ports[number].id, arrival);
                self.flush_when_short();
            }
        }
    }

    pub(super) fn take_frame(&mut self, now: Time, interface: InterfaceId, arrival: Arrival) {
        let Part { buffer, range } = arrival.frame;
        let octets = self.pool.octets_mut(buffer);
        if arrival.is_beacon {
            let beacon = &octets[range];
            self.node
                .receive_beacon(now, interface, &arrival.from, beacon);
            self.pool.give(buffer);
        } else {
            let (rng, from) = (&mut self.rng, &arrival.from);
            let verdict = self.node.receive(now, rng, interface, from, octets, range);
            self.obey(buffer, verdict);
        }
        self.drain(now);
    }

    pub(super) fn take_beacons(&mut self, number: usize) {
        let now = now();
        for _ in 0..ROUNDS {
            let port = &mut self.ports[number];
            let Some((from, beacon)) = port.next_beacon() else {
                break;
            };
            self.node.receive_beacon(now, port.id, &from, &beacon);
            self.drain(now);
        }
    }

    /// Transmits, delivers or frees a buffer, as the node decided.
    pub(super) fn obey(&mut self, buffer: Buffer, verdict: Verdict) {
        match verdict {
            Verdict::Nothing => self.pool.give(buffer),
            Verdict::Transmit {
                interface,
                to,
                frame: range,
            } => self.push(interface, Destination::Unicast(to), Part { buffer, range }),
            Verdict::Deliver { packet: range } => self.deliver(Part { buffer, range }),
        }
    }

    pub(super) fn push(&mut self, interface: InterfaceId, to: Destination, frame: Part) {
        match self.ports.get_mut(usize::from(interface.number())) {
            Some(port) => port.push(to, frame, &mut self.pool),
            None => self.pool.give(frame.buffer),
        }
    }

    pub(super) fn deliver(&mut self, packet: Part) {
        match &mut self.tun {
            Some(tun) => tun.push(packet),
            None => self.pool.give(packet.buffer),
        }
    }

    /// Sends the frames that the node originates, and reports its events.
    pub(super) fn drain(&mut self, now: Time) {
        self.transmit(now);
        let mut published = false;
        while let Some(event) = self.node.poll_event() {
            self.publish(now, &event);
            published = true;
        }
        if published {
            // A search of the admin API asks its next question when the last one is answered.
            self.transmit(now);
        }
    }

    pub(super) fn transmit(&mut self, now: Time) {
        while let Some(buffer) = self.pool.take() {
            let octets = self.pool.octets_mut(buffer);
            let Some(said) = self.node.poll_transmit(now, &mut self.rng, octets) else {
                self.pool.give(buffer);
                break;
            };
            let range = said.frame;
            self.push(said.interface, said.to, Part { buffer, range });
            self.flush_when_short();
        }
    }
}

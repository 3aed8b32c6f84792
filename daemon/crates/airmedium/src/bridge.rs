//! Between hwsim's frames and the model of the air: addresses become stations, rate tables become attempts, and what
//! happens on the air becomes orders to the kernel. It has no I/O.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use airtime::{Attempt, Counters, Event, Frame, Medium, Rate, Receiver, StationId, Time};

use crate::config::{Config, Station};
use crate::hwsim::{self, Mac, Row, Sent, NO_ACK, NO_ROW, ROWS, STAT_ACK};

/// Octets of the check sequence, which hwsim's frames lack.
const FCS_OCTETS: usize = 4;
/// Most addresses of all radios that are remembered; a radio has one for each interface.
const ADDRESSES_MAX: usize = 4096;
/// Time after which a radio that took no frame is tried again.
const AWAY: Duration = Duration::from_millis(500);
/// Bit rates of hwsim's radios in kbit/s, by index in the 2.4 GHz band; the 5 GHz band begins with the fifth.
const LEGACY_KBPS: [u32; 12] = [
    1000, 2000, 5500, 11_000, 6000, 9000, 12_000, 18_000, 24_000, 36_000, 48_000, 54_000,
];
const CCK_RATES: usize = 4;
const LOWEST_5_GHZ_MHZ: u32 = 5000;
/// The retry bit in the second octet of the frame control field.
const RETRY_BIT: u8 = 0x08;
/// Where a frame has its receiver's and its sender's address.
const RECEIVER_AT: usize = 4;
const SENDER_AT: usize = 10;
/// The bit of an address's first octet that says that it is a group's.
const GROUP_BIT: u8 = 1;

/// What the kernel must be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A radio receives a frame.
    Deliver {
        /// The permanent address of the radio.
        radio: Mac,
        /// The frame.
        octets: Vec<u8>,
        /// Index of its rate in its band.
        rate_index: u32,
        /// Signal in dBm.
        signal_dbm: i32,
        /// Frequency in MHz.
        frequency: u32,
    },
    /// A radio has finished with a frame.
    Report {
        /// The permanent address of the radio.
        radio: Mac,
        /// The kernel's name for the frame.
        cookie: u64,
        /// Flags of the transmission, with the acknowledgement.
        flags: u32,
        /// Attempts made.
        rows: [Row; ROWS],
        /// Signal in dBm.
        signal_dbm: i32,
    },
}

/// A frame that is in a queue or on the air.
#[derive(Debug)]
struct Held {
    sent: Sent,
    to: Receiver,
}

/// The medium, and what it knows of hwsim's radios.
#[derive(Debug)]
pub struct Bridge {
    medium: Medium,
    config: Config,
    owners: BTreeMap<Mac, StationId>,
    held: BTreeMap<u64, Held>,
    next_id: u64,
    /// Radios that took no frame, with the time at which they are tried again.
    away: BTreeMap<StationId, Time>,
    orders: VecDeque<Order>,
    /// Frames of radios that the configuration does not name.
    strangers: u64,
}

impl Bridge {
    /// Returns a medium in which nothing has been sent.
    pub fn new(config: Config, now: Time) -> Self {
        let medium = Medium::new(config.settings.clone(), config.reach.clone(), now);
        let mut owners = BTreeMap::new();
        for (id, station) in config.stations.iter().enumerate() {
            let mut second = station.radio;
            second[0] |= 0x40;
            owners.insert(station.radio, id);
            owners.insert(second, id);
        }
        let mut bridge = Self {
            medium,
            config,
            owners,
            held: BTreeMap::new(),
            next_id: 0,
            away: BTreeMap::new(),
            orders: VecDeque::new(),
            strangers: 0,
        };
        bridge.set_thresholds();
        bridge
    }

    /// Moves stations, and sets thresholds: takes what may change at run time from another configuration.
    ///
    /// # Errors
    /// It has other radios. Nothing is changed then.
    pub fn reconfigure(&mut self, config: Config) -> Result<(), String> {
        let radios = |config: &Config| -> Vec<Mac> {
            let stations = config.stations.iter();
            stations.map(|station| station.radio).collect()
        };
        if radios(&config) != radios(&self.config) {
            return Err(
                "its stations have other radios; restart airmedium to change them".to_owned(),
            );
        }
        self.medium.set_reach(config.reach.clone());
        self.config = config;
        self.set_thresholds();
        Ok(())
    }

    fn set_thresholds(&mut self) {
        for (id, station) in self.config.stations.iter().enumerate() {
            self.medium.set_rts_threshold(id, station.rts);
        }
    }

    /// Takes a frame that a radio sends. One of a radio that the configuration does not name is lost.
    pub fn handle_frame(&mut self, now: Time, sent: Sent) {
        self.handle_timeout(now);
        let place = |station: &Station| station.radio == sent.radio;
        let Some(from) = self.config.stations.iter().position(place) else {
            self.strangers += 1;
            self.report(&sent, false, 0, self.config.noise_dbm);
            return;
        };
        self.back(from);
        if let Some(address) = address(&sent.octets, SENDER_AT) {
            self.own(from, address);
        }
        let to = self.receiver(&sent.octets);
        self.next_id += 1;
        let id = self.next_id;
        let frame = Frame {
            id,
            to,
            octets: sent.octets.len() + FCS_OCTETS,
            attempts: attempts(&sent),
            acknowledged: sent.flags & NO_ACK == 0,
            aggregated: false,
            channel: sent.frequency,
        };
        self.held.insert(id, Held { sent, to });
        self.medium.handle_frame(now, from, frame);
        self.take_events();
    }

    /// Notes an address that a radio has got or lost.
    pub fn handle_address(&mut self, radio: Mac, address: Mac, added: bool) {
        let place = |station: &Station| station.radio == radio;
        if let Some(id) = self.config.stations.iter().position(place) {
            if added {
                self.own(id, address);
            } else if self.owners.get(&address) == Some(&id) {
                self.owners.remove(&address);
            }
        }
    }

    /// Notes that the kernel has refused a delivery: the radio is down, or on another channel. It hears nothing for a
    /// while, or until it sends.
    pub fn handle_refusal(&mut self, now: Time, radio: Mac) {
        let place = |station: &Station| station.radio == radio;
        if let Some(id) = self.config.stations.iter().position(place) {
            self.medium.set_listening(id, false);
            self.away.insert(id, now + AWAY);
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        let over: Vec<StationId> = self
            .away
            .iter()
            .filter_map(|(id, until)| (*until <= now).then_some(*id))
            .collect();
        over.into_iter().for_each(|id| self.back(id));
        self.medium.handle_timeout(now);
        self.take_events();
    }

    /// Returns when to call [`Bridge::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let away = self.away.values().min().copied();
        away.into_iter().chain(self.medium.poll_timeout()).min()
    }

    /// Returns what the kernel must be told next.
    pub fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Returns what each station has done so far, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        let stations = self.config.stations.iter().enumerate();
        stations.map(|(id, station)| (station.name.as_str(), self.medium.counters(id)))
    }

    /// Returns the number of frames of radios that the configuration does not name.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    fn back(&mut self, id: StationId) {
        if self.away.remove(&id).is_some() {
            self.medium.set_listening(id, true);
        }
    }

    fn own(&mut self, id: StationId, address: Mac) {
        if address[0] & GROUP_BIT == 0
            && (self.owners.len() < ADDRESSES_MAX || self.owners.contains_key(&address))
        {
            self.owners.insert(address, id);
        }
    }

    fn receiver(&self, octets: &[u8]) -> Receiver {
        match address(octets, RECEIVER_AT) {
            None => Receiver::Nobody,
            Some(address) if address[0] & GROUP_BIT != 0 => Receiver::All,
            Some(address) => match self.owners.get(&address) {
                Some(id) => Receiver::Station(*id),
                None => Receiver::Nobody,
            },
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.medium.poll_event() {
            match event {
                Event::Received {
                    id,
                    to,
                    snr_db,
                    rate,
                    retry,
                    ..
                } => self.deliver(id, to, snr_db, rate, retry),
                Event::Done {
                    id,
                    station,
                    acknowledged,
                    attempts,
                    ..
                } => {
                    if let Some(held) = self.held.remove(&id) {
                        let snr_db = match held.to {
                            Receiver::Station(to) => self.config.reach.snr_db(to, station),
                            _ => 0.0,
                        };
                        let signal = self.config.noise_dbm + snr_db.max(0.0);
                        self.report(&held.sent, acknowledged, attempts, signal);
                    }
                }
            }
        }
    }

    fn deliver(&mut self, id: u64, to: StationId, snr_db: f64, rate: Rate, retry: bool) {
        let (Some(held), Some(station)) = (self.held.get(&id), self.config.stations.get(to)) else {
            return;
        };
        let mut octets = held.sent.octets.clone();
        if let Some(control) = octets.get_mut(1).filter(|_| retry) {
            *control |= RETRY_BIT;
        }
        self.orders.push_back(Order::Deliver {
            radio: station.radio,
            octets,
            rate_index: rate_index(rate, held.sent.frequency),
            signal_dbm: (self.config.noise_dbm + snr_db) as i32,
            frequency: held.sent.frequency,
        });
    }

    fn report(&mut self, sent: &Sent, acknowledged: bool, attempts: u32, signal_dbm: f64) {
        let wanted = sent.flags & NO_ACK == 0;
        let group = address(&sent.octets, RECEIVER_AT).is_some_and(|to| to[0] & GROUP_BIT != 0);
        let ack = if acknowledged && wanted && !group {
            STAT_ACK
        } else {
            0
        };
        self.orders.push_back(Order::Report {
            radio: sent.radio,
            cookie: sent.cookie,
            flags: sent.flags | ack,
            rows: used(&sent.rows, attempts),
            signal_dbm: signal_dbm as i32,
        });
    }
}

/// Returns an address of a frame.
fn address(octets: &[u8], at: usize) -> Option<Mac> {
    octets.get(at..at + 6)?.try_into().ok()
}

/// Returns the attempts of a rate table; rates that the model lacks are taken for the nearest.
fn attempts(sent: &Sent) -> Vec<Attempt> {
    let rows = sent.rows.iter().take_while(|row| row.index >= 0);
    let known = rows.filter_map(|row| {
        Some(Attempt {
            rate: rate(*row, sent.frequency)?,
            count: row.count.max(1),
            rts: row.flags & hwsim::RTS != 0,
        })
    });
    known.collect()
}

fn rate(row: Row, frequency: u32) -> Option<Rate> {
    let index = u8::try_from(row.index).ok()?;
    let (wide, short_gi) = (
        row.flags & hwsim::WIDE != 0,
        row.flags & hwsim::SHORT_GI != 0,
    );
    if row.flags & hwsim::VHT != 0 {
        // The lower half is the scheme, the upper half the number of streams less one; HT has eight schemes.
        let mcs = (index & 0xf).min(7) + 8 * (index >> 4).min(3);
        return Rate::ht(mcs, wide, short_gi);
    }
    if row.flags & hwsim::MCS != 0 {
        return Rate::ht(index, wide, short_gi);
    }
    let first = if frequency >= LOWEST_5_GHZ_MHZ {
        CCK_RATES
    } else {
        0
    };
    let kbps = LEGACY_KBPS.get(usize::from(index) + first)?;
    Rate::legacy(*kbps, row.flags & hwsim::SHORT_PREAMBLE != 0)
}

/// Returns the index of a rate in its band. hwsim delivers frames at the rates of 802.11b/g alone: an HT rate becomes
/// the fastest of them that is not faster.
fn rate_index(rate: Rate, frequency: u32) -> u32 {
    let first = if frequency >= LOWEST_5_GHZ_MHZ {
        CCK_RATES
    } else {
        0
    };
    let fits = |kbps: &u32| Rate::legacy(*kbps, false).is_some_and(|known| same_kind(known, rate));
    let mut best = 0;
    for (index, kbps) in LEGACY_KBPS[first..].iter().enumerate() {
        if fits(kbps) && *kbps <= rate.kbps() {
            best = index as u32;
        }
    }
    best
}

fn same_kind(known: Rate, rate: Rate) -> bool {
    known.is_ofdm() == rate.is_ofdm()
}

/// Returns the rate table with the attempts that were made.
fn used(rows: &[Row; ROWS], attempts: u32) -> [Row; ROWS] {
    let mut left = attempts;
    let mut found = [NO_ROW; ROWS];
    for (made, row) in found.iter_mut().zip(rows) {
        if left == 0 || row.index < 0 {
            break;
        }
        let count = u32::from(row.count.max(1)).min(left);
        *made = Row {
            count: count as u8,
            ..*row
        };
        left -= count;
    }
    found
}

#[cfg(test)]
mod tests;

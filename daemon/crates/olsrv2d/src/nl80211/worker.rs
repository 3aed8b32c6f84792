//! The thread that asks the drivers. A request to nl80211 waits while a driver is busy, and the event loop must not
//! wait.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;

use olsrv2::Time;
use rustix::io::Errno;

use super::message::{Family, Mac, Station};
use super::socket::Requests;

/// IEEE Std 802 local experimental EtherType 1. Hosts ignore frames of a type that they do not know.
const PROBE_ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Length of a probe in bytes, with its Ethernet header. It is short, but rate control learns from it the same as from
/// data frames.
const PROBE_OCTETS: usize = 214;

/// Errors that mean: the interface is not wireless, is gone, or has no stations in its mode.
const NOT_WIRELESS: [Errno; 4] = [Errno::NODEV, Errno::INVAL, Errno::OPNOTSUPP, Errno::NETDOWN];
/// Errors of the socket or the family: no answer in time, notices lost, or the module is gone.
const BROKEN: [Errno; 5] = [
    Errno::AGAIN,
    Errno::INTR,
    Errno::NOBUFS,
    Errno::NOMEM,
    Errno::NOENT,
];

/// An order to the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Mesh peers to probe: interface, our hardware address on it, the peer.
    pub probes: Vec<(u32, Mac, Mac)>,
    /// Stations that the kernel should forget: interface, hardware address.
    pub leftovers: Vec<(u32, Mac)>,
    /// Interfaces whose stations are to be listed.
    pub interfaces: Vec<u32>,
}

/// The result of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The nl80211 family of this kernel at present.
    pub family: Option<Family>,
    /// Whether the kernel gave no proper answer, so that the order must be repeated soon.
    pub failed: bool,
    /// A survey of each interface that could be polled.
    pub surveys: Vec<Survey>,
}

/// The stations of an interface at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Interface index.
    pub interface: u32,
    /// The moment.
    pub at: Time,
    /// Its stations; `None` if it is not wireless.
    pub stations: Option<Vec<Station>>,
}

/// The worker thread. It ends when this is dropped.
pub struct Worker {
    orders: SyncSender<Order>,
    reports: Receiver<Report>,
    bell: UnixStream,
}

impl Worker {
    /// Starts the thread; `clock` returns the time.
    ///
    /// # Errors
    /// The kernel refuses a thread or a descriptor.
    pub fn start(clock: fn() -> Time) -> io::Result<Self> {
        // One order at a time: the caller waits for its report.
        let (orders, taken) = mpsc::sync_channel(1);
        let (given, reports) = mpsc::sync_channel(1);
        let (bell, ringer) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ringer.set_nonblocking(true)?;
        thread::Builder::new()
            .name("nl80211".into())
            .spawn(move || work(&taken, &given, &ringer, clock))?;
        Ok(Self {
            orders,
            reports,
            bell,
        })
    }

    /// Gives an order, and returns whether it was accepted. The caller must wait for the report before it gives the
    /// next.
    pub fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Returns the report if it has arrived.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn report(&mut self) -> io::Result<Option<Report>> {
        let mut rung = [0; 16];
        while matches!(self.bell.read(&mut rung), Ok(count) if count > 0) {}
        match self.reports.try_recv() {
            Ok(report) => Ok(Some(report)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl AsFd for Worker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn work(
    orders: &Receiver<Order>,
    reports: &SyncSender<Report>,
    mut bell: &UnixStream,
    clock: fn() -> Time,
) {
    let mut requests = None;
    while let Ok(order) = orders.recv() {
        let report = carry_out(&order, &mut requests, clock);
        if reports.send(report).is_err() || !rings(bell.write(&[1])) {
            return;
        }
    }
}

/// Returns whether the caller still listens. If the pipe is full, the caller will be woken anyway.
fn rings(written: io::Result<usize>) -> bool {
    match written {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

fn carry_out(order: &Order, requests: &mut Option<Requests>, clock: fn() -> Time) -> Report {
    let result = try_carry_out(order, requests, clock);
    result.unwrap_or_else(|error| {
        log::debug!("nl80211: {error}; the socket is opened again");
        *requests = None;
        Report {
            failed: true,
            ..Report::default()
        }
    })
}

fn try_carry_out(
    order: &Order,
    requests: &mut Option<Requests>,
    clock: fn() -> Time,
) -> io::Result<Report> {
    if requests.is_none() {
        *requests = Requests::open()?;
    }
    let Some(requests) = requests else {
        return Ok(Report::default());
    };
    for (interface, own, peer) in &order.probes {
        if let Err(error) = requests.probe(*interface, *peer, &probe(*own, *peer)) {
            log::debug!("nl80211: a probe to {peer:02x?} cannot be sent: {error}");
        }
    }
    for (interface, mac) in &order.leftovers {
        if let Err(error) = requests.remove(*interface, *mac) {
            log::debug!("nl80211: station {mac:02x?} cannot be removed: {error}");
        }
    }
    let mut report = Report {
        family: Some(requests.family()),
        ..Report::default()
    };
    for interface in &order.interfaces {
        let stations = match requests.stations(*interface) {
            Ok(stations) => Some(stations),
            Err(error) if is_one_of(&error, &NOT_WIRELESS) => None,
            Err(error) if is_one_of(&error, &BROKEN) => return Err(error),
            Err(error) => {
                log::debug!("nl80211: interface {interface} cannot be looked at now: {error}");
                continue;
            }
        };
        report.surveys.push(Survey {
            interface: *interface,
            at: clock(),
            stations,
        });
    }
    Ok(report)
}

fn is_one_of(error: &io::Error, known: &[Errno]) -> bool {
    let mut known = known.iter().map(|errno| Some(errno.raw_os_error()));
    known.any(|code| code == error.raw_os_error())
}

fn probe(own: Mac, peer: Mac) -> Vec<u8> {
    let mut frame = [&peer[..], &own, &PROBE_ETHERTYPE].concat();
    frame.resize(PROBE_OCTETS, 0);
    frame
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{poll, PollFd, PollFlags, Timespec};

    use super::*;

    fn clock() -> Time {
        Duration::from_secs(7)
    }

    #[test]
    fn the_loopback_has_no_stations_whatever_the_kernel() {
        let mut worker = Worker::start(clock).unwrap();
        assert_eq!(worker.report().unwrap(), None);
        for _ in 0..3 {
            assert!(worker.order(Order {
                interfaces: vec![1],
                ..Order::default()
            }));
            let patience = Timespec {
                tv_sec: 60,
                tv_nsec: 0,
            };
            let mut bell = [PollFd::new(&worker, PollFlags::IN)];
            assert_eq!(poll(&mut bell, Some(&patience)), Ok(1), "no report");
            let report = worker.report().unwrap().unwrap();
            assert!(!report.failed);
            let none = Survey {
                interface: 1,
                at: clock(),
                stations: None,
            };
            let expected = report.family.map(|_| none);
            assert_eq!(report.surveys, Vec::from_iter(expected));
        }
    }

    #[test]
    fn a_probe_is_a_frame_to_the_peer() {
        let frame = probe([1; 6], [2; 6]);
        assert_eq!(frame.len(), PROBE_OCTETS);
        assert_eq!(
            frame[..14],
            [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0x88, 0xb5]
        );
    }
}

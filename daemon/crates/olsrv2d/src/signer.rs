//! The connection to the program that has the node's key and signs this router's messages.
//!
//! One message is asked for at a time, so that each has the floor that the ones before it have left. The event loop never
//! waits for the signer: while it is away, messages wait in the router, and nothing unsigned is sent.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use icv::{Answer, Frames, Request};
use olsrv2::{Router, Time, ToSign};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::reactor::{Reactor, Token};

/// Pause before the signer is sought again.
const RETRY: Duration = Duration::from_millis(250);
/// Time in which it must answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Octets read in one turn.
const READ_MAX: usize = 4096;

/// The signer, connected or sought.
pub struct Signer {
    path: PathBuf,
    connection: Option<Connection>,
    /// When it is sought again, or when its answer is overdue.
    due: Option<Time>,
    /// Whether its absence was logged.
    missed: bool,
}

struct Connection {
    socket: Socket,
    frames: Frames,
    asked: Option<ToSign>,
}

impl Signer {
    /// Returns a signer that is sought at once.
    pub fn new(path: &Path, now: Time) -> Self {
        Self {
            path: path.to_owned(),
            connection: None,
            due: Some(now),
            missed: false,
        }
    }

    /// Returns whether messages are signed now: `connected`, or `away`.
    pub fn standing(&self) -> &'static str {
        if self.connection.is_some() {
            "connected"
        } else {
            "away"
        }
    }

    /// Returns when to call [`Signer::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Seeks the signer, or gives up one that does not answer.
    pub fn handle_timeout(&mut self, now: Time, reactor: &Reactor) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        if self.connection.is_some() {
            self.lose(now, "it does not answer");
            return;
        }
        match connect(&self.path, reactor) {
            Ok(connection) => {
                log::info!("messages are signed by {}", self.path.display());
                self.connection = Some(connection);
                self.missed = false;
            }
            Err(error) => self.lose(now, &error.to_string()),
        }
    }

    /// Asks for the router's next signature, if none is awaited.
    pub fn ask(&mut self, now: Time, router: &mut Router) {
        let idle = self.connection.as_mut().filter(|one| one.asked.is_none());
        let Some(connection) = idle else { return };
        let Some(wanted) = router.poll_sign() else {
            return;
        };
        match connection.ask(wanted) {
            Ok(()) => self.due = Some(now + PATIENCE),
            Err(error) => self.lose(now, &error.to_string()),
        }
    }

    /// Takes what the signer has sent.
    pub fn serve(&mut self, now: Time, router: &mut Router) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        match connection.serve(now, router) {
            Ok(()) if connection.asked.is_none() => self.due = None,
            Ok(()) => {}
            Err(error) => self.lose(now, &error.to_string()),
        }
    }

    /// What was asked for is lost: the next HELLO or TC says it again.
    fn lose(&mut self, now: Time, why: &str) {
        self.connection = None;
        self.due = Some(now + RETRY);
        if !std::mem::replace(&mut self.missed, true) {
            let path = self.path.display();
            log::warn!("no signer at {path}: {why}; this router sends nothing until it is there");
        }
    }
}

impl Connection {
    fn ask(&mut self, wanted: ToSign) -> io::Result<()> {
        let request = Request {
            floor: wanted.floor,
            message: &wanted.message,
        };
        // The other end reads whole requests, so one always fits the buffer of the socket.
        self.socket.write_all(&request.frame())?;
        self.asked = Some(wanted);
        Ok(())
    }

    fn serve(&mut self, now: Time, router: &mut Router) -> io::Result<()> {
        let mut octets = [0; READ_MAX];
        match self.socket.read(&mut octets) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it has ended")),
            Ok(count) => self.frames.push(&octets[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        while let Some(frame) = self.frames.next_frame().map_err(io::Error::other)? {
            let asked = self.asked.take();
            let asked = asked.ok_or_else(|| io::Error::other("it answers what nobody asked"))?;
            match Answer::read(&frame) {
                Some(answer) => router.handle_signed(now, &asked, answer.signed, answer.counter),
                None => log::debug!("a message was not signed"),
            }
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Connects without waiting.
fn connect(path: &Path, reactor: &Reactor) -> io::Result<Connection> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.connect(&SockAddr::unix(path)?)?;
    let connection = Connection {
        socket,
        frames: Frames::default(),
        asked: None,
    };
    reactor.add(&connection, Token::Signer)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::os::unix::net::{UnixListener, UnixStream};

    use icv::Claim;
    use olsrv2::{Config, InterfaceEvent, InterfaceId, Transmit};
    use rfc5444::PacketView;

    use super::*;

    const START: Time = Duration::from_secs(1000);
    const KEY: [u8; 32] = [7; 32];

    /// A router that has HELLOs to sign, its signer's place, and what seeks it.
    struct Bench {
        router: Router,
        reactor: Reactor,
        path: PathBuf,
        signer: Signer,
    }

    impl Bench {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("olsrv2d-{name}-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            let originator = Ipv4Addr::new(10, 0, 0, 1);
            let config = Config {
                originator_v4: Some(originator),
                ..Config::default()
            };
            let mut router = Router::new(config, START, 1);
            router.set_signing(true);
            let up = InterfaceEvent::Up {
                interface: InterfaceId(1),
                addresses: [IpAddr::from(originator)].into(),
            };
            router.handle_interface(START, up);
            Self {
                router,
                reactor: Reactor::new().unwrap(),
                signer: Signer::new(&path, START),
                path,
            }
        }

        /// Lets the router and its signer do what is due, and returns what is sent.
        fn turn(&mut self, now: Time) -> Vec<Transmit> {
            self.router.handle_timeout(now);
            self.signer.handle_timeout(now, &self.reactor);
            self.signer.ask(now, &mut self.router);
            self.signer.serve(now, &mut self.router);
            std::iter::from_fn(|| self.router.poll_transmit()).collect()
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn at(seconds: u64) -> Time {
        START + Duration::from_secs(seconds)
    }

    /// Answers one request with a signature.
    fn sign(stream: &mut UnixStream, counter: u64) {
        let mut octets = [0; READ_MAX];
        let count = stream.read(&mut octets).unwrap();
        let mut frames = Frames::default();
        frames.push(&octets[..count]);
        let frame = frames.next_frame().unwrap().unwrap();
        let request = Request::read(&frame).unwrap();
        let signed = icv::Signer::new(&KEY).sign(request.message, counter, 0);
        let answer = Answer {
            counter,
            signed: &signed.unwrap(),
        };
        stream.write_all(&answer.frame()).unwrap();
    }

    #[test]
    fn nothing_is_sent_until_the_signer_is_there_and_then_all_is_signed() {
        let mut bench = Bench::new("away");
        assert!((0..5).all(|second| bench.turn(at(second)).is_empty()));
        assert_eq!(bench.signer.standing(), "away");
        let listener = UnixListener::bind(&bench.path).unwrap();
        assert!(bench.turn(at(6)).is_empty());
        assert_eq!(bench.signer.standing(), "connected");
        let (mut stream, _) = listener.accept().unwrap();
        sign(&mut stream, 41);
        let sent = bench.turn(at(6));
        let packet = PacketView::new(&sent[0].bytes).unwrap();
        let message = packet.messages().next().unwrap().unwrap().decode().unwrap();
        let claim = Claim::read(&message.tlvs).unwrap().unwrap();
        assert_eq!((sent.len(), claim.counter), (1, 41));
    }

    #[test]
    fn a_signer_that_refuses_is_asked_again_and_one_that_is_silent_is_left() {
        let mut bench = Bench::new("silent");
        let listener = UnixListener::bind(&bench.path).unwrap();
        bench.turn(at(0));
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&Answer::refusal()).unwrap();
        assert!(bench.turn(at(1)).is_empty());
        assert_eq!(bench.signer.standing(), "connected");
        let unanswered = (2..8).map(|second| bench.turn(at(second)));
        assert!(unanswered.into_iter().all(|sent| sent.is_empty()));
        assert!(listener.accept().is_ok(), "it was not sought again");
    }

    #[test]
    fn an_answer_that_nobody_asked_for_ends_the_connection() {
        let mut bench = Bench::new("uncalled");
        let listener = UnixListener::bind(&bench.path).unwrap();
        bench.turn(at(0));
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .write_all(&[Answer::refusal(), Answer::refusal()].concat())
            .unwrap();
        bench.turn(at(0));
        assert_eq!(bench.signer.standing(), "away");
    }
}

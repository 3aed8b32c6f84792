//! The text interface, in the one-shot and line forms of olsrd2, on a UNIX socket and on a loopback TCP port.
//!
//! Whoever may connect can ask for megabytes again and again. So the connections, the length of a line and its commands
//! are limited, each portion of an answer waits until the one before is taken, all answers share a part of the
//! processor, and a reader that does not read is closed. The descriptors are in an epoll instance of their own, so that
//! one call hides all of them from the event loop while the share is used up.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use daemonkit::session::{Session, Standing};
use daemonkit::{Code, ControlSocket};
use olsrv2::Time;

use super::answer::Answer;
use super::commands::{answer, Reply};
use super::listener::Listener;
use super::share::Share;
use super::state::State;
use crate::reactor::{Reactor, Token};

/// Largest number of connections. A new one replaces the one that was served longest ago.
const SESSIONS_MAX: usize = 8;
/// Longest line, in bytes: [`COMMANDS_MAX`] of the longest commands.
const LINE_MAX: usize = 256;
/// Largest number of commands in a line.
const COMMANDS_MAX: usize = 8;
/// Bytes of an answer that are made at a time.
const PORTION: usize = 16 << 10;
/// Time that a reader may take for a portion.
const STALL: Duration = Duration::from_secs(10);
/// Time that a reader may take for all answers to a line. During this time other readers see the same view.
const PATIENCE: Duration = Duration::from_secs(120);
/// Percent of a processor for answers over TCP, which every local account may request, and over the UNIX socket.
const SHARE_TCP: u32 = 10;
const SHARE_UNIX: u32 = 25;
const PROMPT: &str = "\n> ";

/// A text interface on a loopback TCP port.
pub type Telnet = Text<TcpListener>;
/// A text interface on a UNIX socket.
pub type Query = Text<ControlSocket>;

/// The listening socket and its sessions.
pub struct Text<L: Listener> {
    listener: L,
    /// Token of this interface in the event loop.
    token: Token,
    /// The listener's descriptor and those of the sessions.
    descriptors: daemonkit::Reactor<Source>,
    sessions: BTreeMap<u32, Client<L::Stream>>,
    next: u32,
    turns: u64,
    share: Share,
    /// Whether the event loop ignores the descriptors at present.
    resting: bool,
    /// View that the unfinished answers show.
    view: Option<Rc<State>>,
}

/// Whose descriptor is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Listener,
    Session(u32),
}

impl Code for Source {
    fn encode(self) -> u64 {
        match self {
            Self::Listener => 0,
            Self::Session(number) => 1 << 32 | u64::from(number),
        }
    }

    fn decode(code: u64) -> Option<Self> {
        Some(if code == 0 {
            Self::Listener
        } else {
            Self::Session(code as u32)
        })
    }
}

/// A connection.
struct Client<S> {
    session: Session<S>,
    /// View that the answers show.
    view: Option<Rc<State>>,
    answers: VecDeque<Answer>,
    /// Number of the turn in which it was last served.
    last: u64,
    /// Time at which the present line arrived, and time at which its reader last took a portion.
    since: Time,
    taken: Time,
}

impl Telnet {
    /// Listens on a port.
    ///
    /// # Errors
    /// The address is in use.
    pub fn port(address: SocketAddr, reactor: &Reactor, now: Time) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Self::new(listener, Token::Telnet, SHARE_TCP, reactor, now)
    }
}

impl Query {
    /// Creates a socket and its directory, and listens.
    ///
    /// # Errors
    /// The path cannot be created, another process listens there, or the group is unknown.
    pub fn socket(
        path: &Path,
        group: Option<&str>,
        reactor: &Reactor,
        now: Time,
    ) -> io::Result<Self> {
        let listener = ControlSocket::listen(path, group)?;
        Self::new(listener, Token::Query, SHARE_UNIX, reactor, now)
    }

    /// Changes the group that may connect.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn admit(&self, group: Option<&str>) -> io::Result<()> {
        self.listener.admit(group)
    }
}

impl<L: Listener> Text<L> {
    fn new(
        listener: L,
        token: Token,
        percent: u32,
        reactor: &Reactor,
        now: Time,
    ) -> io::Result<Self> {
        let descriptors = daemonkit::Reactor::new()?;
        descriptors.add(&listener, Source::Listener)?;
        reactor.add(&descriptors, token)?;
        Ok(Self {
            listener,
            token,
            descriptors,
            sessions: BTreeMap::new(),
            next: 0,
            turns: 0,
            share: Share::new(now, percent),
            resting: false,
            view: None,
        })
    }

    /// Returns when to call [`Text::serve`] even if no descriptor is ready.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waits = self.sessions.values().any(Client::waits);
        let work = (self.resting || waits).then(|| self.share.next());
        let ends = self.sessions.values().filter_map(Client::ends);
        ends.chain(work).min()
    }

    /// Serves the connections that are ready, within the processor's share. Calls `observe` when it needs a new view.
    pub fn serve(
        &mut self,
        reactor: &Reactor,
        clock: impl Fn() -> Time,
        observe: impl Fn() -> State,
    ) {
        let now = clock();
        self.sessions
            .retain(|_, client| client.ends().is_none_or(|end| end > now));
        if !self.share.is_ready(now) {
            return self.rest(reactor, true);
        }
        for source in self
            .descriptors
            .wait(Some(Duration::ZERO))
            .unwrap_or_default()
        {
            match source {
                Source::Listener => self.accept(now),
                Source::Session(number) => self.receive(number, now, &observe),
            }
        }
        self.work(now, &observe);
        self.view = self.view.take().filter(|view| Rc::strong_count(view) > 1);
        self.share.spend(clock().saturating_sub(now));
        self.rest(reactor, false);
    }

    /// Makes the event loop ignore the descriptors, or watch them again.
    fn rest(&mut self, reactor: &Reactor, resting: bool) {
        if resting != self.resting {
            self.resting = resting;
            if let Err(error) = reactor.want(&self.descriptors, self.token, !resting, false) {
                log::error!("text interface: {error}");
            }
        }
    }

    fn accept(&mut self, now: Time) {
        let stream = match self.listener.take() {
            Ok(stream) => stream,
            Err(error) => return log::debug!("text session: {error}"),
        };
        if self.sessions.len() >= SESSIONS_MAX {
            self.end_longest_silent();
        }
        self.next = self.next.wrapping_add(1);
        self.turns += 1;
        let added = self.descriptors.add(&stream, Source::Session(self.next));
        let client = Client {
            session: Session::new(stream),
            view: None,
            answers: VecDeque::new(),
            last: self.turns,
            since: now,
            taken: now,
        };
        if added.is_ok() {
            self.sessions.insert(self.next, client);
        }
    }

    fn end_longest_silent(&mut self) {
        let sessions = self.sessions.iter();
        let silent = sessions.min_by_key(|(_, client)| client.last);
        if let Some(number) = silent.map(|(number, _)| *number) {
            self.sessions.remove(&number);
        }
    }

    /// Reads from a session, unless it has not taken its last answer yet.
    fn receive(&mut self, number: u32, now: Time, observe: impl Fn() -> State) {
        let Some(client) = self.sessions.get_mut(&number) else {
            return;
        };
        self.turns += 1;
        client.last = self.turns;
        let is_open = client.is_busy() || client.session.is_closing() || client.session.receive();
        client.take_line(now, &mut self.view, observe);
        if !is_open {
            client.session.close();
        }
        self.go_on(number, now);
    }

    /// Makes a portion for the session that has waited longest, or starts with its next line.
    fn work(&mut self, now: Time, observe: impl Fn() -> State) {
        let waiting = self.sessions.iter().filter(|(_, client)| client.waits());
        let Some(number) = waiting
            .min_by_key(|(_, client)| client.last)
            .map(|(number, _)| *number)
        else {
            return;
        };
        self.turns += 1;
        if let Some(client) = self.sessions.get_mut(&number) {
            client.last = self.turns;
            client.make_portion();
            client.take_line(now, &mut self.view, observe);
        }
        self.go_on(number, now);
    }

    /// Sends the portion and sets what the session waits for next.
    fn go_on(&mut self, number: u32, now: Time) {
        let Some(client) = self.sessions.get_mut(&number) else {
            return;
        };
        let before = client.session.backlog();
        let standing = client.session.flush();
        if client.session.backlog() < before {
            client.taken = now;
        }
        let waits = client.waits();
        let ended = standing == Standing::Ended && !waits;
        let (read, write) = (!client.is_busy() && !waits, standing == Standing::Writing);
        let source = Source::Session(number);
        let watched = self.descriptors.want(&client.session, source, read, write);
        if ended || watched.is_err() {
            self.sessions.remove(&number);
        }
    }
}

impl<S: Read + Write> Client<S> {
    /// Returns whether answers are still to be made or to be read.
    fn is_busy(&self) -> bool {
        !self.answers.is_empty() || self.session.backlog() > 0
    }

    /// Returns whether a portion can be made or a line answered now.
    fn waits(&self) -> bool {
        let has_line = self.session.has_line() && !self.session.is_closing();
        self.session.backlog() == 0 && (has_line || !self.answers.is_empty())
    }

    /// Returns when it is closed because it does not read.
    fn ends(&self) -> Option<Time> {
        self.is_busy()
            .then(|| (self.taken + STALL).min(self.since + PATIENCE))
    }

    /// Starts to answer a line when the answer before it is finished, from the view of other readers if there is one.
    fn take_line(&mut self, now: Time, view: &mut Option<Rc<State>>, observe: impl Fn() -> State) {
        if self.is_busy() || self.session.is_closing() {
            return;
        }
        if let Some(line) = self.session.next_line() {
            (self.since, self.taken) = (now, now);
            let view = view.get_or_insert_with(|| Rc::new(observe()));
            self.answer_line(&String::from_utf8_lossy(&line), view);
            self.view = Some(Rc::clone(view));
        } else if self.session.unread() > LINE_MAX {
            self.refuse(&format!("a line has at most {LINE_MAX} octets"));
        }
    }

    fn answer_line(&mut self, line: &str, state: &State) {
        if line.len() > LINE_MAX {
            return self.refuse(&format!("a line has at most {LINE_MAX} octets"));
        }
        let line = line.trim();
        let Some(commands) = line.strip_prefix('/') else {
            match answer(line, state) {
                Reply::Answer(answer) => self.answers.extend([answer, Answer::text(PROMPT)]),
                Reply::Quit => self.session.close(),
            }
            return;
        };
        let commands = commands.split('/').filter(|command| !command.is_empty());
        if commands.clone().count() > COMMANDS_MAX {
            return self.refuse(&format!("a line has at most {COMMANDS_MAX} commands"));
        }
        for command in commands {
            if let Reply::Answer(answer) = answer(command, state) {
                self.answers.push_back(answer);
            }
        }
        self.session.close();
    }

    fn refuse(&mut self, why: &str) {
        self.session.discard();
        self.session.push(format!("Error, {why}\n").as_bytes());
        self.session.close();
    }

    fn make_portion(&mut self) {
        if let (Some(view), Some(answer)) = (&self.view, self.answers.front_mut()) {
            let portion = answer.portion(view, PORTION);
            self.session.push(portion.as_bytes());
        }
        while self.answers.front().is_some_and(Answer::is_finished) {
            self.answers.pop_front();
        }
        if self.answers.is_empty() {
            self.view = None;
        }
    }
}

#[cfg(test)]
mod tests;

//! The text interface: olsrd2's one-shot and line forms on a loopback TCP port.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use daemonkit::session::{Session, Standing};

use super::netjson::netjsoninfo;
use super::olsrd2::{layer2info, nhdpinfo, olsrv2info, Table};
use super::state::State;
use crate::reactor::{Reactor, Token};

/// Connections at a time; the one that has been silent longest gives way.
const SESSIONS_MAX: usize = 32;
/// Longest line, in octets.
const LINE_MAX: usize = 1024;
/// Answers that a session may leave unread, in octets: several graphs of a large mesh.
const BACKLOG_MAX: usize = 8 << 20;
const PROMPT: &str = "\n> ";
const HELP: &str =
    "Available commands: netjsoninfo olsrv2info nhdpinfo layer2info version help quit\n";

/// The listener with its sessions.
pub struct Telnet {
    listener: TcpListener,
    sessions: BTreeMap<u32, Used>,
    served: u64,
    next: u32,
}

struct Used {
    session: Session<TcpStream>,
    /// When it was last served, counted in services.
    last: u64,
}

/// An answer to one command.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Text(String),
    Quit,
}

impl Telnet {
    /// Listens.
    ///
    /// # Errors
    /// The address is taken.
    pub fn listen(address: SocketAddr, reactor: &Reactor) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        reactor.add(&listener, Token::TelnetListener)?;
        Ok(Self {
            listener,
            sessions: BTreeMap::new(),
            served: 0,
            next: 0,
        })
    }

    /// Takes one waiting connection.
    ///
    /// # Errors
    /// The connection ended meanwhile, or there are no descriptors left.
    pub fn accept(&mut self, reactor: &Reactor) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        if self.sessions.len() >= SESSIONS_MAX {
            self.end_longest_silent();
        }
        self.next = self.next.wrapping_add(1);
        reactor.add(&stream, Token::Telnet(self.next))?;
        self.served += 1;
        self.sessions.insert(
            self.next,
            Used {
                session: Session::new(stream),
                last: self.served,
            },
        );
        Ok(())
    }

    /// Serves a session that is ready; `state` is made only when a command asks for it.
    pub fn serve(&mut self, number: u32, reactor: &Reactor, state: impl FnOnce() -> State) {
        let Some(used) = self.sessions.get_mut(&number) else {
            return;
        };
        self.served += 1;
        used.last = self.served;
        let standing = serve(&mut used.session, state);
        let waits = standing == Standing::Writing;
        if standing == Standing::Ended
            || reactor
                .want_write(&used.session, Token::Telnet(number), waits)
                .is_err()
        {
            self.sessions.remove(&number);
        }
    }

    fn end_longest_silent(&mut self) {
        let silent = self
            .sessions
            .iter()
            .min_by_key(|(_, used)| used.last)
            .map(|(number, _)| *number);
        if let Some(number) = silent {
            self.sessions.remove(&number);
        }
    }
}

fn serve(session: &mut Session<TcpStream>, state: impl FnOnce() -> State) -> Standing {
    let open = session.is_closing() || session.receive();
    if session.is_closing() {
        session.discard();
    } else if let Some(line) = session.next_line() {
        let state = state();
        answer_line(session, &line, &state);
        while let Some(line) = (!session.is_closing())
            .then(|| session.next_line())
            .flatten()
        {
            answer_line(session, &line, &state);
        }
    }
    if session.unread() > LINE_MAX || session.backlog() > BACKLOG_MAX {
        return Standing::Ended;
    }
    if !open {
        session.close();
    }
    session.flush()
}

fn answer_line(session: &mut Session<TcpStream>, line: &[u8], state: &State) {
    let line = String::from_utf8_lossy(line);
    if line.len() > LINE_MAX {
        return session.close();
    }
    let line = line.trim();
    match line.strip_prefix('/') {
        Some(commands) => {
            for command in commands.split('/').filter(|command| !command.is_empty()) {
                if let Answer::Text(text) = answer(command, state) {
                    session.push(text.as_bytes());
                }
            }
            session.close();
        }
        None => match answer(line, state) {
            Answer::Text(text) => {
                session.push(text.as_bytes());
                session.push(PROMPT.as_bytes());
            }
            Answer::Quit => session.close(),
        },
    }
}

fn answer(command: &str, state: &State) -> Answer {
    let words: Vec<&str> = command.split_whitespace().collect();
    Answer::Text(match words.as_slice() {
        [] => String::new(),
        ["quit" | "exit"] => return Answer::Quit,
        ["help"] => HELP.into(),
        ["version"] => concat!("olsrv2d ", env!("CARGO_PKG_VERSION"), "\n").into(),
        ["netjsoninfo", subjects @ ..] => match netjsoninfo(state, subjects) {
            Ok(document) => document.to_string(),
            Err(unknown) => {
                format!("Error, unknown subject '{unknown}' of netjsoninfo: graph, route\n")
            }
        },
        ["olsrv2info", words @ ..] => tables(
            words,
            |subject| olsrv2info(state, subject),
            "originator, old_originator, local, node, edge, attached_network, lan, route",
        ),
        ["nhdpinfo", words @ ..] => tables(
            words,
            |subject| nhdpinfo(state, subject),
            "interface, link, link_twohop, neighbor",
        ),
        ["layer2info", words @ ..] => {
            tables(words, |subject| layer2info(state, subject), "neighbor")
        }
        [unknown, ..] => format!("Error, unknown command '{unknown}'\n"),
    })
}

fn tables(words: &[&str], table: impl Fn(&str) -> Option<Table>, known: &str) -> String {
    let (json, subject) = match words {
        ["json" | "jsonraw", subject] => (true, *subject),
        [subject] => (false, *subject),
        _ => return format!("Error, one subject is expected: {known}\n"),
    };
    match table(subject) {
        Some(table) if json => table.to_json(),
        Some(table) => table.to_text(),
        None => format!("Error, unknown subject '{subject}': {known}\n"),
    }
}

#[cfg(test)]
mod tests;

//! The server: it answers datagrams and keeps the open questions.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use overlay::bencode::{Dictionary, Value};
use overlay::Contact;

use crate::answer::{Answer, Field};
use crate::arguments::{Arguments, Wrong};
use crate::auth::{cookie_at, Password};
use crate::call::{Call, Done};
use crate::callers::Callers;
use crate::counters::Counters;
use crate::functions::find;
use crate::now::Now;
use crate::outcome::Form;
use crate::router::{Ask, Outcome, Router, Ticket};
use crate::search::{complete, Search};
use crate::subscriptions::{LogLevel, LogLine, Subscriptions};
use crate::words::{contact, milliseconds};

/// Largest length of a request in bytes, as in cjdns.
pub const MAX_REQUEST: usize = 2048;

/// Largest length of an answer in bytes: that of a UDP datagram over IPv4.
pub const MAX_ANSWER: usize = 65507;

/// Largest number of open questions to other nodes.
pub const MAX_PENDING: usize = 64;

/// Largest number of queued datagrams: those of one `AdminLog_logMany`, and some more.
pub const MAX_OUTBOX: usize = 1024;

/// Timeout of each question of a search.
const SEARCH_PATIENCE: Duration = Duration::from_secs(2);

/// The admin API of a router.
pub struct Server {
    password: Option<Password>,
    callers: Callers,
    pending: BTreeMap<Ticket, Pending>,
    asked: u64,
    subscriptions: Subscriptions,
    outbox: VecDeque<(SocketAddr, Vec<u8>)>,
    counters: Counters,
}

/// An open question.
struct Pending {
    from: SocketAddr,
    txid: Option<Vec<u8>>,
    purpose: Purpose,
    asked: Duration,
    until: Duration,
}

/// Why a question was asked.
enum Purpose {
    /// A caller wants the answer in this form.
    Answer(Form),
    /// The next step of a search, which asked this node.
    Search(Search, Contact),
}

impl Server {
    /// Makes a server. Without a password it answers only requests that need no authentication.
    #[must_use]
    pub fn new(password: Option<Password>) -> Self {
        Self {
            password,
            callers: Callers::default(),
            pending: BTreeMap::new(),
            asked: 0,
            subscriptions: Subscriptions::default(),
            outbox: VecDeque::new(),
            counters: Counters::ZERO,
        }
    }

    /// Handles a datagram from `from`. Returns the answer to send back there.
    ///
    /// Returns `None` if the datagram is not a request, or if the answer depends on another node's.
    pub fn handle(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
        router: &mut dyn Router,
    ) -> Option<Vec<u8>> {
        if datagram.len() > MAX_REQUEST {
            self.counters.oversize += 1;
            return Some(b"d5:error16:Request too big.e".to_vec());
        }
        let request = match Value::decode(datagram) {
            Ok(request) => request,
            Err(error) => {
                *match error.is_bomb() {
                    true => &mut self.counters.bomb,
                    false => &mut self.counters.malformed,
                } += 1;
                return None;
            }
        };
        let fields = request.as_dictionary();
        let Some((fields, query)) = fields.and_then(|fields| Some((fields, fields.string("q")?)))
        else {
            self.counters.malformed += 1;
            return None;
        };
        let txid = fields.string("txid");
        let done = self.call(now, from, datagram, fields, query, router);
        let answer = done.and_then(|done| self.perform(now, from, txid, done, router));
        match answer {
            Err(wrong) => Some(Answer::error(wrong).encode(txid)),
            Ok(answer) => answer.map(|answer| answer.encode(txid)),
        }
    }

    /// Handles the outcome of a question. It is ignored if nobody waits for it any more.
    pub fn complete(
        &mut self,
        now: Now,
        ticket: Ticket,
        outcome: &Outcome,
        router: &mut dyn Router,
    ) {
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        let elapsed = now.monotonic.saturating_sub(pending.asked);
        let Pending { from, txid, .. } = pending;
        match pending.purpose {
            Purpose::Answer(form) => {
                let answer = form.answer(outcome, elapsed);
                self.send(from, answer.encode(txid.as_deref()));
            }
            Purpose::Search(mut search, to) => {
                if let Outcome::Reply { version, nodes, .. } = outcome {
                    let reported = report_of(to, *version, nodes).with("ms", milliseconds(elapsed));
                    self.send(from, reported.encode(txid.as_deref()));
                    search.hear(to, nodes);
                }
                self.advance(now, from, txid, search, router);
            }
        }
    }

    /// Queues a log line for its subscribers.
    pub fn log(&mut self, now: Now, line: LogLine<'_>) {
        self.callers.forget(now.monotonic);
        let callers = &self.callers;
        self.subscriptions.retain(|to| callers.has(to));
        let datagrams: Vec<_> = self.subscriptions.datagrams(now, line).collect();
        for (to, octets) in datagrams {
            self.send(to, octets);
        }
    }

    /// Returns the lowest log level that a subscriber wants; `None` if there is no subscriber.
    #[must_use]
    pub fn log_level(&self) -> Option<LogLevel> {
        self.subscriptions.level()
    }

    /// Returns the next datagram and its receiver. Call it until it returns `None`.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.outbox.pop_front()
    }

    /// Returns when to call [`Server::handle_timeout`]; `None` while no question is open.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.pending.values().map(|pending| pending.until).min()
    }

    /// Ends the questions whose time is over.
    pub fn handle_timeout(&mut self, now: Now, router: &mut dyn Router) {
        let due = |(_, pending): &(&Ticket, &Pending)| pending.until <= now.monotonic;
        while let Some((ticket, _)) = self.pending.iter().find(due) {
            self.complete(now, *ticket, &Outcome::Silence, router);
        }
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Carries out the result of a call; `None` if its answer comes later.
    fn perform(
        &mut self,
        now: Now,
        from: SocketAddr,
        txid: Option<&[u8]>,
        done: Done<'_>,
        router: &mut dyn Router,
    ) -> Result<Option<Answer>, Wrong> {
        let none = || Answer::error("none");
        let answer = match done {
            Done::Answer(answer) => Ok(answer),
            Done::Ask { ask, timeout, form } => {
                let pending = Pending {
                    from,
                    txid: txid.map(<[u8]>::to_vec),
                    purpose: Purpose::Answer(form),
                    asked: now.monotonic,
                    until: now.monotonic.saturating_add(timeout),
                };
                return self.ask(pending, &ask, router).map(|()| None);
            }
            Done::Search(search) => {
                self.advance(now, from, txid.map(<[u8]>::to_vec), search, router);
                self.counters.taken += 1;
                return Ok(None);
            }
            Done::Subscribe(filter) => self
                .subscriptions
                .add(from, txid, filter)
                .map(|stream| none().with("streamId", stream)),
            Done::Unsubscribe(stream) => self.subscriptions.remove(stream).map(|()| none()),
            Done::LogMany(count) => {
                self.log_many(now, count);
                Ok(none())
            }
        };
        match &answer {
            Ok(_) => self.counters.taken += 1,
            Err(_) => self.counters.refused += 1,
        }
        answer.map(Some)
    }

    /// Asks the next node of a search, or ends it when there is none.
    fn advance(
        &mut self,
        now: Now,
        from: SocketAddr,
        txid: Option<Vec<u8>>,
        mut search: Search,
        router: &mut dyn Router,
    ) {
        let ticket = Ticket(self.asked + 1);
        while let Some((to, query)) = search.next() {
            if self.pending.len() >= MAX_PENDING {
                self.counters.busy += 1;
                break;
            }
            if router.ask(ticket, &Ask::Query { to, query }).is_ok() {
                self.asked += 1;
                let pending = Pending {
                    from,
                    txid,
                    purpose: Purpose::Search(search, to),
                    asked: now.monotonic,
                    until: now.monotonic.saturating_add(SEARCH_PATIENCE),
                };
                self.pending.insert(ticket, pending);
                return;
            }
        }
        self.send(from, complete().encode(txid.as_deref()));
    }

    fn log_many(&mut self, now: Now, count: u32) {
        for number in 1..=count {
            let message = alloc::format!("message {number} of {count}");
            self.log(
                now,
                LogLine {
                    level: LogLevel::Debug,
                    file: "server.rs",
                    line: line!(),
                    message: &message,
                },
            );
        }
    }

    fn send(&mut self, to: SocketAddr, octets: Vec<u8>) {
        if self.outbox.len() >= MAX_OUTBOX {
            self.counters.lost += 1;
            return;
        }
        self.outbox.push_back((to, octets));
    }

    fn call<'a>(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
        fields: &'a Dictionary<'a>,
        query: &'a [u8],
        router: &mut dyn Router,
    ) -> Result<Done<'a>, Wrong> {
        if query == b"cookie" {
            let cookie = alloc::format!("{}", cookie_at(now.unix.as_secs()));
            return Ok(Answer::new().with("cookie", cookie).into());
        }
        let claimed = query == b"auth";
        if claimed && !self.authenticates(now, datagram, fields) {
            self.counters.unauthenticated += 1;
            return Err("Auth failed.".into());
        }
        let name = if claimed {
            fields.string("aq").unwrap_or_default()
        } else {
            query
        };
        let is_known = self.callers.hear(now.monotonic, from, claimed);
        let found = find(name);
        let Some(function) = found.filter(|function| function.open || claimed) else {
            *match found {
                Some(_) => &mut self.counters.forbidden,
                None => &mut self.counters.unknown,
            } += 1;
            let text = "No functions matched your request, try Admin_availableFunctions()";
            return Err(text.into());
        };
        let none = &NO_ARGUMENTS;
        let arguments = fields.get("args").and_then(Value::as_dictionary);
        let checked = Arguments::check(arguments.unwrap_or(none), function.arguments);
        let done = checked.and_then(|arguments| {
            (function.run)(&mut Call {
                arguments,
                router,
                now,
                is_known,
            })
        });
        done.inspect_err(|_| self.counters.refused += 1)
    }

    fn authenticates(&self, now: Now, datagram: &[u8], fields: &Dictionary) -> bool {
        let password = self.password.as_ref();
        password.is_some_and(|word| word.authenticates(datagram, fields, now.unix.as_secs()))
    }

    fn ask(
        &mut self,
        pending: Pending,
        ask: &Ask<'_>,
        router: &mut dyn Router,
    ) -> Result<(), Wrong> {
        if self.pending.len() == MAX_PENDING {
            self.counters.busy += 1;
            return Err("no open slots to store ping, try later.".into());
        }
        self.asked += 1;
        let ticket = Ticket(self.asked);
        let asked = router.ask(ticket, ask);
        asked.inspect_err(|_| self.counters.refused += 1)?;
        self.counters.taken += 1;
        self.pending.insert(ticket, pending);
        Ok(())
    }
}

/// Arguments of a request without any.
static NO_ARGUMENTS: Dictionary<'static> = Dictionary::new();

/// Formats an answer to a search's question, which was sent to `to`.
fn report_of(to: Contact, version: u32, nodes: &[Contact]) -> Answer {
    let from = Contact { version, ..to };
    let seen = nodes.iter().filter_map(|node| {
        let path = node.path.after(to.path)?;
        Some(contact(&Contact { path, ..*node }))
    });
    Answer::new()
        .with("from", contact(&from))
        .with("nodes", seen.collect::<Field>())
}

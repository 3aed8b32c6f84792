//! The server: from a datagram to its answer, and the questions that are open.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use overlay::bencode::{Dictionary, Value};

use crate::answer::Answer;
use crate::arguments::{Arguments, Wrong};
use crate::auth::{cookie_at, Password};
use crate::call::{Call, Done};
use crate::functions::find;
use crate::outcome::Form;
use crate::router::{Ask, Outcome, Router, Ticket};
use crate::words::milliseconds;

/// The most octets of a request, as in cjdns.
pub const MAX_REQUEST: usize = 2048;

/// The most octets of an answer: those of a UDP datagram over IPv4.
pub const MAX_ANSWER: usize = 65507;

/// How many questions to other nodes may be open.
pub const MAX_PENDING: usize = 64;

/// How many callers are known as authenticated of late.
pub const MAX_CALLERS: usize = 64;

/// A caller that says nothing for so long is no longer known, as in cjdns.
const CALLER_LIFETIME: Duration = Duration::from_secs(30);

/// The time as a server needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since an arbitrary start; never runs backwards.
    pub monotonic: Duration,
    /// Since the beginning of 1970: cookies are made of it, and times are told in it.
    pub unix: Duration,
}

/// What came in, by what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were carried out or asked of another node, and requests for a cookie.
    pub taken: u64,
    /// Datagrams that are no request; they are not answered.
    pub malformed: u64,
    /// Datagrams with more values, or more of them in each other, than a request can have: bencode that is small on the wire
    /// and large in memory. They are not answered, and were not decoded further than to the bound.
    pub bomb: u64,
    /// Requests that are too long.
    pub oversize: u64,
    /// Requests with a wrong hash or an old cookie.
    pub unauthenticated: u64,
    /// Requests for a function that needs authentication, without any.
    pub forbidden: u64,
    /// Requests for a function that does not exist.
    pub unknown: u64,
    /// Requests whose arguments are wrong, or that the router does not carry out.
    pub refused: u64,
    /// Questions that could not be asked because too many were open.
    pub busy: u64,
}

impl Counters {
    /// None yet.
    const ZERO: Self = Self {
        taken: 0,
        malformed: 0,
        bomb: 0,
        oversize: 0,
        unauthenticated: 0,
        forbidden: 0,
        unknown: 0,
        refused: 0,
        busy: 0,
    };

    /// Every counter with its name.
    #[must_use]
    pub const fn all(&self) -> [(&'static str, u64); 9] {
        [
            ("taken", self.taken),
            ("malformed", self.malformed),
            ("bomb", self.bomb),
            ("oversize", self.oversize),
            ("unauthenticated", self.unauthenticated),
            ("forbidden", self.forbidden),
            ("unknown", self.unknown),
            ("refused", self.refused),
            ("busy", self.busy),
        ]
    }
}

/// The admin API of a router.
pub struct Server {
    password: Option<Password>,
    callers: VecDeque<Caller>,
    pending: BTreeMap<Ticket, Pending>,
    asked: u64,
    counters: Counters,
}

/// Somebody who was authenticated.
struct Caller {
    address: SocketAddr,
    heard: Duration,
}

/// A question that is open.
struct Pending {
    from: SocketAddr,
    txid: Option<Vec<u8>>,
    form: Form,
    asked: Duration,
    until: Duration,
}

impl Now {
    /// A time of the router's clock in milliseconds since 1970.
    pub(crate) fn unix_milliseconds(self, then: Duration) -> u64 {
        let age = self.monotonic.saturating_sub(then);
        milliseconds(self.unix.saturating_sub(age))
    }
}

impl Server {
    /// A server; without a password it answers only what needs no authentication.
    #[must_use]
    pub const fn new(password: Option<Password>) -> Self {
        Self {
            password,
            callers: VecDeque::new(),
            pending: BTreeMap::new(),
            asked: 0,
            counters: Counters::ZERO,
        }
    }

    /// Takes a datagram that came from `from`, and gives what is to be sent back there.
    ///
    /// `None` when it is no request, and when the answer has to wait for another node's.
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
        match self.call(now, from, datagram, fields, query, router) {
            Err(wrong) => Some(Answer::error(wrong).encode(txid)),
            Ok(Done::Answer(answer)) => {
                self.counters.taken += 1;
                Some(answer.encode(txid))
            }
            Ok(Done::Ask { ask, timeout, form }) => {
                let pending = Pending {
                    from,
                    txid: txid.map(<[u8]>::to_vec),
                    form,
                    asked: now.monotonic,
                    until: now.monotonic.saturating_add(timeout),
                };
                let refused = self.ask(pending, &ask, router).err()?;
                Some(Answer::error(refused).encode(txid))
            }
        }
    }

    /// Takes the outcome of a question, and gives the answer and to whom it is to be sent.
    ///
    /// `None` when nobody waits for it any more.
    pub fn complete(
        &mut self,
        now: Now,
        ticket: Ticket,
        outcome: &Outcome,
    ) -> Option<(SocketAddr, Vec<u8>)> {
        let pending = self.pending.remove(&ticket)?;
        let elapsed = now.monotonic.saturating_sub(pending.asked);
        let answer = pending.form.answer(outcome, elapsed);
        Some((pending.from, answer.encode(pending.txid.as_deref())))
    }

    /// When [`Server::handle_timeout`] is to be called; `None` while no question is open.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.pending.values().map(|pending| pending.until).min()
    }

    /// Ends a question whose time has come, and gives the answer and to whom it is to be sent: to be called until it is
    /// `None`.
    pub fn handle_timeout(&mut self, now: Now) -> Option<(SocketAddr, Vec<u8>)> {
        let due = |(_, pending): &(&Ticket, &Pending)| pending.until <= now.monotonic;
        let ticket = *self.pending.iter().find(due)?.0;
        self.complete(now, ticket, &Outcome::Silence)
    }

    /// What came in.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
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
        let is_known = self.hear(now.monotonic, from, claimed);
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

    /// Notes a caller when it is authenticated or was of late; whether it is one of these.
    fn hear(&mut self, now: Duration, from: SocketAddr, authenticated: bool) -> bool {
        self.callers
            .retain(|caller| now.saturating_sub(caller.heard) <= CALLER_LIFETIME);
        let place = self
            .callers
            .iter()
            .position(|caller| caller.address == from);
        if place.is_none() && !authenticated {
            return false;
        }
        place.and_then(|place| self.callers.remove(place));
        if self.callers.len() == MAX_CALLERS {
            self.callers.pop_front();
        }
        self.callers.push_back(Caller {
            address: from,
            heard: now,
        });
        true
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

/// The arguments of a request that has none.
static NO_ARGUMENTS: Dictionary<'static> = Dictionary::new();

//! A session of the Noise link handshake.

use core::ops::Range;
use core::time::Duration;

use rand_core::CryptoRng;

use super::additional::Additional;
use super::cookie::{mac1_of, Cookie};
use super::handshake::{Initiation, Request, Saying};
use super::message::{
    addressee, index, Addressee, Timestamp, BODY, CONTROL, COOKIE, FIRST_INDEX, REPLY_LENGTH,
};
use super::transport::Transport;
use crate::{Credential, Event, Local, Opened, PublicKey, Received, Refused, SealError};

/// Age of the keys at which their initiator makes new ones.
const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Age from which keys are no longer used.
const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Time between two attempts at a handshake.
const REKEY_TIMEOUT: Duration = Duration::from_secs(5);
/// After receiving data, this node sends something within this time.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Number of bits that identify a link. The lowest 8 of the 32 bits of an index count its handshakes.
const INDEX_BITS: u32 = 24;

/// What the caller must do for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Make new keys with [`Link::initiate`], if this node starts handshakes.
    Handshake,
    /// Send a frame, which may be empty.
    Keepalive,
}

/// Keys, and when they were made.
struct Keys {
    transport: Transport,
    born: Duration,
    initiator: bool,
}

/// A session with one peer.
pub struct Link {
    peer: PublicKey,
    credential: Option<Credential>,
    version: u32,
    /// The upper 24 bits of this node's indices.
    index: u32,
    handshakes: u8,
    /// The latest timestamp of the peer.
    latest: Option<Timestamp>,
    initiation: Option<(Initiation, [u8; 16])>,
    attempted: Option<Duration>,
    cookie: Option<Cookie>,
    /// Keys made by a REPLY of this node. The peer's first data confirms them.
    next: Option<Keys>,
    current: Option<Keys>,
    /// The keys before, for frames that were sent before the change.
    previous: Option<Keys>,
    /// When the first frame arrived since the last one of this node, and when this node sent the first frame since the
    /// last arrival.
    unanswered: Option<Duration>,
    unheard: Option<Duration>,
}

impl Link {
    /// Returns a link with `peer` on which nothing was sent.
    ///
    /// The peer uses `index`, of which 24 bits count, to identify the link. It must be unique in the node, and neither
    /// 0 nor 0xffffff, so that no index resembles a handshake of CryptoAuth or a control message. `version` is
    /// announced to the peer. `credential` is shown when this node starts a handshake.
    pub fn new(peer: PublicKey, credential: Option<Credential>, index: u32, version: u32) -> Self {
        Self {
            peer,
            credential,
            version,
            index: index & ((1 << INDEX_BITS) - 1),
            handshakes: 0,
            latest: None,
            initiation: None,
            attempted: None,
            cookie: None,
            next: None,
            current: None,
            previous: None,
            unanswered: None,
            unheard: None,
        }
    }

    /// Returns the peer's permanent key.
    pub fn peer(&self) -> &PublicKey {
        &self.peer
    }

    /// Returns the index by which the peer identifies the link.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns whether data can be sealed.
    pub fn is_established(&self, now: Duration) -> bool {
        self.current
            .as_ref()
            .is_some_and(|keys| keys.is_usable(now))
    }

    /// Returns the counters of frames received under the current keys.
    pub fn received(&self) -> Received {
        self.current
            .as_ref()
            .map(|keys| keys.transport.received())
            .unwrap_or_default()
    }

    /// Returns what the caller must do now.
    pub fn due(&self, now: Duration) -> Option<Due> {
        let since = |time: Option<Duration>| time.map(|time| now.saturating_sub(time));
        let silent =
            since(self.unheard).is_some_and(|silence| silence >= KEEPALIVE + REKEY_TIMEOUT);
        let old =
            |keys: &Keys| !keys.is_usable(now) || keys.initiator && keys.age(now) >= REKEY_AFTER;
        let wanted = silent || self.current.as_ref().is_none_or(old);
        if wanted && since(self.attempted).is_none_or(|passed| passed >= REKEY_TIMEOUT) {
            return Some(Due::Handshake);
        }
        let owed = since(self.unanswered).is_some_and(|owed| owed >= KEEPALIVE);
        (owed && self.is_established(now)).then_some(Due::Keepalive)
    }

    /// Writes an INIT of at most [`MESSAGE_ROOM`](super::MESSAGE_ROOM) octets. Returns its length. `timestamp` must be
    /// later than that of all earlier INITs of this node to this peer, including those before a restart. 32 octets are
    /// drawn from `rng`.
    ///
    /// # Errors
    ///
    /// [`SealError::Room`], and [`SealError::NoKeys`] if the peer's key has a small order.
    pub fn initiate<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Duration,
        rng: &mut R,
        timestamp: Timestamp,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let additional = Additional {
            version: Some(self.version),
            preshared: self
                .credential
                .as_ref()
                .map(|credential| credential.noise.lookup),
            previous: self
                .current
                .as_ref()
                .map(|keys| keys.transport.peer_index >> 8),
        };
        let cookie = self.cookie.as_ref().filter(|cookie| cookie.is_good(now));
        let saying = Saying {
            index: self.next_index(),
            timestamp,
            additional,
            cookie,
        };
        let (length, initiation) = Initiation::new(local, &self.peer, rng, &saying, out)?;
        self.handshakes = self.handshakes.wrapping_add(1);
        self.attempted = Some(now);
        self.initiation = Some((initiation, mac1_of(&out[..length])));
        Ok(length)
    }

    /// Writes the REPLY to an INIT of the peer, with three scalar multiplications. Returns its length in octets. 32
    /// octets are drawn from `rng`.
    ///
    /// # Errors
    ///
    /// [`Refused::WrongKey`]; [`Refused::OldTimestamp`] if the INIT is not later than the last one; [`Refused::Length`]
    /// if `out` is shorter than [`MESSAGE_ROOM`](super::MESSAGE_ROOM); [`Refused::WeakKey`].
    pub fn answer<R: CryptoRng + ?Sized>(
        &mut self,
        request: Request,
        now: Duration,
        rng: &mut R,
        out: &mut [u8],
    ) -> Result<usize, Refused> {
        if *request.peer() != self.peer {
            return Err(Refused::WrongKey(*request.peer()));
        }
        let timestamp = request.timestamp;
        if self.latest.is_some_and(|latest| timestamp <= latest) {
            return Err(Refused::OldTimestamp);
        }
        let length = out.len();
        let frame = out
            .first_chunk_mut::<REPLY_LENGTH>()
            .ok_or(Refused::Length(length))?;
        let transport = request.reply(rng, self.next_index(), frame)?;
        self.handshakes = self.handshakes.wrapping_add(1);
        self.latest = Some(timestamp);
        self.next = Some(Keys {
            transport,
            born: now,
            initiator: false,
        });
        Ok(REPLY_LENGTH)
    }

    /// Seals `content`, a part of `space` with 8 octets before it and 16 after it. Returns where the frame is. Empty
    /// content makes a keepalive.
    ///
    /// # Errors
    ///
    /// [`SealError::NoKeys`] without keys that are young enough, and [`SealError::Room`].
    pub fn seal(
        &mut self,
        now: Duration,
        space: &mut [u8],
        content: Range<usize>,
    ) -> Result<Range<usize>, SealError> {
        let keys = self
            .current
            .as_mut()
            .filter(|keys| keys.is_usable(now))
            .ok_or(SealError::NoKeys)?;
        let is_data = !content.is_empty();
        let frame = keys.transport.seal(space, content)?;
        self.unanswered = None;
        if is_data {
            self.unheard.get_or_insert(now);
        }
        Ok(frame)
    }

    /// Opens a frame from the peer, other than an INIT, in place. After [`Event::Key`] there are new keys: send
    /// something at once. After [`Event::Hello`] there is a cookie: call [`Link::initiate`] again.
    ///
    /// # Errors
    ///
    /// The reason for which the frame is refused. The link is unchanged then.
    pub fn open(
        &mut self,
        local: &Local,
        now: Duration,
        frame: &mut [u8],
    ) -> Result<Opened, Refused> {
        match addressee(frame)? {
            Addressee::Node => return Err(Refused::StrayKey),
            Addressee::Link(index) if index != self.index => return Err(Refused::NoSession(index)),
            Addressee::Link(_) => {}
        }
        let none = frame.len()..frame.len();
        if frame[..BODY] != CONTROL {
            return self.open_data(now, frame);
        }
        if index(frame, BODY) == COOKIE {
            let is_it =
                |(initiation, _): &&(Initiation, _)| initiation.index == index(frame, FIRST_INDEX);
            let (_, mac1) = self
                .initiation
                .as_ref()
                .filter(is_it)
                .ok_or(Refused::StrayKey)?;
            self.cookie = Some(Cookie::open(&self.peer, mac1, now, frame)?);
            self.attempted = None;
            return Ok(Opened {
                content: none,
                event: Event::Hello,
            });
        }
        let (initiation, _) = self.initiation.as_ref().ok_or(Refused::StrayKey)?;
        let preshared = self.credential.as_ref().map(|credential| &credential.noise);
        let transport = initiation.finish(local, preshared, frame)?;
        self.initiation = None;
        self.use_keys(Keys {
            transport,
            born: now,
            initiator: true,
        });
        self.unanswered = Some(now);
        Ok(Opened {
            content: none,
            event: Event::Key,
        })
    }

    fn open_data(&mut self, now: Duration, frame: &mut [u8]) -> Result<Opened, Refused> {
        let wanted = index(frame, 0);
        let is_it =
            |keys: &&mut Keys| keys.transport.own_index == wanted && keys.age(now) < REJECT_AFTER;
        let slots = [&mut self.current, &mut self.next, &mut self.previous];
        let keys = slots
            .into_iter()
            .find_map(|slot| slot.as_mut().filter(is_it));
        let content = keys
            .ok_or(Refused::NoSession(wanted))?
            .transport
            .open(frame)?;
        let mut event = Event::Data;
        if let Some(keys) = self.next.take_if(|keys| keys.transport.own_index == wanted) {
            self.use_keys(keys);
            event = Event::Established;
        }
        self.unheard = None;
        if !content.is_empty() {
            self.unanswered.get_or_insert(now);
        }
        Ok(Opened { content, event })
    }

    /// Sends under `keys` from now on. If INITs have crossed, each end sends under the keys of its own INIT. The keys
    /// of the other INIT, which a REPLY made, must still open frames, so they replace those that were in use before.
    fn use_keys(&mut self, keys: Keys) {
        let replaced = self.current.replace(keys);
        self.previous = self.next.take().or(replaced);
        self.unheard = None;
    }

    /// Returns the index of the next handshake. An index of the link is not reused before 256 handshakes.
    fn next_index(&self) -> u32 {
        self.index << 8 | u32::from(self.handshakes.wrapping_add(1))
    }
}

impl Keys {
    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.born)
    }

    fn is_usable(&self, now: Duration) -> bool {
        self.age(now) < REJECT_AFTER && !self.transport.is_exhausted()
    }
}

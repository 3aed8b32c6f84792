//! Inner sessions: from end to end between two nodes, over any number of switches.
//!
//! ```text
//! set-up: switch header | handshake frame of cryptoauth, of which the content is
//!                         u32 handle | data header | payload
//! data:   switch header | u32 handle of the receiver | data frame of cryptoauth, of which the content is
//!                         data header | payload
//! ```
//!
//! A handle identifies a session at the node that assigned it. Anybody who sees a handshake can send its content again.
//! So a handshake contains only DHT messages, whose queries and answers do no harm if they are repeated. User data
//! waits for keys that the other end has confirmed.
//!
//! Anybody can start sessions. The number of unconfirmed ones is small, and the oldest of them is removed for the next.

use alloc::collections::BTreeMap;
use core::ops::Range;
use core::time::Duration;

use cryptoauth::{Address, Event, Local, PublicKey, Refused, Session, Stage};
use rand_core::CryptoRng;
use switch::{Handle, Header, Label, Refusal};

use crate::frame::{split_data, split_start, Content};
use crate::session_error::{InnerError, InnerSealError};
use crate::session_state::{Delivered, Inner, SessionLimits, SessionState, SESSION_HEAD_ROOM};
use crate::Time;

/// Idle time after which a session is removed, as in cjdns.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(120);

/// Time after which an unconfirmed session is removed.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(15);

/// Offset of the sender's permanent public key in a handshake frame.
const KEY_OFFSET: usize = 40;

/// The lowest handle.
const FIRST_HANDLE: u32 = 4;

/// The sessions of a node.
pub struct Sessions {
    limits: SessionLimits,
    sessions: BTreeMap<u32, Inner>,
    handles: BTreeMap<PublicKey, u32>,
}

impl Sessions {
    /// Returns an empty set of sessions.
    #[must_use]
    pub const fn new(limits: SessionLimits) -> Self {
        Self {
            limits,
            sessions: BTreeMap::new(),
            handles: BTreeMap::new(),
        }
    }

    /// Opens, in place, a frame that the switch passed to this node's router.
    ///
    /// # Errors
    ///
    /// Any [`InnerError`]. The sessions are unchanged then, except for a session whose handshake had malformed content.
    pub fn open<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Time,
        rng: &mut R,
        frame: &mut [u8],
    ) -> Result<Delivered, InnerError> {
        let (header, content) = Header::decode(frame).map_err(InnerError::Switch)?;
        let path = header.label.reversed();
        let (handle, _) = Handle::decode(content).map_err(InnerError::Switch)?;
        match handle {
            Handle::Control => Err(InnerError::Control),
            Handle::Session(own) => self.open_data(local, now, own, path, frame),
            Handle::Handshake(_) => self.open_handshake(local, now, rng, path, frame),
        }
    }

    /// Seals a payload, a part of `space`, into a frame for the node `to`. The frame starts at this node's switch.
    /// Returns where in `space` it is.
    ///
    /// Starts a session if there is none. There must be [`SESSION_HEAD_ROOM`] octets before the payload.
    ///
    /// # Errors
    ///
    /// Any [`InnerSealError`].
    #[allow(
        clippy::too_many_arguments,
        reason = "time, randomness and a frame in place"
    )]
    pub fn seal<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Time,
        rng: &mut R,
        to: (PublicKey, Label),
        content: Content,
        space: &mut [u8],
        payload: Range<usize>,
    ) -> Result<Range<usize>, InnerSealError> {
        if payload.start < SESSION_HEAD_ROOM
            || payload.end > space.len()
            || payload.start > payload.end
        {
            return Err(InnerSealError::Room);
        }
        let (key, label) = to;
        let own = self.handle_for(local, now, rng, key)?;
        let inner = self.sessions.get_mut(&own).ok_or(InnerSealError::Full)?;
        inner.session.expire(now);
        let is_user_data = content != Content::Dht;
        if is_user_data && !inner.is_ready() {
            return Err(InnerSealError::NotEstablished);
        }
        // User data uses existing keys even while a handshake, in which only DHT messages are sent, replaces them.
        let theirs = inner
            .theirs
            .filter(|_| is_user_data || inner.session.next_nonce().is_some());
        let start = prepend(space, payload.start, &content.header());
        let start = if theirs.is_some() {
            start
        } else {
            prepend(space, start, &own.to_be_bytes())
        };
        let sealed = if is_user_data {
            inner.session.seal_data(now, space, start..payload.end)
        } else {
            let session = &mut inner.session;
            session.seal(local, now, rng, space, start..payload.end)
        };
        let sealed = sealed.map_err(InnerSealError::Seal)?;
        let is_handshake = matches!(
            Handle::decode(&space[sealed.clone()]),
            Ok((Handle::Handshake(_), _))
        );
        if is_handshake != theirs.is_none() {
            return Err(InnerSealError::Ended);
        }
        inner.used = now;
        let start = theirs.map_or(sealed.start, |theirs| {
            prepend(space, sealed.start, &theirs.to_be_bytes())
        });
        let start = prepend(space, start, &Header::new(label).encode());
        Ok(start..sealed.end)
    }

    /// Returns whether user data can be sent to a node.
    #[must_use]
    pub fn is_ready(&self, key: &PublicKey) -> bool {
        self.get(key).is_some_and(Inner::is_ready)
    }

    /// Returns whether a DHT message must be sent to a node soon. The node waits for a handshake frame, or for the data
    /// that confirms its KEY and lets it use the new keys.
    #[must_use]
    pub fn answer_due(&self, key: &PublicKey) -> bool {
        let session = self.get(key).map(|inner| &inner.session);
        session.is_some_and(|session| session.answer_due() || session.stage() == Stage::ReceivedKey)
    }

    /// Starts a new handshake, with the next DHT message, with a node that seems to have lost its keys: nothing arrived
    /// from it for `silence`, and no handshake is in progress. User data uses the existing keys until there are new
    /// ones. Returns whether a handshake starts.
    pub fn renew(&mut self, now: Time, key: &PublicKey, silence: Duration) -> bool {
        let own = self.handles.get(key);
        let Some(inner) = own.and_then(|own| self.sessions.get_mut(own)) else {
            return false;
        };
        let wanted = inner.session.has_keys()
            && !matches!(inner.session.stage(), Stage::Init | Stage::SentHello)
            && now.saturating_sub(inner.heard) >= silence;
        if wanted {
            inner.session.renew(now);
        }
        wanted
    }

    /// Returns the node that assigned this handle, or one of them if there are several.
    #[must_use]
    pub fn by_their_handle(&self, handle: u32) -> Option<PublicKey> {
        let mut sessions = self.sessions.values();
        let inner = sessions.find(|inner| inner.theirs == Some(handle))?;
        Some(*inner.session.peer())
    }

    /// Returns all sessions, ordered by the handles that this node assigned.
    pub fn iter(&self) -> impl Iterator<Item = SessionState> + '_ {
        self.sessions.iter().map(|(own, inner)| inner.state(*own))
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Removes sessions that were unused, or unconfirmed, for too long.
    pub fn expire(&mut self, now: Time) {
        self.sessions.retain(|_, inner| {
            let patience = if inner.session.is_established() {
                SESSION_TIMEOUT
            } else {
                SET_UP_TIMEOUT
            };
            now.saturating_sub(inner.used) < patience
        });
        self.handles
            .retain(|_, own| self.sessions.contains_key(own));
    }

    fn get(&self, key: &PublicKey) -> Option<&Inner> {
        self.sessions.get(self.handles.get(key)?)
    }

    fn open_data(
        &mut self,
        local: &Local,
        now: Time,
        own: u32,
        path: Label,
        frame: &mut [u8],
    ) -> Result<Delivered, InnerError> {
        let inner = self
            .sessions
            .get_mut(&own)
            .ok_or(InnerError::UnknownHandle(own))?;
        let start = Header::LEN + Handle::LEN;
        let sealed = &mut frame[start..];
        // A handshake has no handle.
        if let Ok((Handle::Handshake(nonce), _)) = Handle::decode(sealed) {
            return Err(InnerError::Refused(Refused::NoSession(nonce)));
        }
        let opened = inner
            .session
            .open(local, now, sealed)
            .map_err(InnerError::Refused)?;
        inner.used = now;
        inner.heard = now;
        let established = opened.event == Event::Established;
        if let Some(announced) = inner.announced.take_if(|_| established) {
            inner.theirs = Some(announced);
        }
        let plain = &sealed[opened.content.clone()];
        let (content, payload) = split_data(plain).map_err(InnerError::Frame)?;
        inner.packets += u64::from(matches!(content, Content::Ipv6(_)));
        let end = start + opened.content.end;
        let key = *inner.session.peer();
        Ok(Delivered {
            key,
            address: inner.address,
            path,
            content,
            payload: end - payload.len()..end,
            established,
        })
    }

    fn open_handshake<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Time,
        rng: &mut R,
        path: Label,
        frame: &mut [u8],
    ) -> Result<Delivered, InnerError> {
        let sealed = &mut frame[Header::LEN..];
        let key = sealed.get(KEY_OFFSET..).and_then(<[u8]>::first_chunk);
        let key = PublicKey::from_octets(*key.ok_or(InnerError::Switch(Refusal::Runt))?);
        let own = self.handles.get(&key);
        let known = own.and_then(|own| self.sessions.get_mut(own));
        let (inner, opened) = match known {
            Some(inner) => {
                let opened = inner
                    .session
                    .open(local, now, sealed)
                    .map_err(InnerError::Refused)?;
                (inner, opened)
            }
            None => {
                let address = key.node_address().map_err(|_| InnerError::NoNode)?;
                let answered =
                    Session::answer(local, false, now, sealed).map_err(InnerError::Refused)?;
                let own = self.insert(now, rng, answered.0, address);
                let own = own.ok_or(InnerError::Full)?;
                let inner = self.sessions.get_mut(&own).ok_or(InnerError::Full)?;
                (inner, answered.1)
            }
        };
        inner.used = now;
        inner.heard = now;
        let plain = &sealed[opened.content.clone()];
        let (theirs, content, payload) = split_start(plain).map_err(InnerError::Frame)?;
        // A HELLO may be an old one that somebody repeats. A KEY answers a recent HELLO of this node.
        if opened.event == Event::Hello && inner.session.is_established() {
            inner.announced = Some(theirs);
        } else {
            inner.theirs = Some(theirs);
            inner.announced = None;
        }
        if content != Content::Dht {
            return Err(InnerError::Unprotected(content));
        }
        let end = Header::LEN + opened.content.end;
        Ok(Delivered {
            key,
            address: inner.address,
            path,
            content,
            payload: end - payload.len()..end,
            established: false,
        })
    }

    /// Returns this node's handle of the session with a node. Starts a session if there is none.
    fn handle_for<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Time,
        rng: &mut R,
        key: PublicKey,
    ) -> Result<u32, InnerSealError> {
        if let Some(own) = self.handles.get(&key) {
            return Ok(*own);
        }
        let address = key.node_address().map_err(|_| InnerSealError::NoNode)?;
        let session = Session::new(local, key, None, false, now).map_err(InnerSealError::Key)?;
        self.insert(now, rng, session, address)
            .ok_or(InnerSealError::Full)
    }

    /// Adds a session under a free handle. Returns `None` if there are too many sessions and all are established.
    fn insert<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        session: Session,
        address: Address,
    ) -> Option<u32> {
        self.make_room();
        if self.sessions.len() >= self.limits.sessions {
            return None;
        }
        let own = loop {
            let handle = rng.next_u32();
            if (FIRST_HANDLE..u32::MAX).contains(&handle) && !self.sessions.contains_key(&handle) {
                break handle;
            }
        };
        self.handles.insert(*session.peer(), own);
        self.sessions.insert(
            own,
            Inner {
                session,
                address,
                theirs: None,
                announced: None,
                used: now,
                packets: 0,
                heard: now,
            },
        );
        Some(own)
    }

    /// Removes the unconfirmed session that was unused for longest, if there are too many.
    fn make_room(&mut self) {
        let unconfirmed = || {
            self.sessions
                .iter()
                .filter(|(_, inner)| !inner.session.is_established())
        };
        let full = self.sessions.len() >= self.limits.sessions;
        if !full && unconfirmed().count() < self.limits.unconfirmed {
            return;
        }
        let oldest = unconfirmed()
            .min_by_key(|(_, inner)| inner.used)
            .map(|(own, _)| *own);
        if let Some(inner) = oldest.and_then(|own| self.sessions.remove(&own)) {
            self.handles.remove(inner.session.peer());
        }
    }
}

/// Writes octets before `start`. Returns where they start. The caller has checked that there is enough space.
fn prepend(space: &mut [u8], start: usize, octets: &[u8]) -> usize {
    let begin = start - octets.len();
    space[begin..start].copy_from_slice(octets);
    begin
}

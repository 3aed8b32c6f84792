//! A CryptoAuth session: the state machine.
//!
//! # Theory of operation
//!
//! A node with content to send and no keys sends it in a HELLO. It repeats the HELLO around everything that follows,
//! until it receives a KEY. The other node answers with a KEY in the same way. Then the initiator's first data frame
//! tells the responder that the keys are agreed, and the responder's first data frame tells the initiator. Each such
//! exchange of temporary keys is an [`Exchange`].
//!
//! | stage | a new HELLO | HELLO repeated | KEY | KEY repeated | data opens |
//! |---|---|---|---|---|---|
//! | Init | answer | - | stray | stray | - |
//! | SentHello | answer, or stand firm | - | take | take | - |
//! | ReceivedHello | answer | stay | stray | stray | - |
//! | SentKey | answer | stay | stray | stray | establish |
//! | ReceivedKey | answer aside | - | take | stay | establish |
//! | Established | answer aside | - | refused | refused | stay |
//!
//! - *-* and *stray*: refused, as a duplicate, because there is no session, or as a KEY that answers nothing.
//! - *new* and *repeated*: whether the temporary key differs from the known one. A HELLO or KEY with the known key is a
//!   duplicate, unless it is marked as repeated.
//! - *stand firm*: HELLOs have crossed, and the node with the lower permanent key stays initiator.
//! - *aside*: the existing keys stay in use until data confirms the new ones. The HELLO may be an old one that an
//!   attacker repeats; the peer's data then still opens. A peer that really started again needs one answer
//!   ([`Session::answer_due`]), and its first data frame confirms the new keys.
//!
//! The reference implementation forgets its keys in the last case, so that anybody who recorded a HELLO can end a
//! session.

mod exchange;
mod handshake;
mod views;

use core::ops::Range;
use core::time::Duration;

use rand_core::CryptoRng;

use crate::auth::Secret;
use crate::header::{first_word, Header, HANDSHAKE_OVERHEAD};
use crate::sealed::{frame_start, DATA_OVERHEAD, FIRST_DATA_NONCE};
use crate::{Credential, Local, PublicKey, Refused, SealError, UserId};

use exchange::Exchange;
use handshake::authenticate;

/// Progress of an exchange of temporary keys. The numbers are those of the reference implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing was sent.
    Init = 0,
    /// This node sent a HELLO.
    SentHello = 1,
    /// The peer sent a HELLO.
    ReceivedHello = 2,
    /// This node answered with a KEY.
    SentKey = 3,
    /// The peer answered with a KEY. Data can be sent.
    ReceivedKey = 4,
    /// The peer's data was opened.
    Established = 5,
}

/// A frame that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where in the frame its content is.
    pub content: Range<usize>,
    /// What the frame does to the session.
    pub event: Event,
}

/// What an opened frame does to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A HELLO. Its content may arrive more than once, because handshakes have no replay protection.
    Hello,
    /// A KEY that answers our HELLO. Its content may arrive more than once.
    Key,
    /// The first data frame under new keys. The session is established.
    Established,
    /// A further data frame. Each is accepted once.
    Data,
}

/// A session with one peer.
pub struct Session {
    peer: PublicKey,
    /// The X25519 secret of the permanent keys.
    permanent: Secret,
    credential: Option<Credential>,
    require_auth: bool,
    user: Option<UserId>,
    current: Exchange,
    /// Keys that are used until those of `current` are confirmed.
    existing: Option<Exchange>,
    answer_due: bool,
}

impl Session {
    /// Returns a session with `peer` in which nothing was sent, after one scalar multiplication.
    ///
    /// `credential` is shown in our handshakes. With `require_auth` the peer must show one.
    ///
    /// # Errors
    ///
    /// [`Refused::OwnKey`], [`Refused::WeakKey`].
    pub fn new(
        local: &Local,
        peer: PublicKey,
        credential: Option<Credential>,
        require_auth: bool,
        now: Duration,
    ) -> Result<Self, Refused> {
        if peer == *local.public() {
            return Err(Refused::OwnKey);
        }
        let permanent = local.private().agree(&peer).ok_or(Refused::WeakKey)?;
        Ok(Self {
            peer,
            permanent,
            credential,
            require_auth,
            user: None,
            current: Exchange::new(now),
            existing: None,
            answer_due: false,
        })
    }

    /// Checks, without curve arithmetic, whether a frame from a peer without a session can be a HELLO. A caller that
    /// limits how many are answered need not count the others.
    ///
    /// # Errors
    ///
    /// The length is wrong, the user is unknown, or the frame is a KEY.
    pub fn examine(local: &Local, require_auth: bool, frame: &[u8]) -> Result<(), Refused> {
        let header = Header::decode(frame)?;
        if !header.kind.is_hello() {
            return Err(Refused::StrayKey);
        }
        authenticate(local, &header, require_auth).map(drop)
    }

    /// Opens a HELLO from a peer without a session, in place, and creates a session.
    ///
    /// # Errors
    ///
    /// The reason for which the HELLO is refused. A wrong length or an unknown user costs no curve arithmetic.
    pub fn answer(
        local: &Local,
        require_auth: bool,
        now: Duration,
        frame: &mut [u8],
    ) -> Result<(Self, Opened), Refused> {
        Self::examine(local, require_auth, frame)?;
        let header = Header::decode(frame)?;
        let mut session = Self::new(local, header.sender, None, require_auth, now)?;
        let opened = session.open(local, now, frame)?;
        Ok((session, opened))
    }

    /// No longer requires a credential from the peer, because this node wants the session too.
    pub fn waive_auth(&mut self) {
        self.require_auth = false;
    }

    /// Shows `credential` from now on. This starts a new handshake.
    pub fn set_credential(&mut self, credential: Option<Credential>, now: Duration) {
        self.credential = credential;
        self.reset(now);
    }

    /// Forgets all keys. The next frame that is sealed is a HELLO.
    pub fn reset(&mut self, now: Duration) {
        self.current = Exchange::new(now);
        self.existing = None;
        self.answer_due = false;
    }

    /// Starts a new handshake and keeps the existing keys. For a peer that seems to have lost them.
    pub fn renew(&mut self, now: Duration) {
        self.set_aside();
        self.current = Exchange::new(now);
    }

    /// Does the same, and shows `credential` from now on. For a peer that may require another one.
    pub fn renew_with(&mut self, credential: Option<Credential>, now: Duration) {
        self.credential = credential;
        self.renew(now);
    }

    /// Forgets keys and handshakes about which the peer was silent too long. Returns whether there were any.
    ///
    /// Established keys live for 60 s without a frame from the peer, and a handshake in which the peer takes part for
    /// 10 s. An unanswered HELLO stays valid. Sealing calls this function.
    pub fn expire(&mut self, now: Duration) -> bool {
        let mut changed = false;
        if self
            .existing
            .as_ref()
            .is_some_and(|exchange| exchange.is_over(now))
        {
            self.existing = None;
            changed = true;
        }
        if self.current.is_over(now) {
            self.current = self.existing.take().unwrap_or(Exchange::new(now));
            self.answer_due = false;
            changed = true;
        }
        changed
    }

    /// Seals `content`, a part of `space`, into a frame for the peer. Returns where in `space` it is.
    ///
    /// There must be [`HEAD_ROOM`](crate::HEAD_ROOM) octets before the content. Without confirmed keys the content is
    /// sent in a handshake. These octets are drawn from `rng` if they are needed, in this order: 32 for a temporary
    /// key, 9 for the header's unused authentication fields, 24 for a nonce.
    ///
    /// # Errors
    ///
    /// [`SealError::Room`], and [`SealError::Empty`] if a data frame would have no content.
    pub fn seal<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Duration,
        rng: &mut R,
        space: &mut [u8],
        content: Range<usize>,
    ) -> Result<Range<usize>, SealError> {
        self.expire(now);
        self.retire();
        if let Some(run) = self
            .sending_mut()
            .and_then(|exchange| exchange.run.as_mut())
        {
            return run.seal(space, content);
        }
        let start = frame_start(space, &content, HANDSHAKE_OVERHEAD)?;
        let (kind, secret) = match self.current.stage {
            Stage::Init | Stage::SentHello => self.hello(rng),
            _ => self.key(local, rng),
        }
        .ok_or(SealError::NoKeys)?;
        self.seal_handshake(local, rng, kind, &secret, &mut space[start..content.end])?;
        self.answer_due = false;
        Ok(start..content.end)
    }

    /// Seals `content`, a part of `space`, under keys that the peer has, even while a handshake is in progress. For
    /// data that must neither be sent in a handshake nor wait for one.
    ///
    /// # Errors
    ///
    /// [`SealError::NoKeys`], [`SealError::Room`], [`SealError::Empty`].
    pub fn seal_data(
        &mut self,
        now: Duration,
        space: &mut [u8],
        content: Range<usize>,
    ) -> Result<Range<usize>, SealError> {
        self.expire(now);
        self.retire();
        let exchange = if self.current.can_seal() {
            Some(&mut self.current)
        } else {
            self.existing.as_mut()
        };
        let run = exchange.and_then(|exchange| exchange.run.as_mut());
        run.ok_or(SealError::NoKeys)?.seal(space, content)
    }

    /// Opens a frame from the peer in place.
    ///
    /// # Errors
    ///
    /// The reason for which the frame is refused. The session is unchanged then.
    pub fn open(
        &mut self,
        local: &Local,
        now: Duration,
        frame: &mut [u8],
    ) -> Result<Opened, Refused> {
        if frame.len() < DATA_OVERHEAD {
            return Err(Refused::Runt(frame.len()));
        }
        match first_word(frame)? {
            nonce @ FIRST_DATA_NONCE.. => {
                let event = self.open_data(nonce, now, frame)?;
                Ok(Opened {
                    content: DATA_OVERHEAD..frame.len(),
                    event,
                })
            }
            _ => {
                let event = self.open_handshake(local, now, frame)?;
                Ok(Opened {
                    content: HANDSHAKE_OVERHEAD..frame.len(),
                    event,
                })
            }
        }
    }

    /// Returns the exchange whose keys seal data now. During a handshake next to existing keys, this is `None` while
    /// the peer waits for a handshake frame.
    fn sending(&self) -> Option<&Exchange> {
        match self.current.stage {
            Stage::ReceivedKey | Stage::Established => Some(&self.current),
            Stage::Init | Stage::SentHello => None,
            Stage::ReceivedHello | Stage::SentKey => {
                self.existing.as_ref().filter(|_| !self.answer_due)
            }
        }
    }

    fn sending_mut(&mut self) -> Option<&mut Exchange> {
        match self.current.stage {
            Stage::ReceivedKey | Stage::Established => Some(&mut self.current),
            Stage::Init | Stage::SentHello => None,
            Stage::ReceivedHello | Stage::SentKey => {
                self.existing.as_mut().filter(|_| !self.answer_due)
            }
        }
    }

    /// Forgets keys whose nonces are used up.
    fn retire(&mut self) {
        if self.existing.as_ref().is_some_and(Exchange::is_exhausted) {
            self.existing = None;
        }
        if self.current.is_exhausted() {
            self.current = Exchange::new(self.current.heard);
        }
    }

    fn open_data(&mut self, nonce: u32, now: Duration, frame: &mut [u8]) -> Result<Event, Refused> {
        let result = match self.current.open(nonce, now, frame) {
            Err(Refused::Forged | Refused::NoSession(_) | Refused::Replayed(_))
                if self.existing.is_some() =>
            {
                return self.open_existing(nonce, now, frame);
            }
            result => result,
        };
        if result == Ok(Event::Established) {
            self.existing = None;
            self.answer_due = false;
        }
        result
    }

    /// Opens data under the existing keys during a handshake. It may confirm them, but does not end the handshake: the
    /// peer may have sent it before it started again.
    fn open_existing(
        &mut self,
        nonce: u32,
        now: Duration,
        frame: &mut [u8],
    ) -> Result<Event, Refused> {
        let existing = self.existing.as_mut().ok_or(Refused::NoSession(nonce))?;
        existing.open(nonce, now, frame)
    }
}

#[cfg(test)]
mod tests;

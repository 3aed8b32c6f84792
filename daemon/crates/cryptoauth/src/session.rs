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

use core::ops::Range;
use core::time::Duration;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::auth::{Secret, User, KIND_NONE};
use crate::header::{
    first_word, temporary, Header, Kind, HANDSHAKE_OVERHEAD, NONCE_LENGTH, SEALED,
};
use crate::sealed::{
    frame_start, handshake_secret, open, seal, Run, DATA_OVERHEAD, FIRST_DATA_NONCE,
};
use crate::{
    Credential, Local, PrivateKey, PublicKey, Received, Refused, SealError, UserId, KEY_LENGTH,
};

/// Silence of the peer after which established keys are forgotten, because the peer has lost them.
const ESTABLISHED_PATIENCE: Duration = Duration::from_secs(60);
/// Time without progress after which a handshake that the peer takes part in is forgotten.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Number of nonces that each end skips when it sees that the session is established.
const SKIPPED_NONCES: u32 = 3;
/// First data nonce of a responder before it skips. Its KEY was number 3.
const RESPONDER_NONCE: u32 = 3;

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

/// One exchange of temporary keys, and the keys that result from it.
struct Exchange {
    stage: Stage,
    initiator: bool,
    /// Our temporary key, forgotten as soon as it is no longer needed.
    own: Option<Temporary>,
    hers: Option<PublicKey>,
    /// The X25519 secret that seals the KEY: from the responder's permanent key and the initiator's temporary one.
    answer: Option<Secret>,
    /// The keys, from SentKey or ReceivedKey on.
    run: Option<Run>,
    /// When the peer last took part.
    heard: Duration,
}

struct Temporary {
    private: PrivateKey,
    public: PublicKey,
}

/// What an authentic HELLO or KEY does to an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Start again as the responder.
    Answer,
    /// The same, but keep the existing keys until the new ones are confirmed.
    AnswerAside,
    /// Nothing changes. The peer waits for our HELLO.
    StandFirm,
    /// Nothing changes.
    Stay,
    /// Make the keys from the peer's temporary key.
    Take,
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
    standing: Option<Exchange>,
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
            standing: None,
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

    /// Returns the peer's permanent key.
    pub fn peer(&self) -> &PublicKey {
        &self.peer
    }

    /// Returns the progress of the latest handshake.
    pub fn stage(&self) -> Stage {
        self.current.stage
    }

    /// Returns whether there are keys that the peer has confirmed, even if another handshake is in progress.
    pub fn is_established(&self) -> bool {
        let is = |exchange: &Exchange| exchange.stage == Stage::Established;
        is(&self.current) || self.standing.as_ref().is_some_and(is)
    }

    /// Returns the user as which the peer authenticated itself in its latest handshake.
    pub fn user(&self) -> Option<UserId> {
        self.user
    }

    /// Returns whether the peer waits for our handshake frame. Seal something soon.
    pub fn answer_due(&self) -> bool {
        self.answer_due
    }

    /// Returns the nonce of the next data frame, if data can be sealed.
    pub fn next_nonce(&self) -> Option<u32> {
        self.sending()
            .and_then(|exchange| exchange.run.as_ref())
            .map(Run::next_nonce)
    }

    /// Returns whether [`Session::seal_data`] has keys.
    pub fn has_keys(&self) -> bool {
        self.current.can_seal() || self.standing.is_some()
    }

    /// Returns the counters of frames received under the keys in use.
    pub fn received(&self) -> Received {
        let exchange = self.sending().unwrap_or(&self.current);
        exchange.run.as_ref().map(Run::received).unwrap_or_default()
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
        self.standing = None;
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
            .standing
            .as_ref()
            .is_some_and(|exchange| exchange.is_over(now))
        {
            self.standing = None;
            changed = true;
        }
        if self.current.is_over(now) {
            self.current = self.standing.take().unwrap_or(Exchange::new(now));
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
            self.standing.as_mut()
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
                self.standing.as_ref().filter(|_| !self.answer_due)
            }
        }
    }

    fn sending_mut(&mut self) -> Option<&mut Exchange> {
        match self.current.stage {
            Stage::ReceivedKey | Stage::Established => Some(&mut self.current),
            Stage::Init | Stage::SentHello => None,
            Stage::ReceivedHello | Stage::SentKey => {
                self.standing.as_mut().filter(|_| !self.answer_due)
            }
        }
    }

    /// Forgets keys whose nonces are used up.
    fn retire(&mut self) {
        if self.standing.as_ref().is_some_and(Exchange::is_exhausted) {
            self.standing = None;
        }
        if self.current.is_exhausted() {
            self.current = Exchange::new(self.current.heard);
        }
    }

    /// Returns which HELLO to send, and the key that seals it.
    fn hello<R: CryptoRng + ?Sized>(&mut self, rng: &mut R) -> Option<(Kind, Secret)> {
        let secret = handshake_secret(&self.permanent, self.password());
        if self.current.stage == Stage::SentHello {
            return Some((Kind::RepeatHello, secret));
        }
        let own = Temporary::new(rng);
        self.current.answer = Some(own.private.agree(&self.peer)?);
        self.current.own = Some(own);
        self.current.initiator = true;
        self.current.stage = Stage::SentHello;
        Some((Kind::Hello, secret))
    }

    /// Returns which KEY to send, and the key that seals it.
    fn key<R: CryptoRng + ?Sized>(&mut self, local: &Local, rng: &mut R) -> Option<(Kind, Secret)> {
        let secret = handshake_secret(self.current.answer.as_ref()?, self.password());
        if self.current.stage == Stage::SentKey {
            return Some((Kind::RepeatKey, secret));
        }
        let own = Temporary::new(rng);
        let agreed = own.private.agree(self.current.hers.as_ref()?)?;
        let run = Run::new(local.ciphers(), &agreed, false, RESPONDER_NONCE);
        self.current.run = Some(run);
        self.current.own = Some(own);
        self.current.stage = Stage::SentKey;
        Some((Kind::Key, secret))
    }

    fn password(&self) -> Option<&Secret> {
        self.credential
            .as_ref()
            .map(|credential| &credential.secret)
    }

    fn seal_handshake<R: CryptoRng + ?Sized>(
        &self,
        local: &Local,
        rng: &mut R,
        kind: Kind,
        secret: &Secret,
        frame: &mut [u8],
    ) -> Result<(), SealError> {
        let own = self.current.own.as_ref().ok_or(SealError::NoKeys)?;
        let mut header = Header {
            kind,
            lookup: [KIND_NONE; 8],
            unused: [0; 4],
            nonce: [0; NONCE_LENGTH],
            sender: *local.public(),
        };
        match &self.credential {
            Some(credential) => header.lookup = credential.lookup,
            None => {
                rng.fill_bytes(&mut header.lookup[1..]);
                rng.fill_bytes(&mut header.unused[..2]);
            }
        }
        rng.fill_bytes(&mut header.nonce);
        header.encode(&own.public, frame);
        seal(secret, &header.nonce, &mut frame[SEALED..]);
        Ok(())
    }

    fn open_data(&mut self, nonce: u32, now: Duration, frame: &mut [u8]) -> Result<Event, Refused> {
        let result = match self.current.open(nonce, now, frame) {
            Err(Refused::Forged | Refused::NoSession(_) | Refused::Replayed(_))
                if self.standing.is_some() =>
            {
                return self.open_standing(nonce, now, frame);
            }
            result => result,
        };
        if result == Ok(Event::Established) {
            self.standing = None;
            self.answer_due = false;
        }
        result
    }

    /// Opens data under the existing keys during a handshake. It may confirm them, but does not end the handshake: the
    /// peer may have sent it before it started again.
    fn open_standing(
        &mut self,
        nonce: u32,
        now: Duration,
        frame: &mut [u8],
    ) -> Result<Event, Refused> {
        let standing = self.standing.as_mut().ok_or(Refused::NoSession(nonce))?;
        standing.open(nonce, now, frame)
    }

    fn open_handshake(
        &mut self,
        local: &Local,
        now: Duration,
        frame: &mut [u8],
    ) -> Result<Event, Refused> {
        let header = Header::decode(frame)?;
        if header.sender != self.peer {
            return Err(Refused::WrongKey(header.sender));
        }
        self.current.expects(header.kind)?;
        let user = authenticate(local, &header, self.require_auth)?;
        let password = user.map(|user| &user.secret);
        let agreed = match header.kind {
            Kind::Hello | Kind::RepeatHello => &self.permanent,
            Kind::Key | Kind::RepeatKey => self.current.answer.as_ref().ok_or(Refused::StrayKey)?,
        };
        let secret = handshake_secret(agreed, password);
        open(&secret, &header.nonce, &mut frame[SEALED..])?;
        let user = user.map(|user| user.id);
        let hers = temporary(frame);
        self.check_temporary(local, &hers)?;
        let step = self
            .current
            .step(header.kind, &hers, *local.public() < self.peer)?;
        self.take_step(step, local, hers, now)?;
        if header.kind.is_hello() {
            self.user = user;
            return Ok(Event::Hello);
        }
        self.user = user.or(self.user);
        Ok(Event::Key)
    }

    /// Refuses a temporary key that is ours, or that made the existing keys.
    fn check_temporary(&self, local: &Local, hers: &PublicKey) -> Result<(), Refused> {
        if self
            .current
            .own
            .as_ref()
            .is_some_and(|own| own.public == *hers)
            || hers == local.public()
        {
            return Err(Refused::Reflected);
        }
        match &self.standing {
            Some(standing) if standing.hers.as_ref() == Some(hers) => Err(Refused::Duplicate),
            _ => Ok(()),
        }
    }

    /// Carries out a step. Fails for a temporary key of small order.
    fn take_step(
        &mut self,
        step: Step,
        local: &Local,
        hers: PublicKey,
        now: Duration,
    ) -> Result<(), Refused> {
        match step {
            Step::Stay | Step::StandFirm => {}
            Step::Answer | Step::AnswerAside => {
                let answer = local.private().agree(&hers).ok_or(Refused::WeakKey)?;
                if step == Step::AnswerAside {
                    self.set_aside();
                }
                self.current = Exchange::answering(hers, answer, now);
            }
            Step::Take => {
                self.current.take(local, hers)?;
                self.standing = None;
            }
        }
        self.current.heard = now;
        self.answer_due = self.current.stage <= Stage::SentKey;
        Ok(())
    }

    /// Keeps the keys of the current exchange if they can seal.
    fn set_aside(&mut self) {
        let spare = Exchange::new(self.current.heard);
        let current = core::mem::replace(&mut self.current, spare);
        if current.can_seal() {
            self.standing = Some(current);
        }
    }
}

impl Exchange {
    fn new(now: Duration) -> Self {
        Self {
            stage: Stage::Init,
            initiator: false,
            own: None,
            hers: None,
            answer: None,
            run: None,
            heard: now,
        }
    }

    fn answering(hers: PublicKey, answer: Secret, now: Duration) -> Self {
        Self {
            stage: Stage::ReceivedHello,
            hers: Some(hers),
            answer: Some(answer),
            ..Self::new(now)
        }
    }

    fn is_over(&self, now: Duration) -> bool {
        let patience = match self.stage {
            Stage::Init | Stage::SentHello => return false,
            Stage::ReceivedHello | Stage::SentKey | Stage::ReceivedKey => HANDSHAKE_PATIENCE,
            Stage::Established => ESTABLISHED_PATIENCE,
        };
        now.saturating_sub(self.heard) >= patience
    }

    /// Returns whether there are keys that the peer has too.
    fn can_seal(&self) -> bool {
        self.stage >= Stage::ReceivedKey
    }

    fn is_exhausted(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_exhausted)
    }

    /// Refuses a KEY that is impossible in this stage, before any calculation.
    fn expects(&self, kind: Kind) -> Result<(), Refused> {
        match self.stage {
            _ if kind.is_hello() => Ok(()),
            Stage::SentHello | Stage::ReceivedKey => Ok(()),
            Stage::Established => Err(Refused::KeyOnSession),
            Stage::Init | Stage::ReceivedHello | Stage::SentKey => Err(Refused::StrayKey),
        }
    }

    /// Returns the step for an authentic HELLO or KEY, according to the table of the module comment.
    fn step(&self, kind: Kind, hers: &PublicKey, firm: bool) -> Result<Step, Refused> {
        let known = self.hers.as_ref() == Some(hers);
        Ok(match (self.stage, kind, known) {
            (_, Kind::Hello, true) => return Err(Refused::Duplicate),
            (Stage::ReceivedHello | Stage::SentKey, Kind::RepeatHello, true) => Step::Stay,
            (Stage::SentHello, Kind::Hello | Kind::RepeatHello, false) if firm => Step::StandFirm,
            (Stage::ReceivedKey | Stage::Established, Kind::Hello | Kind::RepeatHello, false) => {
                Step::AnswerAside
            }
            (_, Kind::Hello | Kind::RepeatHello, false) => Step::Answer,
            (Stage::SentHello, Kind::Key | Kind::RepeatKey, _) => Step::Take,
            (Stage::ReceivedKey, Kind::Key, false) => Step::Take,
            (Stage::ReceivedKey, Kind::RepeatKey, true) => Step::Stay,
            _ => return Err(Refused::Duplicate),
        })
    }

    /// Makes the initiator's keys from the peer's temporary key. A peer that answers twice makes new keys. The nonces
    /// continue, so that returning to its first answer repeats none.
    fn take(&mut self, local: &Local, hers: PublicKey) -> Result<(), Refused> {
        let own = self.own.as_ref().ok_or(Refused::StrayKey)?;
        let agreed = own.private.agree(&hers).ok_or(Refused::WeakKey)?;
        let next_nonce = self.run.as_ref().map_or(FIRST_DATA_NONCE, Run::next_nonce);
        self.run = Some(Run::new(local.ciphers(), &agreed, true, next_nonce));
        self.hers = Some(hers);
        self.stage = Stage::ReceivedKey;
        Ok(())
    }

    /// Opens data. The first data frame establishes the session.
    fn open(&mut self, nonce: u32, now: Duration, frame: &mut [u8]) -> Result<Event, Refused> {
        let run = self.run.as_mut().ok_or(Refused::NoSession(nonce))?;
        run.open(nonce, frame)?;
        self.heard = now;
        if self.stage == Stage::Established {
            return Ok(Event::Data);
        }
        run.skip(SKIPPED_NONCES);
        self.stage = Stage::Established;
        self.own = None;
        self.answer = None;
        Ok(Event::Established)
    }
}

impl Temporary {
    fn new<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut octets = Zeroizing::new([0; KEY_LENGTH]);
        rng.fill_bytes(&mut *octets);
        let private = PrivateKey::from_octets(*octets);
        Self {
            public: private.public(),
            private,
        }
    }
}

/// Returns the user that a handshake identifies, if it identifies one.
fn authenticate<'a>(
    local: &'a Local,
    header: &Header,
    required: bool,
) -> Result<Option<&'a User>, Refused> {
    if header.sender == *local.public() {
        return Err(Refused::OwnKey);
    }
    let kind = header.lookup[0];
    if kind == KIND_NONE {
        return if required {
            Err(Refused::AuthRequired)
        } else {
            Ok(None)
        };
    }
    let user = local
        .users
        .find(&header.lookup)
        .ok_or(Refused::UnknownUser(kind))?;
    let address = header.sender.address();
    match user.only {
        Some(only) if only != address => Err(Refused::WrongAddress(address)),
        _ => Ok(Some(user)),
    }
}

#[cfg(test)]
mod tests;

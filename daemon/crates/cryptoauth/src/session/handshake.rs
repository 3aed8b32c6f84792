//! HELLO and KEY: sealing, opening, and what they do to the session.

use core::time::Duration;

use rand_core::CryptoRng;

use super::exchange::{Exchange, Step, Temporary};
use super::{Event, Session, Stage};
use crate::auth::{Secret, User, KIND_NONE};
use crate::header::{temporary, Header, Kind, NONCE_LENGTH, SEALED};
use crate::sealed::{handshake_secret, open, seal, Run};
use crate::{Local, PublicKey, Refused, SealError};

/// First data nonce of a responder before it skips. Its KEY was number 3.
const RESPONDER_NONCE: u32 = 3;

impl Session {
    /// Returns which HELLO to send, and the key that seals it.
    pub(super) fn hello<R: CryptoRng + ?Sized>(&mut self, rng: &mut R) -> Option<(Kind, Secret)> {
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
    pub(super) fn key<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        rng: &mut R,
    ) -> Option<(Kind, Secret)> {
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

    pub(super) fn seal_handshake<R: CryptoRng + ?Sized>(
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

    pub(super) fn open_handshake(
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
        match &self.existing {
            Some(existing) if existing.hers.as_ref() == Some(hers) => Err(Refused::Duplicate),
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
                self.existing = None;
            }
        }
        self.current.heard = now;
        self.answer_due = self.current.stage <= Stage::SentKey;
        Ok(())
    }

    /// Keeps the keys of the current exchange if they can seal.
    pub(super) fn set_aside(&mut self) {
        let spare = Exchange::new(self.current.heard);
        let current = core::mem::replace(&mut self.current, spare);
        if current.can_seal() {
            self.existing = Some(current);
        }
    }
}

/// Returns the user that a handshake identifies, if it identifies one.
pub(super) fn authenticate<'a>(
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

//! One exchange of temporary keys.

use core::time::Duration;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::{Event, Stage};
use crate::auth::Secret;
use crate::header::Kind;
use crate::sealed::{Run, FIRST_DATA_NONCE};
use crate::{Local, PrivateKey, PublicKey, Refused, KEY_LENGTH};

/// Silence of the peer after which established keys are forgotten, because the peer has lost them.
const ESTABLISHED_PATIENCE: Duration = Duration::from_secs(60);
/// Time without progress after which a handshake that the peer takes part in is forgotten.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Number of nonces that each end skips when it sees that the session is established.
const SKIPPED_NONCES: u32 = 3;

/// One exchange of temporary keys, and the keys that result from it.
pub(super) struct Exchange {
    pub(super) stage: Stage,
    pub(super) initiator: bool,
    /// Our temporary key, forgotten as soon as it is no longer needed.
    pub(super) own: Option<Temporary>,
    pub(super) hers: Option<PublicKey>,
    /// The X25519 secret that seals the KEY: from the responder's permanent key and the initiator's temporary one.
    pub(super) answer: Option<Secret>,
    /// The keys, from SentKey or ReceivedKey on.
    pub(super) run: Option<Run>,
    /// When the peer last took part.
    pub(super) heard: Duration,
}

pub(super) struct Temporary {
    pub(super) private: PrivateKey,
    pub(super) public: PublicKey,
}

/// What an authentic HELLO or KEY does to an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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

impl Exchange {
    pub(super) fn new(now: Duration) -> Self {
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

    pub(super) fn answering(hers: PublicKey, answer: Secret, now: Duration) -> Self {
        Self {
            stage: Stage::ReceivedHello,
            hers: Some(hers),
            answer: Some(answer),
            ..Self::new(now)
        }
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        let patience = match self.stage {
            Stage::Init | Stage::SentHello => return false,
            Stage::ReceivedHello | Stage::SentKey | Stage::ReceivedKey => HANDSHAKE_PATIENCE,
            Stage::Established => ESTABLISHED_PATIENCE,
        };
        now.saturating_sub(self.heard) >= patience
    }

    /// Returns whether there are keys that the peer has too.
    pub(super) fn can_seal(&self) -> bool {
        self.stage >= Stage::ReceivedKey
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_exhausted)
    }

    /// Refuses a KEY that is impossible in this stage, before any calculation.
    pub(super) fn expects(&self, kind: Kind) -> Result<(), Refused> {
        match self.stage {
            _ if kind.is_hello() => Ok(()),
            Stage::SentHello | Stage::ReceivedKey => Ok(()),
            Stage::Established => Err(Refused::KeyOnSession),
            Stage::Init | Stage::ReceivedHello | Stage::SentKey => Err(Refused::StrayKey),
        }
    }

    /// Returns the step for an authentic HELLO or KEY, according to the table of the module comment.
    pub(super) fn step(&self, kind: Kind, hers: &PublicKey, firm: bool) -> Result<Step, Refused> {
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
    pub(super) fn take(&mut self, local: &Local, hers: PublicKey) -> Result<(), Refused> {
        let own = self.own.as_ref().ok_or(Refused::StrayKey)?;
        let agreed = own.private.agree(&hers).ok_or(Refused::WeakKey)?;
        let next_nonce = self.run.as_ref().map_or(FIRST_DATA_NONCE, Run::next_nonce);
        self.run = Some(Run::new(local.ciphers(), &agreed, true, next_nonce));
        self.hers = Some(hers);
        self.stage = Stage::ReceivedKey;
        Ok(())
    }

    /// Opens data. The first data frame establishes the session.
    pub(super) fn open(
        &mut self,
        nonce: u32,
        now: Duration,
        frame: &mut [u8],
    ) -> Result<Event, Refused> {
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
    pub(super) fn new<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut octets = Zeroizing::new([0; KEY_LENGTH]);
        rng.fill_bytes(&mut *octets);
        let private = PrivateKey::from_octets(*octets);
        Self {
            public: private.public(),
            private,
        }
    }
}

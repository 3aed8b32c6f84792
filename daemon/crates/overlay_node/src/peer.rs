//! A neighbour and the link to it.
//!
//! # The life of a link
//!
//! | state | what is sent | what changes it |
//! |---|---|---|
//! | Handshake | a PING in a HELLO, at increasing intervals | keys and a version: Established |
//! | Unauthenticated | answers in a KEY | data: Established; [`SET_UP_PATIENCE`]: removed |
//! | Established | a PING when the neighbour is silent; the third also starts a new handshake | silence: Unresponsive |
//! | Unresponsive | if it is configured or sends beacons: as in Handshake | data: Established; time: removed |
//!
//! A neighbour that has restarted cannot open what it receives, and is silent. A new handshake reaches it within a
//! second. The existing keys stay in use until then, so that nothing is lost if it was only slow.

mod timing;

use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use cryptoauth::noise;
use cryptoauth::{
    Credential, Event, Local, Opened, PublicKey, Refused, SealError, Session, UserId,
};
use rand_core::CryptoRng;
use switch::{is_compatible, peer_label, Interface, Label, PROTOCOL_VERSION};

use crate::beacon::Beacon;
use crate::interface::{InterfaceId, LinkAddress};
use crate::limiter::Limiter;
use crate::meter::Meter;
use crate::view::{Link, PeerState, PeerView};
use crate::Time;

/// Time after which an incoming neighbour that does not confirm its keys is removed.
pub(crate) const SET_UP_PATIENCE: Duration = Duration::from_secs(5);
/// First pause between two handshakes. Each pause doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Number of PINGs without an answer after which a new handshake starts.
const PINGS_BEFORE_RENEWAL: u32 = 2;
/// Handshakes of one neighbour that are opened per second.
const HANDSHAKES: u32 = 20;
/// Control frames of one neighbour that are answered per second.
const CONTROLS: u32 = 50;

/// The interface and address of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) interface: InterfaceId,
    pub(crate) address: LinkAddress,
}

/// Why a node is a neighbour.
#[derive(Clone)]
pub(crate) enum Origin {
    /// It connected to this node.
    Incoming,
    /// It sends beacons. The value is when the last one arrived.
    Beacon(Time),
    /// It is configured, with this address and credential.
    Configured(Endpoint, Option<Credential>),
}

/// What is due for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet.
    Nothing,
    /// A PING: [`Peer::note_ping`].
    Ping,
    /// It counts as gone.
    Death,
    /// It must be removed.
    Oblivion,
}

/// Counters of the frames and octets of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    octets: u64,
    frames: u64,
    meter: Meter,
}

/// A neighbour.
pub(crate) struct Peer {
    pub(crate) key: PublicKey,
    pub(crate) endpoint: Endpoint,
    pub(crate) origin: Origin,
    /// Whether this node started the link.
    pub(crate) begun_here: bool,
    /// The switch's interface that is reserved for it.
    pub(crate) port: Option<Interface>,
    /// Whether it is Established.
    pub(crate) up: bool,
    pub(crate) version: Option<u32>,
    pub(crate) user: Option<UserId>,
    /// Its last beacon.
    pub(crate) beaconed: Option<Beacon>,
    /// Where else its beacon came from, and when: one address for each of a few interfaces.
    elsewhere: Vec<(Endpoint, Time)>,
    /// Whether it waits for a frame, whatever its content.
    pub(crate) owed: bool,
    session: Session,
    noise: Option<noise::Link>,
    handshakes: Limiter,
    controls: Limiter,
    pub(crate) heard: Time,
    /// When the first frame was sent since the last one arrived.
    unheard: Option<Time>,
    /// Number of PINGs since a frame last arrived.
    pings: u32,
    ping_at: Time,
    pause: Duration,
    asked: Option<Time>,
    latency: Option<Duration>,
    incoming: Traffic,
    outgoing: Traffic,
}

impl Peer {
    pub(crate) fn new(session: Session, endpoint: Endpoint, origin: Origin, now: Time) -> Self {
        Self {
            key: *session.peer(),
            endpoint,
            begun_here: !matches!(origin, Origin::Incoming),
            origin,
            port: None,
            up: false,
            version: None,
            user: session.user(),
            beaconed: None,
            elsewhere: Vec::new(),
            owed: false,
            session,
            noise: None,
            handshakes: Limiter::default(),
            controls: Limiter::default(),
            heard: now,
            unheard: None,
            pings: 0,
            ping_at: now,
            pause: FIRST_PAUSE,
            asked: None,
            latency: None,
            incoming: Traffic::default(),
            outgoing: Traffic::default(),
        }
    }

    pub(crate) const fn is_incoming(&self) -> bool {
        matches!(self.origin, Origin::Incoming)
    }

    pub(crate) const fn is_configured(&self) -> bool {
        matches!(self.origin, Origin::Configured(..))
    }

    /// Returns whether it is not configured, and has not yet proved that it holds its key.
    pub(crate) const fn is_unconfirmed(&self) -> bool {
        !self.is_configured() && self.port.is_none()
    }

    /// Changes the origin, unless the neighbour is configured.
    pub(crate) fn take_origin(&mut self, origin: Origin) {
        if matches!(origin, Origin::Configured(..)) {
            self.want(origin);
        }
    }

    /// Makes this node start handshakes with it from now on. An incoming neighbour had to show a credential. One that
    /// this node contacts need not, and cannot if it does not yet know this node.
    pub(crate) fn want(&mut self, origin: Origin) {
        self.origin = origin;
        self.session.waive_auth();
    }

    /// Returns the label of one hop to it, or the one that it had.
    pub(crate) fn label(&self) -> Option<Label> {
        self.port.map(peer_label)
    }

    /// Returns whether the link is complete: keys that the neighbour has too, a protocol version, and a sign of life.
    pub(crate) fn is_complete(&self, now: Time) -> bool {
        let keys = self.session.has_keys() || self.uses_noise(now);
        keys && self.version.is_some_and(is_compatible) && self.heard == now
    }

    pub(crate) fn state(&self) -> PeerState {
        match (self.up, self.port) {
            (true, _) => PeerState::Established,
            (false, Some(_)) => PeerState::Unresponsive,
            (false, None) if self.is_incoming() => PeerState::Unauthenticated,
            (false, None) => PeerState::Handshake,
        }
    }

    pub(crate) fn view(&self, now: Time) -> PeerView {
        let noise = self.noise.as_ref().filter(|link| link.is_established(now));
        PeerView {
            key: self.key,
            address: self.key.address(),
            interface: self.endpoint.interface,
            link_address: self.endpoint.address,
            state: self.state(),
            label: self.label(),
            version: self.version,
            user: self.user,
            incoming: self.is_incoming(),
            link: noise.map_or(Link::CryptoAuth, |_| Link::Noise),
            heard: self.heard,
            latency: self.latency,
            octets_in: self.incoming.octets,
            octets_out: self.outgoing.octets,
            kbps_in: self.incoming.meter.kbps(now),
            kbps_out: self.outgoing.meter.kbps(now),
            frames_in: self.incoming.frames,
            frames_out: self.outgoing.frames,
            received: noise.map_or(self.session.received(), noise::Link::received),
        }
    }
}

/// Frames.
impl Peer {
    /// Opens a frame of CryptoAuth in place. Returns `None` if the rate of handshakes exceeds the limit.
    pub(crate) fn open(
        &mut self,
        local: &Local,
        now: Time,
        frame: &mut [u8],
    ) -> Option<Result<Opened, Refused>> {
        if is_handshake(frame) && !self.handshakes.take(now, HANDSHAKES) {
            return None;
        }
        let was_established = self.session.is_established();
        let opened = self.session.open(local, now, frame);
        if let Ok(opened) = &opened {
            match opened.event {
                Event::Hello => self.user = self.session.user(),
                // It was silent, or it started this handshake. So it has restarted, and has lost its Noise keys.
                Event::Key if self.pings > 0 => self.noise = None,
                Event::Established if was_established => self.noise = None,
                _ => {}
            }
            self.note_frame(now, frame.len(), opened.event);
        }
        Some(opened)
    }

    /// Returns the index by which the neighbour identifies its Noise link.
    pub(crate) fn noise_index(&self) -> Option<u32> {
        self.noise.as_ref().map(noise::Link::index)
    }

    /// Returns its Noise link.
    pub(crate) fn noise(&mut self) -> Option<&mut noise::Link> {
        self.noise.as_mut()
    }

    /// Adds a Noise link without keys.
    pub(crate) fn add_noise(&mut self, index: u32) -> &mut noise::Link {
        let credential = match &self.origin {
            Origin::Configured(_, credential) => credential.clone(),
            _ => self.beaconed.as_ref().map(Beacon::credential),
        };
        self.noise.insert(noise::Link::new(
            self.key,
            credential,
            index,
            PROTOCOL_VERSION,
        ))
    }

    /// Opens a frame of Noise in place, other than an INIT.
    pub(crate) fn open_noise(
        &mut self,
        local: &Local,
        now: Time,
        frame: &mut [u8],
    ) -> Result<Opened, Refused> {
        let link = self.noise.as_mut().ok_or(Refused::StrayKey)?;
        let opened = link.open(local, now, frame)?;
        self.note_frame(now, frame.len(), opened.event);
        Ok(opened)
    }

    /// Returns whether data is sent over Noise.
    fn uses_noise(&self, now: Time) -> bool {
        self.noise
            .as_ref()
            .is_some_and(|link| link.is_established(now))
    }

    /// Seals a switch frame, a part of `space`, under keys. The flag: it is the first since a frame arrived.
    pub(crate) fn seal(
        &mut self,
        now: Time,
        space: &mut [u8],
        content: Range<usize>,
    ) -> Result<(Range<usize>, bool), SealError> {
        let sealed = match &mut self.noise {
            Some(link) if link.is_established(now) => link.seal(now, space, content)?,
            _ => self.session.seal_data(now, space, content)?,
        };
        Ok(self.note_sent(now, sealed))
    }

    /// Does the same, but in a handshake if keys are missing or too old. Only for control frames of neighbours.
    pub(crate) fn seal_control<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Time,
        rng: &mut R,
        space: &mut [u8],
        content: Range<usize>,
    ) -> Result<(Range<usize>, bool), SealError> {
        self.owed = false;
        let is_renewing = self.session.answer_due() || self.pings > PINGS_BEFORE_RENEWAL;
        if self.uses_noise(now) && !is_renewing {
            return self.seal(now, space, content);
        }
        let sealed = self.session.seal(local, now, rng, space, content)?;
        Ok(self.note_sent(now, sealed))
    }

    fn note_frame(&mut self, now: Time, octets: usize, event: Event) {
        self.incoming.add(now, octets);
        // Anybody can repeat a handshake. A KEY answers a recent HELLO.
        if event != Event::Hello {
            self.heard = now;
            self.unheard = None;
            self.pings = 0;
            self.pause = FIRST_PAUSE;
        }
    }

    fn note_sent(&mut self, now: Time, sealed: Range<usize>) -> (Range<usize>, bool) {
        self.outgoing.add(now, sealed.len());
        let is_first = self.unheard.is_none();
        self.unheard.get_or_insert(now);
        (sealed, is_first)
    }

    /// Returns whether the rate limit allows an answer to another control frame.
    pub(crate) fn may_ask(&mut self, now: Time) -> bool {
        self.controls.take(now, CONTROLS)
    }
}

impl Traffic {
    fn add(&mut self, now: Time, octets: usize) {
        self.meter.add(now, octets);
        self.octets += octets as u64;
        self.frames += 1;
    }
}

/// Returns whether a frame starts like a handshake of CryptoAuth.
pub(crate) fn is_handshake(frame: &[u8]) -> bool {
    matches!(frame, [0, 0, 0, 0..=3, ..])
}

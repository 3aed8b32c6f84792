//! A neighbour and the link to it.
//!
//! # The life of a link
//!
//! | state | what is said | what changes it |
//! |---|---|---|
//! | Handshake | a PING within a HELLO, at ever longer intervals | keys and a version: Established |
//! | Unauthenticated | answers, within a KEY | data: Established; [`SET_UP_PATIENCE`]: forgotten |
//! | Established | a PING when the neighbour is silent; the third also begins a new handshake | silence: Unresponsive |
//! | Unresponsive | if it is configured or beacons tell of it: as in Handshake | data: Established; time: forgotten |
//!
//! A neighbour that has begun anew cannot open what it gets, and is silent: a new handshake finds it within a second. The
//! keys that stand are used until then, so that nothing is lost when it was only slow.

use core::ops::Range;
use core::time::Duration;

use cryptoauth::noise::{self, Timestamp};
use cryptoauth::{
    Credential, Event, Local, Opened, PublicKey, Refused, SealError, Session, UserId,
};
use rand_core::CryptoRng;
use switch::{is_compatible, peer_label, Interface, Label, PROTOCOL_VERSION};

use crate::beacon::Beacon;
use crate::config::Timing;
use crate::interface::{InterfaceId, LinkAddress};
use crate::limiter::Limiter;
use crate::meter::Meter;
use crate::view::{Link, PeerState, PeerView};
use crate::Time;

/// A neighbour that came by itself and does not confirm its keys is forgotten after so long.
pub(crate) const SET_UP_PATIENCE: Duration = Duration::from_secs(5);
/// The first pause between two handshakes; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// After so many PINGs without an answer a new handshake begins.
const PINGS_BEFORE_RENEWAL: u32 = 2;
/// So many PINGs at least have to remain unanswered before a neighbour is gone: a node that slept has asked nobody.
const PINGS_BEFORE_DEATH: u32 = 3;
/// Handshakes of one neighbour that are opened, a second.
const HANDSHAKES: u32 = 20;
/// Control frames of one neighbour that are answered, a second.
const CONTROLS: u32 = 50;
/// Beacons of a neighbour may stay away for so long; stock nodes send one every 32 s.
const BEACON_PATIENCE: Duration = Duration::from_secs(100);

/// Where a neighbour is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) interface: InterfaceId,
    pub(crate) address: LinkAddress,
}

/// Why it is a neighbour.
#[derive(Clone)]
pub(crate) enum Origin {
    /// It came by itself.
    Incoming,
    /// Beacons tell of it; when the last one came.
    Beacon(Time),
    /// It is configured, with that address.
    Configured(Endpoint, Option<Credential>),
}

/// What a neighbour needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet.
    Nothing,
    /// To be asked: [`Peer::note_ping`].
    Ping,
    /// To be taken as gone.
    Death,
    /// To be forgotten.
    Oblivion,
}

/// What passed a link.
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
    /// Whether this node began the link.
    pub(crate) begun_here: bool,
    /// The switch's interface that is kept for it.
    pub(crate) port: Option<Interface>,
    /// Whether it is Established.
    pub(crate) up: bool,
    pub(crate) version: Option<u32>,
    pub(crate) user: Option<UserId>,
    /// What its last beacon told.
    pub(crate) beaconed: Option<Beacon>,
    /// Whether it waits for something, whatever it is.
    pub(crate) owed: bool,
    session: Session,
    noise: Option<noise::Link>,
    handshakes: Limiter,
    controls: Limiter,
    pub(crate) heard: Time,
    /// When something was sent for the first time after something was heard.
    unheard: Option<Time>,
    /// PINGs since something was heard.
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

    /// Whether nobody asked for it, and it has not shown yet that it holds its key.
    pub(crate) const fn is_unconfirmed(&self) -> bool {
        !self.is_configured() && self.port.is_none()
    }

    /// What is configured stays so.
    pub(crate) fn take_origin(&mut self, origin: Origin) {
        if matches!(origin, Origin::Configured(..)) {
            self.want(origin);
        }
    }

    /// This node looks for it from now on. One that came by itself had to show that it may; who is looked for need not, and
    /// cannot when it does not know yet that it is.
    pub(crate) fn want(&mut self, origin: Origin) {
        self.origin = origin;
        self.session.waive_auth();
    }

    /// The label of one hop to it, or the one that it had.
    pub(crate) fn label(&self) -> Option<Label> {
        self.port.map(peer_label)
    }

    /// Whether there is everything now that makes a neighbour one: keys that it has too, a version, and a sign of life.
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
    /// Opens a frame of CryptoAuth in place; `None` for a handshake more than are opened.
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
                // It has begun anew, and with that has lost the keys of Noise: it was silent, or it began this handshake.
                Event::Key if self.pings > 0 => self.noise = None,
                Event::Established if was_established => self.noise = None,
                _ => {}
            }
            self.note_frame(now, frame.len(), opened.event);
        }
        Some(opened)
    }

    /// How it names its Noise link.
    pub(crate) fn noise_index(&self) -> Option<u32> {
        self.noise.as_ref().map(noise::Link::index)
    }

    /// Its Noise link.
    pub(crate) fn noise(&mut self) -> Option<&mut noise::Link> {
        self.noise.as_mut()
    }

    /// Begins a Noise link, of which nothing is said yet.
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

    /// Whether data goes by Noise.
    fn uses_noise(&self, now: Time) -> bool {
        self.noise
            .as_ref()
            .is_some_and(|link| link.is_established(now))
    }

    /// Seals a frame of the switch, a part of `space`, under keys; the first frame after one that came makes `true`.
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

    /// The same, within a handshake when there are no keys or new ones are wanted: for control frames of neighbours only.
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
        // Anybody may repeat a handshake; a KEY answers what was just said.
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

    /// Whether one more of its control frames is answered.
    pub(crate) fn may_ask(&mut self, now: Time) -> bool {
        self.controls.take(now, CONTROLS)
    }
}

/// Time.
impl Peer {
    /// When it needs something.
    pub(crate) fn wake_at(&self, now: Time, timing: &Timing) -> Time {
        if !self.up {
            return match self.is_sought(now) {
                true => self.ping_at,
                false => self.heard + self.patience(timing),
            };
        }
        let silent = self.heard + timing.ping_after;
        let suspected = self
            .unheard
            .map_or(silent, |since| since + timing.suspect_after);
        match self.pings {
            0 => silent.min(suspected),
            _ => self.ping_at,
        }
    }

    pub(crate) fn due(&self, now: Time, timing: &Timing) -> Due {
        let silence = now.saturating_sub(self.heard);
        if self.wake_at(now, timing) > now {
            return Due::Nothing;
        }
        match self.up {
            true if self.pings >= PINGS_BEFORE_DEATH && silence >= timing.dead_after => Due::Death,
            true => Due::Ping,
            false if self.is_sought(now) => Due::Ping,
            false => Due::Oblivion,
        }
    }

    /// A PING goes to it now, within a new handshake when others were in vain; says whether Noise has to begin anew too.
    pub(crate) fn note_ping(&mut self, now: Time, timing: &Timing) -> bool {
        self.pings = self.pings.saturating_add(1);
        self.asked = Some(now);
        let renew = self.pings == PINGS_BEFORE_RENEWAL + 1 && self.session.has_keys();
        match &self.beaconed {
            // If it has begun anew, its password is another one.
            Some(beacon) if renew => self.session.renew_with(Some(beacon.credential()), now),
            _ if renew => self.session.renew(now),
            _ => {}
        }
        if self.up {
            self.ping_at = now + self.ping_interval(timing);
        } else {
            self.ping_at = now + self.pause;
            self.pause = timing.retry_interval.min(self.pause * 2);
        }
        renew && self.noise.is_some()
    }

    /// The time until the next PING: at first some times what an answer takes.
    fn ping_interval(&self, timing: &Timing) -> Duration {
        let quick = self
            .latency
            .map_or(timing.ping_interval, |latency| latency * 4);
        let quick = quick.max(timing.ping_interval / 4);
        let interval = quick.saturating_mul(1 << self.pings.saturating_sub(1).min(8));
        timing.ping_interval.min(interval)
    }

    /// It answered a PING.
    pub(crate) fn note_pong(&mut self, now: Time) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let passed = now.saturating_sub(asked);
        // RFC 6298, section 2.3, with its alpha of 1/8.
        self.latency = Some(
            self.latency
                .map_or(passed, |smooth| (smooth * 7 + passed) / 8),
        );
    }

    /// It is gone.
    pub(crate) fn note_death(&mut self, now: Time) {
        self.up = false;
        self.ping_at = now;
        self.pause = FIRST_PAUSE;
    }

    /// It is looked for again where it is configured.
    pub(crate) fn note_return(&mut self, now: Time) {
        if let Origin::Configured(_, credential) = &self.origin {
            self.session.set_credential(credential.clone(), now);
        }
    }

    /// It introduced itself. Everybody can say that it has another password than before: if that is so, it has begun anew, and
    /// does not answer what it is asked at once.
    pub(crate) fn note_beacon(&mut self, now: Time, beacon: Beacon) {
        self.origin = Origin::Beacon(now);
        // Who came by itself had to show that it may. Who is sought need not, like one that was found by its beacon: it answers
        // without a password as long as this node is a stranger to it, as after both have moved, and would be refused for good.
        self.session.waive_auth();
        if self.beaconed.replace(beacon) == Some(beacon) {
            return;
        }
        self.ping_at = now;
        let credential = Some(beacon.credential());
        if !self.up {
            self.session.set_credential(credential, now);
        } else if self.pings > PINGS_BEFORE_RENEWAL {
            self.session.renew_with(credential, now);
        } else {
            self.pings = self.pings.max(1);
        }
    }

    /// Whether a handshake with it has had its time.
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        !self.up && now.saturating_sub(self.heard) >= SET_UP_PATIENCE
    }

    /// A Noise handshake that this node begins is due; `enabled` says whether it does.
    pub(crate) fn noise_due(&self, now: Time, enabled: bool) -> bool {
        let due = |link: &noise::Link| link.due(now) == Some(noise::Due::Handshake);
        self.up && noise::may_initiate(enabled, self.version) && self.noise.as_ref().is_none_or(due)
    }

    /// Writes an INIT.
    pub(crate) fn initiate<R: CryptoRng + ?Sized>(
        &mut self,
        local: &Local,
        now: Time,
        rng: &mut R,
        timestamp: Timestamp,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let link = self.noise.as_mut().ok_or(SealError::NoKeys)?;
        link.initiate(local, now, rng, timestamp, out)
    }

    /// Whether this node begins handshakes with it.
    fn is_sought(&self, now: Time) -> bool {
        match self.origin {
            Origin::Incoming => false,
            Origin::Beacon(last) => now.saturating_sub(last) < BEACON_PATIENCE,
            Origin::Configured(..) => true,
        }
    }

    fn patience(&self, timing: &Timing) -> Duration {
        match self.port {
            None => SET_UP_PATIENCE,
            Some(_) => timing.forget_after,
        }
    }
}

impl Traffic {
    fn add(&mut self, now: Time, octets: usize) {
        self.meter.add(now, octets);
        self.octets += octets as u64;
        self.frames += 1;
    }
}

/// Whether a frame begins like a handshake of CryptoAuth.
pub(crate) fn is_handshake(frame: &[u8]) -> bool {
    matches!(frame, [0, 0, 0, 0..=3, ..])
}

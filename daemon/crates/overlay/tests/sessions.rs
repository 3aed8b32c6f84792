//! Inner sessions: recorded ones are opened; two ends communicate, restart, and receive forged frames.

mod support;

use std::time::Duration;

use cryptoauth::{Event, Local, PrivateKey, PublicKey, Refused, Session, HEAD_ROOM};
use fastrand::Rng;
use overlay::{
    Body, Content, Delivered, InnerError, InnerSealError, Message, Query, SessionLimits, Sessions,
    Time, SESSION_HEAD_ROOM, SESSION_TIMEOUT,
};
use proptest::prelude::*;
use rand_core::{CryptoRng, RngCore};
use support::{hex, recorded};
use switch::{Handle, Header, Label};

const NOW: Time = Time::from_secs(5);
const WAY: Label = Label(0x153);
const SOME_DATA: Content = Content::Ipv6(58);

/// A reproducible generator, which protects no secret.
struct Random(Rng);

impl RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        self.0.u32(..)
    }

    fn next_u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }
}

impl CryptoRng for Random {}

struct End {
    local: Local,
    sessions: Sessions,
    random: Random,
}

impl End {
    fn new(private: PrivateKey, seed: u64) -> Self {
        let sessions = Sessions::new(SessionLimits {
            sessions: 8,
            unconfirmed: 4,
        });
        Self {
            local: Local::new(private),
            sessions,
            random: Random(Rng::with_seed(seed)),
        }
    }

    fn key(&self) -> PublicKey {
        *self.local.public()
    }

    fn seal(
        &mut self,
        now: Time,
        to: PublicKey,
        content: Content,
        payload: &[u8],
    ) -> Result<Vec<u8>, InnerSealError> {
        let mut space = [&[0; SESSION_HEAD_ROOM], payload].concat();
        let range = SESSION_HEAD_ROOM..space.len();
        let frame = self.sessions.seal(
            &self.local,
            now,
            &mut self.random,
            (to, WAY),
            content,
            &mut space,
            range,
        )?;
        Ok(space[frame].to_vec())
    }

    fn open(&mut self, now: Time, frame: &[u8]) -> Result<(Delivered, Vec<u8>), InnerError> {
        let mut frame = frame.to_vec();
        let delivered = self
            .sessions
            .open(&self.local, now, &mut self.random, &mut frame)?;
        let payload = frame[delivered.payload.clone()].to_vec();
        Ok((delivered, payload))
    }

    /// Removes all sessions, as after a restart.
    fn restart(&mut self) {
        self.sessions = Sessions::new(SessionLimits::default());
    }
}

/// Returns the private key of a node, the same for the same number.
fn private(number: u64) -> PrivateKey {
    let mut random = Rng::with_seed(number);
    loop {
        let mut octets = [0; 32];
        random.fill(&mut octets);
        let private = PrivateKey::from_octets(octets);
        if private.public().node_address().is_ok() {
            return private;
        }
    }
}

fn pair() -> (End, End) {
    (End::new(private(1), 1), End::new(private(2), 2))
}

/// Sends a payload from one end to the other, which must be able to open it.
fn say(from: &mut End, to: &mut End, content: Content, payload: &[u8]) -> Delivered {
    let frame = from.seal(NOW, to.key(), content, payload).unwrap();
    let (delivered, received) = to.open(NOW, &frame).unwrap();
    assert_eq!(
        (delivered.key, delivered.content, &received[..]),
        (from.key(), content, payload)
    );
    assert_eq!(delivered.path, WAY.reversed());
    delivered
}

fn establish(a: &mut End, b: &mut End) {
    say(a, b, Content::Dht, b"hello");
    say(b, a, Content::Dht, b"key");
    assert!(say(a, b, Content::Dht, b"first data").established);
    assert!(say(b, a, Content::Dht, b"first answer").established);
}

#[test]
fn recorded_handshakes_are_opened_with_the_recorded_key() {
    let private = "35f3c86355e66f1001f28bc6ce33fa8c3d3ef8634fff2cd0c987017207d8ede4";
    let private = PrivateKey::from_octets(hex(private).try_into().unwrap());
    let mut b = End::new(private, 1);
    let frames = recorded("frames.hex");
    let handshakes = frames.iter().filter(|frame| {
        matches!(
            Handle::decode(&frame[Header::LEN..]),
            Ok((Handle::Handshake(0 | 1), _))
        )
    });
    let mut opened = 0;
    for frame in handshakes {
        let Ok((delivered, payload)) = b.open(NOW, frame) else {
            // b itself sent this frame.
            continue;
        };
        assert_eq!(
            (delivered.content, delivered.path),
            (Content::Dht, Label(0x8000_0000_0000_0001).reversed())
        );
        let message = Message::decode(&payload).unwrap();
        assert!(matches!(
            message.body,
            Body::Query(Query::Peers(_) | Query::Ping)
        ));
        opened += 1;
    }
    assert_eq!(
        (opened, b.sessions.len()),
        (4, 1),
        "four HELLOs of a in one session"
    );
}

#[test]
fn two_ends_converse() {
    let (mut a, mut b) = pair();
    let (a_key, b_key) = (a.key(), b.key());
    assert_eq!(
        a.seal(NOW, b_key, SOME_DATA, b"too early"),
        Err(InnerSealError::NotEstablished)
    );
    establish(&mut a, &mut b);
    assert!(a.sessions.is_ready(&b_key) && b.sessions.is_ready(&a_key));
    for payload in [&b"data"[..], &[7; 1400], b""] {
        assert!(!say(&mut a, &mut b, SOME_DATA, payload).established);
        say(&mut b, &mut a, SOME_DATA, payload);
    }
    assert_eq!((a.sessions.len(), b.sessions.len()), (1, 1));
}

#[test]
fn crossed_hellos_come_to_one_session() {
    let (mut a, mut b) = pair();
    let (a_key, b_key) = (a.key(), b.key());
    let from_a = a.seal(NOW, b_key, Content::Dht, b"a").unwrap();
    let from_b = b.seal(NOW, a_key, Content::Dht, b"b").unwrap();
    a.open(NOW, &from_b).unwrap();
    b.open(NOW, &from_a).unwrap();
    for _ in 0..3 {
        say(&mut a, &mut b, Content::Dht, b"a");
        say(&mut b, &mut a, Content::Dht, b"b");
    }
    say(&mut a, &mut b, SOME_DATA, b"a");
    say(&mut b, &mut a, SOME_DATA, b"b");
}

#[test]
fn either_end_may_restart() {
    let (mut a, mut b) = pair();
    for _ in 0..2 {
        establish(&mut a, &mut b);
        b.restart();
        let lost = a.seal(NOW, b.key(), SOME_DATA, b"lost").unwrap();
        assert!(matches!(
            b.open(NOW, &lost),
            Err(InnerError::UnknownHandle(_))
        ));
        say(&mut b, &mut a, Content::Dht, b"hello again");
        assert!(a.sessions.answer_due(&b.key()));
        say(&mut a, &mut b, Content::Dht, b"key");
        assert!(!a.sessions.answer_due(&b.key()));
        assert!(say(&mut b, &mut a, Content::Dht, b"first data").established);
        say(&mut a, &mut b, SOME_DATA, b"data");
        say(&mut b, &mut a, SOME_DATA, b"data");
        a.restart();
    }
}

#[test]
fn a_session_that_is_doubted_carries_data_until_it_is_made_anew() {
    let (mut a, mut b) = pair();
    let silence = Duration::from_secs(1);
    assert!(!a.sessions.renew(NOW, &b.key(), silence), "there is none");
    establish(&mut a, &mut b);
    assert!(
        !a.sessions.renew(NOW, &b.key(), silence),
        "it was just heard"
    );
    let later = NOW + silence;
    assert!(a.sessions.renew(later, &b.key(), silence));
    assert!(a.sessions.is_ready(&b.key()));
    say(&mut a, &mut b, SOME_DATA, b"under the old keys");
    b.restart();
    let hello = a.seal(later, b.key(), Content::Dht, b"hello").unwrap();
    assert!(!a.sessions.renew(later, &b.key(), silence), "it goes on");
    assert_eq!(b.open(later, &hello).unwrap().1, b"hello");
    say(&mut b, &mut a, Content::Dht, b"key");
    assert!(
        a.sessions.answer_due(&b.key()),
        "the KEY is to be confirmed"
    );
    say(&mut a, &mut b, SOME_DATA, b"under the new keys");
    say(&mut b, &mut a, SOME_DATA, b"answer");
    assert!(!a.sessions.answer_due(&b.key()));
    let [state] = a.sessions.iter().collect::<Vec<_>>()[..] else {
        panic!("one session");
    };
    assert_eq!(
        (state.key, state.address, state.ready),
        (b.key(), b.key().address(), true)
    );
    let theirs = b.sessions.iter().next().unwrap();
    assert_eq!(state.their_handle, Some(theirs.own_handle));
    assert_eq!(a.sessions.by_their_handle(theirs.own_handle), Some(b.key()));
    assert_eq!(a.sessions.by_their_handle(state.own_handle), None);
}

#[test]
fn an_old_hello_that_somebody_repeats_diverts_nothing() {
    let (mut a, mut b) = pair();
    let old = a.seal(NOW, b.key(), Content::Dht, b"hello").unwrap();
    b.open(NOW, &old).unwrap();
    a.restart();
    establish(&mut a, &mut b);
    let repeated = b
        .open(NOW, &old)
        .map(|(delivered, _)| delivered.established);
    assert_eq!(repeated, Ok(false), "nobody can tell that it is old");
    let due = b
        .seal(NOW, a.key(), Content::Dht, b"the answer that is due")
        .unwrap();
    assert_eq!(
        a.open(NOW, &due).map(|_| ()),
        Err(InnerError::Refused(Refused::KeyOnSession))
    );
    say(&mut a, &mut b, SOME_DATA, b"data");
    say(&mut b, &mut a, SOME_DATA, b"goes where it went before");
}

#[test]
fn replays_forgeries_and_strangers() {
    let (mut a, mut b) = pair();
    establish(&mut a, &mut b);
    let frame = a.seal(NOW, b.key(), SOME_DATA, b"once").unwrap();
    b.open(NOW, &frame).unwrap();
    assert!(matches!(
        b.open(NOW, &frame),
        Err(InnerError::Refused(Refused::Replayed(_)))
    ));
    let mut forged = a.seal(NOW, b.key(), SOME_DATA, b"data").unwrap();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(
        b.open(NOW, &forged).map(|_| ()),
        Err(InnerError::Refused(Refused::Forged))
    );
    let mut elsewhere = a.seal(NOW, b.key(), SOME_DATA, b"data").unwrap();
    elsewhere[Header::LEN..][..4].copy_from_slice(&77_u32.to_be_bytes());
    assert_eq!(
        b.open(NOW, &elsewhere).map(|_| ()),
        Err(InnerError::UnknownHandle(77))
    );
    let control = [&Header::new(WAY).encode()[..], &[0xff; 40]].concat();
    assert_eq!(b.open(NOW, &control).map(|_| ()), Err(InnerError::Control));
}

#[test]
fn user_data_in_a_handshake_is_refused() {
    let (a, mut b) = pair();
    let mut session = Session::new(&a.local, b.key(), None, false, NOW).unwrap();
    let content = [&77_u32.to_be_bytes()[..], &SOME_DATA.header(), b"data"].concat();
    let mut space = [&[0; HEAD_ROOM], &content[..]].concat();
    let range = HEAD_ROOM..space.len();
    let mut random = Random(Rng::with_seed(3));
    let sealed = session
        .seal(&a.local, NOW, &mut random, &mut space, range)
        .unwrap();
    let frame = [&Header::new(WAY).encode()[..], &space[sealed]].concat();
    assert_eq!(
        b.open(NOW, &frame).map(|_| ()),
        Err(InnerError::Unprotected(SOME_DATA))
    );
}

#[test]
fn a_key_that_is_no_nodes() {
    let (mut a, mut b) = pair();
    let private = (0..=u8::MAX).map(|number| PrivateKey::from_octets([number; 32]));
    let mut strangers = private.filter(|private| private.public().node_address().is_err());
    let mut stranger = End::new(strangers.next().unwrap(), 3);
    let hello = stranger.seal(NOW, b.key(), Content::Dht, b"hello").unwrap();
    assert_eq!(b.open(NOW, &hello).map(|_| ()), Err(InnerError::NoNode));
    assert_eq!(
        a.seal(NOW, stranger.key(), Content::Dht, b"hello"),
        Err(InnerSealError::NoNode)
    );
    assert!(b.sessions.is_empty());
}

#[test]
fn who_begins_sessions_pushes_out_only_those_that_are_not_confirmed() {
    let (mut a, mut b) = pair();
    establish(&mut a, &mut b);
    for number in 10..18 {
        let mut stranger = End::new(private(number), number);
        let hello = stranger.seal(NOW, b.key(), Content::Dht, b"hello").unwrap();
        b.open(NOW, &hello).unwrap();
        assert!(
            b.sessions.len() <= 5,
            "one that is established and four that are not"
        );
    }
    say(&mut a, &mut b, SOME_DATA, b"data");
    say(&mut b, &mut a, SOME_DATA, b"data");
    b.sessions.expire(NOW + Duration::from_secs(20));
    assert_eq!(b.sessions.len(), 1);
    b.sessions.expire(NOW + SESSION_TIMEOUT);
    assert!(b.sessions.is_empty());
}

#[test]
fn without_room_before_the_payload_nothing_is_sealed() {
    let (mut a, b) = pair();
    let mut space = [0; SESSION_HEAD_ROOM + 8];
    let short = SESSION_HEAD_ROOM - 1..SESSION_HEAD_ROOM + 8;
    let to = (b.key(), WAY);
    let sealed = a.sessions.seal(
        &a.local,
        NOW,
        &mut a.random,
        to,
        Content::Dht,
        &mut space,
        short,
    );
    assert_eq!(sealed, Err(InnerSealError::Room));
}

#[test]
fn a_hello_means_what_cryptoauth_says() {
    let (mut a, b) = pair();
    let frame = a.seal(NOW, b.key(), Content::Dht, b"hello").unwrap();
    let mut sealed = frame[Header::LEN..].to_vec();
    let (_, opened) = Session::answer(&b.local, false, NOW, &mut sealed).unwrap();
    assert_eq!(opened.event, Event::Hello);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_octets_are_survived(octets in prop::collection::vec(any::<u8>(), 0..300), kind in 0..4_u32, at in any::<prop::sample::Index>()) {
        let (mut a, mut b) = pair();
        establish(&mut a, &mut b);
        let mut frame = octets.clone();
        if let Some(word) = frame.get_mut(Header::LEN..Header::LEN + 4) {
            word.copy_from_slice(&kind.to_be_bytes());
        }
        prop_assert!(b.open(NOW, &frame).is_err());
        prop_assert!(b.open(NOW, &octets).is_err());
        let sent = a.seal(NOW, b.key(), SOME_DATA, b"data").unwrap();
        let mut changed = sent.clone();
        let at = Header::LEN + at.index(sent.len() - Header::LEN);
        changed[at] ^= 1 << (kind * 2);
        prop_assert!(b.open(NOW, &changed).is_err());
        prop_assert!(b.open(NOW, &sent).is_ok());
    }
}

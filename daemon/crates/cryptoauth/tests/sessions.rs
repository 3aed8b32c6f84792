//! Two ends of a session over a network that loses, repeats, reorders and damages frames.

#[path = "support/pair.rs"]
mod pair;

use std::collections::HashSet;
use std::time::Duration;

use cryptoauth::{Credential, Event, Refused, SealError, Session, Stage, HEAD_ROOM};
use pair::{pair, with_room, Auth, End, Sequence};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Duration = Duration::from_secs(1);

/// An event of the test. Sides and indices are taken modulo their number.
#[derive(Clone, Debug)]
enum Act {
    Say {
        side: usize,
    },
    /// Delivers one of the frames in transit, not always the oldest.
    Deliver {
        index: usize,
    },
    Lose {
        index: usize,
    },
    /// An attacker repeats an earlier frame, to its receiver or to its sender.
    Repeat {
        index: usize,
        reflect: bool,
    },
    /// An attacker changes a bit.
    Damage {
        index: usize,
        bit: usize,
    },
    Wait {
        seconds: u64,
    },
    Restart {
        side: usize,
    },
    Renew {
        side: usize,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let index = 0..64_usize;
    prop_oneof![
        6 => (0..2_usize).prop_map(|side| Act::Say { side }),
        8 => prop_oneof![3 => Just(0), 1 => index.clone()].prop_map(|index| Act::Deliver { index }),
        2 => index.clone().prop_map(|index| Act::Lose { index }),
        2 => (index.clone(), any::<bool>()).prop_map(|(index, reflect)| Act::Repeat { index, reflect }),
        1 => (index, any::<usize>()).prop_map(|(index, bit)| Act::Damage { index, bit }),
        1 => prop_oneof![Just(1), Just(11), Just(61)].prop_map(|seconds| Act::Wait { seconds }),
        1 => (0..2_usize).prop_map(|side| Act::Restart { side }),
        1 => (0..2_usize).prop_map(|side| Act::Renew { side }),
    ]
}

#[derive(Clone)]
struct Frame {
    to: usize,
    octets: Vec<u8>,
}

struct World {
    ends: [End; 2],
    now: Duration,
    said: u64,
    on_the_way: Vec<Frame>,
    past: Vec<Frame>,
    /// Contents of data frames that arrived on each side.
    data: [HashSet<Vec<u8>>; 2],
    /// All contents that arrived on each side.
    heard: [Vec<Vec<u8>>; 2],
}

impl World {
    fn new(seed: u64, lower: bool, auth: Auth) -> Self {
        Self {
            ends: pair(seed, lower, auth),
            now: NOW,
            said: 0,
            on_the_way: Vec::new(),
            past: Vec::new(),
            data: Default::default(),
            heard: Default::default(),
        }
    }

    /// Sends a unique content, whose first octet identifies the sender.
    fn say(&mut self, side: usize) -> Vec<u8> {
        self.said += 1;
        let content = [&[side as u8], &self.said.to_be_bytes()[..]].concat();
        let octets = self.ends[side].seal(self.now, &content);
        let frame = Frame {
            to: 1 - side,
            octets,
        };
        self.past.push(frame.clone());
        self.on_the_way.push(frame);
        content
    }

    fn deliver(&mut self, frame: Frame) {
        let to = frame.to;
        let Ok((content, opened)) = self.ends[to].open(self.now, &frame.octets) else {
            return;
        };
        if matches!(opened.event, Event::Data | Event::Established) {
            assert_eq!(content[0] as usize, 1 - to, "data of the peer");
            assert!(self.data[to].insert(content.clone()), "data came twice");
        }
        self.heard[to].push(content);
    }

    fn take(&mut self, index: usize) -> Option<Frame> {
        let count = self.on_the_way.len();
        (count > 0).then(|| self.on_the_way.remove(index % count))
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Say { side } => drop(self.say(side)),
            Act::Deliver { index } => {
                let frame = self.take(index);
                frame.into_iter().for_each(|frame| self.deliver(frame));
            }
            Act::Lose { index } => drop(self.take(index)),
            Act::Repeat { index, reflect } if !self.past.is_empty() => {
                let mut frame = self.past[index % self.past.len()].clone();
                if reflect {
                    frame.to = 1 - frame.to;
                }
                self.deliver(frame);
            }
            Act::Damage { index, bit } if !self.past.is_empty() => {
                let mut frame = self.past[index % self.past.len()].clone();
                let bit = bit % (8 * frame.octets.len());
                frame.octets[bit / 8] ^= 1 << (bit % 8);
                self.deliver(frame);
            }
            Act::Repeat { .. } | Act::Damage { .. } => {}
            Act::Wait { seconds } => self.now += Duration::from_secs(seconds),
            Act::Restart { side } => self.ends[side].session.reset(self.now),
            Act::Renew { side } => self.ends[side].session.renew(self.now),
        }
    }

    /// Lets each side send once per second, and whenever an answer is due, until data arrives both ways. Returns the
    /// seconds.
    fn seconds_until_both_hear(&mut self) -> u64 {
        self.on_the_way.clear();
        for second in 0.. {
            assert!(
                second <= 60,
                "no session: {:?}",
                self.ends.each_ref().map(|end| end.session.stage())
            );
            self.now += Duration::from_secs(1);
            let said = [0, 1].map(|side| self.say(side));
            self.settle();
            if (0..2).all(|side| self.data[1 - side].contains(&said[side])) {
                return second;
            }
        }
        unreachable!()
    }

    fn settle(&mut self) {
        while let Some(frame) = self.take(0) {
            self.deliver(frame);
            for side in 0..2 {
                if self.ends[side].session.answer_due() {
                    self.say(side);
                }
            }
        }
    }
}

fn auth() -> impl Strategy<Value = Auth> {
    prop_oneof![Just(Auth::None), Just(Auth::Password), Just(Auth::Login)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Frames may be lost, repeated, reordered, damaged and reflected, and nodes restarted. When frames arrive again,
    /// so does data, each once. A handshake that was misled takes at most ten seconds.
    #[test]
    fn two_ends_always_come_to_hear_each_other(
        seed in any::<u64>(),
        lower in any::<bool>(),
        auth in auth(),
        acts in vec(act(), 0..60),
    ) {
        let mut world = World::new(seed, lower, auth);
        acts.into_iter().for_each(|act| world.act(act));
        let seconds = world.seconds_until_both_hear();
        prop_assert!(seconds <= 12, "{seconds} s");
        let stages = world.ends.each_ref().map(|end| end.session.is_established());
        prop_assert_eq!(stages, [true, true]);
    }

    /// Octets that are not a frame change nothing.
    #[test]
    fn random_octets_are_refused(mut octets in vec(any::<u8>(), 0..300), word in 0..6_u32) {
        let mut world = World::new(1, true, Auth::Login);
        if let Some(first) = octets.first_chunk_mut() {
            *first = word.to_be_bytes();
        }
        let end = &mut world.ends[0];
        prop_assert!(end.open(NOW, &octets).is_err());
        prop_assert!(Session::answer(&end.local, true, NOW, &mut octets.clone()).is_err());
        prop_assert_eq!(end.session.stage(), Stage::Init);
    }
}

/// Lets the first end start. Returns the HELLO, the KEY and the first data of each end.
fn establish(ends: &mut [End; 2]) -> [Vec<u8>; 4] {
    let [first, second] = ends;
    let hello = first.seal(NOW, b"hello");
    assert_eq!(second.open(NOW, &hello).unwrap().1.event, Event::Hello);
    assert!(second.session.answer_due());
    let key = second.seal(NOW, b"key");
    assert_eq!(first.open(NOW, &key).unwrap().1.event, Event::Key);
    let data = first.seal(NOW, b"data");
    assert_eq!(second.open(NOW, &data).unwrap().1.event, Event::Established);
    let more = second.seal(NOW, b"more");
    assert_eq!(first.open(NOW, &more).unwrap().1.event, Event::Established);
    [hello, key, data, more]
}

/// Returns whether an octet of a handshake frame is unprotected: the repetition mark, and unused fields.
fn is_unprotected(octet: usize, bit: usize, has_user: bool) -> bool {
    (octet, bit) == (3, 0) || (12..16).contains(&octet) || !has_user && (5..12).contains(&octet)
}

#[test]
fn a_bit_flip_anywhere_is_refused() {
    for auth in [Auth::None, Auth::Password, Auth::Login] {
        for seed in [1, 2] {
            let frames = establish(&mut pair(seed, seed == 1, auth));
            for (index, frame) in frames.iter().enumerate() {
                flip_every_bit(seed, auth, index, frame);
            }
        }
    }
}

/// Passes each damaged form of a frame to the receiver, in its state just before.
fn flip_every_bit(seed: u64, auth: Auth, index: usize, frame: &[u8]) {
    let mut ends = pair(seed, seed == 1, auth);
    let mut accepted = Vec::new();
    let handshake = index < 2;
    for step in 0..index {
        let said = ends[step % 2].seal(NOW, [&b"hello"[..], b"key", b"data"][step]);
        ends[1 - step % 2].open(NOW, &said).unwrap();
    }
    let receiver = &mut ends[1 - index % 2];
    let stage = receiver.session.stage();
    for bit in 0..8 * frame.len() {
        let mut damaged = frame.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let has_user = !matches!(auth, Auth::None);
        if handshake && is_unprotected(bit / 8, bit % 8, has_user) {
            continue;
        }
        if receiver.open(NOW, &damaged).is_ok() {
            accepted.push(bit);
        }
        assert_eq!(receiver.session.stage(), stage, "bit {bit}");
    }
    assert_eq!(accepted, [], "{auth:?}, frame {index}");
    receiver.open(NOW, frame).expect("the frame itself");
}

#[test]
fn crossed_hellos_leave_the_lower_key_initiator() {
    for lower in [true, false] {
        let [mut first, mut second] = pair(3, lower, Auth::None);
        let (one, two) = (first.seal(NOW, b"1"), second.seal(NOW, b"2"));
        assert_eq!(
            first.open(NOW, &two).unwrap().0,
            b"2",
            "content arrives in any case"
        );
        assert_eq!(second.open(NOW, &one).unwrap().0, b"1");
        let stages = [first.session.stage(), second.session.stage()];
        let mut expected = [Stage::SentHello, Stage::ReceivedHello];
        if !lower {
            expected.reverse();
        }
        assert_eq!(stages, expected);
        assert!(first.session.answer_due() && second.session.answer_due());
    }
}

#[test]
fn a_recorded_hello_cannot_end_a_session() {
    let [mut first, mut second] = pair(4, true, Auth::Login);
    let old = first.seal(NOW, b"of the past");
    first.session.reset(NOW);
    let mut ends = [first, second];
    establish(&mut ends);
    [first, second] = ends;
    second.open(NOW, &old).expect("it is authentic");
    assert!(second.session.is_established());
    let answer = second.seal(NOW, b"key");
    assert_eq!(first.open(NOW, &answer), Err(Refused::KeyOnSession));
    for count in 0..3 {
        let data = second.seal(NOW, &[count]);
        assert_eq!(first.open(NOW, &data).unwrap().1.event, Event::Data);
        let data = first.seal(NOW, &[count]);
        assert_eq!(second.open(NOW, &data).unwrap().1.event, Event::Data);
    }
    let later = NOW + Duration::from_secs(10);
    assert!(second.session.expire(later));
    assert_eq!(second.session.stage(), Stage::Established);
}

#[test]
fn a_peer_that_restarted_is_back_with_one_answer() {
    let mut ends = pair(5, true, Auth::Login);
    establish(&mut ends);
    ends[0].session.reset(NOW);
    let [hello, ..] = establish(&mut ends);
    assert_eq!(ends[1].open(NOW, &hello), Err(Refused::Duplicate));
}

/// Seals data under the existing keys, whatever handshake is in progress.
fn seal_data(end: &mut End) -> Result<Vec<u8>, SealError> {
    let (mut space, content) = with_room(b"data");
    let sealed = end.session.seal_data(NOW, &mut space, content)?;
    Ok(space[sealed].to_vec())
}

#[test]
fn data_goes_on_while_keys_are_renewed() {
    let mut ends = pair(6, true, Auth::Login);
    assert_eq!(seal_data(&mut ends[0]), Err(SealError::NoKeys));
    assert!(!ends[0].session.has_keys());
    establish(&mut ends);
    let [first, second] = &mut ends;
    let credential = Credential::login(b"ali baba", b"open sesame");
    first.session.renew_with(Some(credential), NOW);
    let hello = first.seal(NOW, b"hello");
    assert_eq!(first.session.stage(), Stage::SentHello);
    assert!(first.session.has_keys());
    let data = seal_data(first).unwrap();
    assert_eq!(second.open(NOW, &data).unwrap().1.event, Event::Data);
    assert_eq!(second.open(NOW, &hello).unwrap().1.event, Event::Hello);
    let back = seal_data(second).unwrap();
    assert_eq!(first.open(NOW, &back).unwrap().1.event, Event::Data);
    let key = second.seal(NOW, b"key");
    assert_eq!(first.open(NOW, &key).unwrap().1.event, Event::Key);
    let data = seal_data(first).unwrap();
    assert_eq!(second.open(NOW, &data).unwrap().1.event, Event::Established);
}

#[test]
fn a_responder_that_forgets_answers_anew_and_no_nonce_comes_twice() {
    let [mut first, mut second] = pair(12, true, Auth::Login);
    let hello = first.seal(NOW, b"hello");
    second.open(NOW, &hello).unwrap();
    let old = second.seal(NOW, b"old key");
    first.open(NOW, &old).unwrap();
    assert_eq!(first.seal(NOW, b"lost")[..4], [0, 0, 0, 4]);
    second.session.reset(NOW);
    second.open(NOW, &hello).unwrap();
    let new = second.seal(NOW, b"new key");
    assert_eq!(first.open(NOW, &new).unwrap().1.event, Event::Key);
    assert_eq!(first.open(NOW, &new), Err(Refused::Duplicate));
    let repeated = second.seal(NOW, b"new key");
    assert_eq!(repeated[..4], [0, 0, 0, 3]);
    assert_eq!(first.open(NOW, &repeated).unwrap().1.event, Event::Key);
    first.open(NOW, &old).expect("it answers the HELLO, too");
    first.open(NOW, &new).unwrap();
    let data = first.seal(NOW, b"data");
    assert_eq!(data[..4], [0, 0, 0, 5]);
    assert_eq!(second.open(NOW, &data).unwrap().1.event, Event::Established);
}

#[test]
fn each_refusal_names_its_cause() {
    let mut ends = pair(6, true, Auth::Login);
    let strangers = pair(7, true, Auth::None);
    let [mut stranger, _] = strangers;
    let hello = stranger.seal(NOW, b"hello");
    assert_eq!(
        ends[0].open(NOW, &hello),
        Err(Refused::WrongKey(*stranger.local.public()))
    );
    let answer = |end: &End, frame: &[u8]| {
        let answered = Session::answer(&end.local, true, NOW, &mut frame.to_vec());
        answered.map(|(_, opened)| opened.event)
    };
    assert_eq!(answer(&ends[0], &hello), Err(Refused::AuthRequired));
    assert_eq!(answer(&ends[0], &hello[..119]), Err(Refused::Runt(119)));
    assert_eq!(answer(&stranger, &hello), Err(Refused::OwnKey));
    let mut unknown = hello.clone();
    unknown[4] = 2;
    assert_eq!(answer(&ends[0], &unknown), Err(Refused::UnknownUser(2)));
    let data = [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(ends[0].open(NOW, &data), Err(Refused::NoSession(9)));
    assert_eq!(ends[0].open(NOW, &data[..19]), Err(Refused::Runt(19)));
    let [hello, key, first, _] = establish(&mut ends);
    assert_eq!(ends[1].open(NOW, &hello), Err(Refused::Duplicate));
    assert_eq!(ends[0].open(NOW, &key), Err(Refused::KeyOnSession));
    assert_eq!(
        ends[1].open(NOW, &key),
        Err(Refused::WrongKey(*ends[1].local.public()))
    );
    assert_eq!(ends[1].open(NOW, &first), Err(Refused::Replayed(4)));
    let mut forged = first;
    forged[3] = 40;
    assert_eq!(ends[1].open(NOW, &forged), Err(Refused::Forged));
    ends[1].session.reset(NOW);
    assert_eq!(
        ends[1].open(NOW, &key),
        Err(Refused::WrongKey(*ends[1].local.public()))
    );
}

#[test]
fn a_user_bound_to_an_address_has_no_other() {
    let mut ends = pair(8, true, Auth::None);
    let [first, second] = &mut ends;
    let credential = cryptoauth::Credential::login(b"bound", b"to one");
    first.session.set_credential(Some(credential.clone()), NOW);
    let (own, other) = (
        first.local.public().address(),
        second.local.public().address(),
    );
    let hello = first.seal(NOW, b"hello");
    let bound = second
        .local
        .users
        .add(Some(b"bound"), b"to one", Some(other))
        .unwrap();
    assert_eq!(second.open(NOW, &hello), Err(Refused::WrongAddress(own)));
    assert!(second.local.users.remove(bound));
    assert_eq!(second.open(NOW, &hello), Err(Refused::UnknownUser(2)));
    let bound = second
        .local
        .users
        .add(Some(b"bound"), b"to one", Some(own))
        .unwrap();
    second.open(NOW, &hello).unwrap();
    assert_eq!(second.session.user(), Some(bound));
    let error = second
        .local
        .users
        .add(Some(b"another"), b"to one", None)
        .unwrap_err();
    assert_eq!(error.0, bound);
}

#[test]
fn a_wrong_password_is_a_forgery() {
    let [mut first, mut second] = pair(9, true, Auth::Login);
    first.session.set_credential(
        Some(cryptoauth::Credential::login(b"ali baba", b"open wheat")),
        NOW,
    );
    let hello = first.seal(NOW, b"hello");
    assert_eq!(second.open(NOW, &hello), Err(Refused::Forged));
}

#[test]
fn silence_ends_a_session_after_60_s_and_a_handshake_after_10() {
    let mut ends = pair(10, true, Auth::None);
    establish(&mut ends);
    let [mut first, mut second] = ends;
    let almost = NOW + Duration::from_millis(59_999);
    assert_eq!(first.seal(almost, b"data")[..3], [0; 3]);
    assert_eq!(first.session.stage(), Stage::Established);
    let hello = first.seal(NOW + Duration::from_secs(60), b"data");
    assert_eq!(hello[..4], [0; 4]);
    let later = NOW + Duration::from_secs(3600);
    assert_eq!(
        first.seal(later, b"again")[..4],
        [0, 0, 0, 1],
        "an unanswered HELLO stays"
    );
    second.session.reset(later);
    second.open(later, &hello).unwrap();
    assert!(!second.session.expire(later + Duration::from_millis(9_999)));
    assert!(second.session.expire(later + Duration::from_secs(10)));
    assert_eq!(second.session.stage(), Stage::Init);
}

#[test]
fn the_caller_is_told_what_cannot_be_sealed() {
    let mut ends = pair(11, true, Auth::None);
    let seal = |end: &mut End, length: usize, content| {
        let mut space = vec![0; length];
        end.session
            .seal(&end.local, NOW, &mut Sequence(1), &mut space, content)
    };
    assert_eq!(
        seal(&mut ends[0], 200, HEAD_ROOM - 1..200),
        Err(SealError::Room(120, 0))
    );
    assert_eq!(
        seal(&mut ends[0], 100, 120..130),
        Err(SealError::Room(120, 0))
    );
    assert_eq!(ends[0].session.stage(), Stage::Init);
    establish(&mut ends);
    assert_eq!(
        seal(&mut ends[0], 200, 19..200),
        Err(SealError::Room(20, 0))
    );
    assert_eq!(seal(&mut ends[0], 200, 20..20), Err(SealError::Empty));
    assert_eq!(seal(&mut ends[0], 200, 20..200), Ok(0..200));
}

//! Two ends of a Noise link over a network that loses, repeats, reorders and damages frames.

#[path = "support/pair.rs"]
mod pair;

use std::collections::HashSet;
use std::time::Duration;

use cryptoauth::noise::{
    addressee, may_initiate, Addressee, Cookies, Due, Link, Request, Timestamp, MESSAGE_ROOM,
};
use cryptoauth::{Credential, Event, Local, PublicKey, Refused, SealError, UserId};
use pair::{local, with_room, Sequence};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Duration = Duration::from_secs(1);
const VERSION: u32 = 22;

/// One end: a node with one link.
struct End {
    local: Local,
    link: Link,
    rng: Sequence,
    index: u32,
    /// A clock that orders all INITs, including those before a restart.
    clock: u64,
}

fn credential() -> Option<Credential> {
    Some(Credential::login(b"ali baba", b"open sesame"))
}

fn pair(seed: u64) -> [End; 2] {
    let mut rng = Sequence(seed);
    let mut locals = [local(&mut rng), local(&mut rng)];
    for local in &mut locals {
        local
            .users
            .add(Some(b"ali baba"), b"open sesame", None)
            .unwrap();
    }
    let [one, two] = locals;
    let keys = [*one.public(), *two.public()];
    [end(one, keys[1], 5), end(two, keys[0], 0x00ff_fffe)]
}

fn end(local: Local, peer: PublicKey, index: u32) -> End {
    let link = Link::new(peer, credential(), index, VERSION);
    End {
        local,
        link,
        rng: Sequence(u64::from(index)),
        index,
        clock: 0,
    }
}

impl End {
    fn initiate(&mut self, now: Duration) -> Vec<u8> {
        self.clock += 1;
        let timestamp = Timestamp::from_unix(Duration::from_millis(self.clock));
        let mut out = vec![0; MESSAGE_ROOM];
        let length = self
            .link
            .initiate(&self.local, now, &mut self.rng, timestamp, &mut out);
        out.truncate(length.unwrap());
        out
    }

    fn answer(&mut self, now: Duration, frame: &[u8]) -> Result<Vec<u8>, Refused> {
        let request = Request::open(&self.local, true, frame)?;
        let mut out = vec![0; MESSAGE_ROOM];
        let length = self.link.answer(request, now, &mut self.rng, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    fn seal(&mut self, now: Duration, content: &[u8]) -> Result<Vec<u8>, SealError> {
        let (mut space, content) = with_room(content);
        let sealed = self.link.seal(now, &mut space, content)?;
        Ok(space[sealed].to_vec())
    }

    fn open(&mut self, now: Duration, frame: &[u8]) -> Result<(Vec<u8>, Event), Refused> {
        let mut frame = frame.to_vec();
        let opened = self.link.open(&self.local, now, &mut frame)?;
        Ok((frame[opened.content].to_vec(), opened.event))
    }
}

/// Lets the first end start. Returns the INIT, the REPLY and the first data of each end.
fn establish(ends: &mut [End; 2], now: Duration) -> [Vec<u8>; 4] {
    let [first, second] = ends;
    let init = first.initiate(now);
    let reply = second.answer(now, &init).unwrap();
    assert!(
        !second.link.is_established(now) || second.index == 0 || now > NOW,
        "not before the initiator's data"
    );
    assert_eq!(first.open(now, &reply).unwrap().1, Event::Key);
    let data = first.seal(now, b"").unwrap();
    assert_eq!(
        second.open(now, &data).unwrap(),
        (vec![], Event::Established)
    );
    let more = second.seal(now, b"more").unwrap();
    assert_eq!(
        first.open(now, &more).unwrap(),
        (b"more".to_vec(), Event::Data)
    );
    [init, reply, data, more]
}

#[test]
fn a_bit_flip_anywhere_is_refused() {
    let mut ends = pair(1);
    let [init, reply, data, _] = establish(&mut ends, NOW);
    // Nobody examines the second MAC until a cookie is required.
    let covered = |frame: &[u8]| 8 * (frame.len() - 16);
    let mut receiver = pair(1);
    for bit in 0..covered(&init) {
        let refused = receiver[1].answer(NOW, &flipped(&init, bit));
        assert!(refused.is_err(), "INIT, bit {bit}");
    }
    assert_eq!(receiver[0].initiate(NOW), init);
    for bit in 0..covered(&reply) {
        assert!(
            receiver[0].open(NOW, &flipped(&reply, bit)).is_err(),
            "REPLY, bit {bit}"
        );
    }
    assert_eq!(receiver[1].answer(NOW, &init).unwrap(), reply);
    for bit in 0..8 * data.len() {
        assert!(
            receiver[1].open(NOW, &flipped(&data, bit)).is_err(),
            "data, bit {bit}"
        );
    }
    assert!(receiver[0].open(NOW, &reply).is_ok() && receiver[1].open(NOW, &data).is_ok());
}

fn flipped(frame: &[u8], bit: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[bit / 8] ^= 1 << (bit % 8);
    frame
}

#[test]
fn each_refusal_names_its_cause() {
    let mut ends = pair(2);
    let [init, reply, data, _] = establish(&mut ends, NOW);
    assert_eq!(ends[1].answer(NOW, &init), Err(Refused::OldTimestamp));
    assert_eq!(ends[0].open(NOW, &reply), Err(Refused::StrayKey));
    assert_eq!(ends[1].open(NOW, &data), Err(Refused::Replayed(0)));
    assert_eq!(
        ends[0].answer(NOW, &init),
        Err(Refused::Forged),
        "made for another"
    );
    assert_eq!(ends[1].answer(NOW, &reply), Err(Refused::StrayKey));
    assert_eq!(ends[1].open(NOW, &init), Err(Refused::StrayKey));
    assert_eq!(
        ends[0].open(NOW, &data),
        Err(Refused::NoSession(0x00ff_fffe))
    );
    assert_eq!(addressee(&init[..23]), Err(Refused::Runt(23)));
    assert_eq!(addressee(&init[..155]), Err(Refused::Length(155)));
    assert_eq!(
        addressee(&[&reply[..], &[0]].concat()),
        Err(Refused::Length(97))
    );
    let mut unknown = init.clone();
    unknown[4] = 4;
    assert_eq!(addressee(&unknown), Err(Refused::MessageType(4)));
    assert_eq!(addressee(&data), Ok(Addressee::Link(0x00ff_fffe)));
    let mut stranger = Link::new(*ends[1].local.public(), None, 7, VERSION);
    let mut out = [0; MESSAGE_ROOM];
    let stamp = Timestamp::from_unix(Duration::from_secs(9));
    let length = stranger
        .initiate(&ends[0].local, NOW, &mut Sequence(1), stamp, &mut out)
        .unwrap();
    assert_eq!(
        ends[1].answer(NOW, &out[..length]),
        Err(Refused::AuthRequired)
    );
    let [mut other, _] = pair(3);
    other.link = Link::new(*ends[1].local.public(), credential(), 8, VERSION);
    let init = other.initiate(NOW);
    let key = *other.local.public();
    assert_eq!(ends[1].answer(NOW, &init), Err(Refused::WrongKey(key)));
    other.link = Link::new(key, credential(), 8, VERSION);
    let init = other.initiate(NOW);
    assert_eq!(other.answer(NOW, &init), Err(Refused::OwnKey));
}

#[test]
fn a_wrong_password_is_found_out_with_the_reply() {
    let [mut first, mut second] = pair(4);
    first.link = Link::new(*second.local.public(), credential(), 5, VERSION);
    let init = first.initiate(NOW);
    second.local.users = Default::default();
    second
        .local
        .users
        .add(Some(b"ali baba"), b"open wheat", None)
        .unwrap();
    assert_eq!(
        second.answer(NOW, &init),
        Err(Refused::UnknownUser(3)),
        "the name is made of both"
    );
}

#[test]
fn a_user_bound_to_an_address_has_no_other() {
    let [mut first, mut second] = pair(5);
    let init = first.initiate(NOW);
    let (own, other) = (
        first.local.public().address(),
        second.local.public().address(),
    );
    second.local.users = Default::default();
    let bound = second
        .local
        .users
        .add(Some(b"ali baba"), b"open sesame", Some(other))
        .unwrap();
    assert_eq!(second.answer(NOW, &init), Err(Refused::WrongAddress(own)));
    second.local.users.remove(bound);
    let bound: UserId = second
        .local
        .users
        .add(Some(b"ali baba"), b"open sesame", Some(own))
        .unwrap();
    assert_eq!(
        Request::open(&second.local, true, &init).unwrap().user(),
        Some(bound)
    );
}

#[test]
fn crossed_inits_leave_both_with_keys() {
    let [mut first, mut second] = pair(9);
    let inits = [first.initiate(NOW), second.initiate(NOW)];
    let replies = [
        first.answer(NOW, &inits[1]).unwrap(),
        second.answer(NOW, &inits[0]).unwrap(),
    ];
    assert_eq!(first.open(NOW, &replies[1]).unwrap().1, Event::Key);
    assert_eq!(second.open(NOW, &replies[0]).unwrap().1, Event::Key);
    let data = first.seal(NOW, b"data").unwrap();
    assert_eq!(second.open(NOW, &data).unwrap().0, b"data");
    let data = second.seal(NOW, b"more").unwrap();
    assert_eq!(first.open(NOW, &data).unwrap().0, b"more");
}

#[test]
fn keys_are_renewed_while_data_passes() {
    let mut ends = pair(6);
    establish(&mut ends, NOW);
    let empty = ends[0].seal(NOW, b"").unwrap();
    ends[1].open(NOW, &empty).unwrap();
    let almost = NOW + Duration::from_secs(119);
    for end in &mut ends {
        assert_eq!(end.link.due(almost), None);
    }
    let old = NOW + Duration::from_secs(120);
    assert_eq!(
        ends[0].link.due(old),
        Some(Due::Handshake),
        "the initiator renews"
    );
    assert_eq!(ends[1].link.due(old), None);
    let late = ends[0].seal(old, b"on its way").unwrap();
    let init = ends[0].initiate(old);
    assert_eq!(ends[0].link.due(old), None, "one attempt in 5 s");
    let request = Request::open(&ends[1].local, true, &init).unwrap();
    assert_eq!(request.previous(), Some(0x00ff_fffe));
    let mut out = [0; MESSAGE_ROOM];
    let End { link, rng, .. } = &mut ends[1];
    let length = link.answer(request, old, rng, &mut out).unwrap();
    let before = ends[1].seal(old, b"under the old keys").unwrap();
    assert_eq!(ends[0].open(old, &out[..length]).unwrap().1, Event::Key);
    assert_eq!(ends[0].open(old, &before).unwrap().0, b"under the old keys");
    let first = ends[0].seal(old, b"new").unwrap();
    assert_eq!(
        ends[1].open(old, &first).unwrap(),
        (b"new".to_vec(), Event::Established)
    );
    assert_eq!(ends[1].open(old, &late).unwrap().0, b"on its way");
    let end = old + Duration::from_secs(180);
    assert_eq!(ends[1].seal(end, b"too old"), Err(SealError::NoKeys));
    assert_eq!(
        ends[1].open(end, &first),
        Err(Refused::NoSession(u32::from_le_bytes(
            first[..4].try_into().unwrap()
        )))
    );
}

#[test]
fn a_peer_that_only_listens_gives_signs_of_life_and_one_that_does_not_is_asked() {
    let mut ends = pair(7);
    establish(&mut ends, NOW);
    let data = ends[0].seal(NOW, b"data").unwrap();
    ends[1].open(NOW, &data).unwrap();
    let ten = NOW + Duration::from_secs(10);
    assert_eq!(ends[1].link.due(ten), Some(Due::Keepalive));
    let empty = ends[1].seal(ten, b"").unwrap();
    assert_eq!((empty.len(), ends[1].link.due(ten)), (24, None));
    let fifteen = NOW + Duration::from_secs(15);
    assert_eq!(
        ends[0].link.due(fifteen),
        Some(Due::Handshake),
        "nothing came back"
    );
    ends[0].open(fifteen, &empty).unwrap();
    assert_eq!(ends[0].link.due(fifteen), None);
}

#[test]
fn a_busy_node_asks_for_a_cookie() {
    let [mut first, second] = pair(8);
    let (mut cookies, mut rng) = (Cookies::default(), Sequence(8));
    let (here, elsewhere) = (b"192.0.2.1 5000", b"192.0.2.2 5000");
    let init = first.initiate(NOW);
    let check = |cookies: &Cookies, now, source, init: &[u8]| {
        cookies.check(&second.local, now, source, init)
    };
    assert_eq!(
        check(&cookies, NOW, here, &init),
        Err(Refused::CookieRequired)
    );
    let mut out = [0; MESSAGE_ROOM];
    let length = cookies
        .give(&second.local, NOW, &mut rng, here, &init, &mut out)
        .unwrap();
    assert_eq!(length, 68);
    assert_eq!(addressee(&out[..length]), Ok(Addressee::Link(5)));
    for bit in 32..8 * length {
        assert!(
            first.open(NOW, &flipped(&out[..length], bit)).is_err(),
            "bit {bit}"
        );
    }
    assert_eq!(first.open(NOW, &out[..length]).unwrap().1, Event::Hello);
    assert_eq!(first.link.due(NOW), Some(Due::Handshake), "begin again");
    let init = first.initiate(NOW);
    assert_eq!(check(&cookies, NOW, here, &init), Ok(()));
    assert_eq!(
        check(&cookies, NOW, elsewhere, &init),
        Err(Refused::CookieRequired)
    );
    assert_eq!(
        check(&cookies, NOW, here, &flipped(&init, 100)),
        Err(Refused::Forged)
    );
    let later = NOW + Duration::from_secs(120);
    assert_eq!(
        check(&cookies, later, here, &init),
        Err(Refused::CookieRequired)
    );
}

#[test]
fn only_peers_that_know_the_handshake_are_asked() {
    for (enabled, version, expected) in [
        (true, Some(22), true),
        (true, Some(21), false),
        (true, None, false),
        (false, Some(22), false),
    ] {
        assert_eq!(may_initiate(enabled, version), expected);
    }
}

/// An event of the test. Sides and indices are taken modulo their number.
#[derive(Clone, Debug)]
enum Act {
    Initiate { side: usize },
    Say { side: usize },
    Deliver { index: usize },
    Lose { index: usize },
    Repeat { index: usize, reflect: bool },
    Damage { index: usize, bit: usize },
    Wait { seconds: u64 },
    Restart { side: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let index = 0..64_usize;
    prop_oneof![
        3 => (0..2_usize).prop_map(|side| Act::Initiate { side }),
        5 => (0..2_usize).prop_map(|side| Act::Say { side }),
        8 => prop_oneof![3 => Just(0), 1 => index.clone()].prop_map(|index| Act::Deliver { index }),
        2 => index.clone().prop_map(|index| Act::Lose { index }),
        2 => (index.clone(), any::<bool>()).prop_map(|(index, reflect)| Act::Repeat { index, reflect }),
        1 => (index, any::<usize>()).prop_map(|(index, bit)| Act::Damage { index, bit }),
        1 => prop_oneof![Just(1), Just(16), Just(130), Just(190)].prop_map(|seconds| Act::Wait { seconds }),
        1 => (0..2_usize).prop_map(|side| Act::Restart { side }),
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
    data: [HashSet<Vec<u8>>; 2],
}

impl World {
    fn send(&mut self, from: usize, octets: Vec<u8>) {
        let frame = Frame {
            to: 1 - from,
            octets,
        };
        self.past.push(frame.clone());
        self.on_the_way.push(frame);
    }

    fn say(&mut self, side: usize) -> Vec<u8> {
        self.said += 1;
        let content = [&[side as u8], &self.said.to_be_bytes()[..]].concat();
        if let Ok(frame) = self.ends[side].seal(self.now, &content) {
            self.send(side, frame);
        }
        content
    }

    fn deliver(&mut self, Frame { to, octets }: Frame) {
        match addressee(&octets) {
            Ok(Addressee::Node) => {
                if let Ok(reply) = self.ends[to].answer(self.now, &octets) {
                    self.send(to, reply);
                }
            }
            Ok(Addressee::Link(_)) => match self.ends[to].open(self.now, &octets) {
                Ok((_, Event::Key)) => {
                    let empty = self.ends[to].seal(self.now, b"").expect("new keys");
                    self.send(to, empty);
                }
                Ok((content, _)) if !content.is_empty() => {
                    assert_eq!(usize::from(content[0]), 1 - to, "data of the peer");
                    assert!(self.data[to].insert(content), "data came twice");
                }
                _ => {}
            },
            Err(_) => {}
        }
    }

    fn take(&mut self, index: usize) -> Option<Frame> {
        let count = self.on_the_way.len();
        (count > 0).then(|| self.on_the_way.remove(index % count))
    }

    fn act(&mut self, act: Act) {
        let past =
            |world: &Self, index: usize| world.past.get(index % world.past.len().max(1)).cloned();
        match act {
            Act::Initiate { side } => {
                let init = self.ends[side].initiate(self.now);
                self.send(side, init);
            }
            Act::Say { side } => drop(self.say(side)),
            Act::Deliver { index } => {
                let frame = self.take(index);
                frame.into_iter().for_each(|frame| self.deliver(frame));
            }
            Act::Lose { index } => drop(self.take(index)),
            Act::Repeat { index, reflect } => {
                let frame = past(self, index).map(|frame| Frame {
                    to: frame.to ^ usize::from(reflect),
                    ..frame
                });
                frame.into_iter().for_each(|frame| self.deliver(frame));
            }
            Act::Damage { index, bit } => {
                let damaged = past(self, index).map(|frame| {
                    let bit = bit % (8 * frame.octets.len());
                    Frame {
                        octets: flipped(&frame.octets, bit),
                        ..frame
                    }
                });
                damaged.into_iter().for_each(|frame| self.deliver(frame));
            }
            Act::Wait { seconds } => self.now += Duration::from_secs(seconds),
            Act::Restart { side } => {
                let peer = *self.ends[1 - side].local.public();
                self.ends[side].link =
                    Link::new(peer, credential(), self.ends[side].index, VERSION);
            }
        }
    }

    /// Lets both ends send once per second and do what is due, until data arrives both ways. Returns the seconds.
    fn seconds_until_both_hear(&mut self) -> u64 {
        self.on_the_way.clear();
        for second in 0..60 {
            self.now += Duration::from_secs(1);
            for side in 0..2 {
                if self.ends[side].link.due(self.now) == Some(Due::Handshake) {
                    let init = self.ends[side].initiate(self.now);
                    self.send(side, init);
                }
            }
            self.settle();
            let said = [0, 1].map(|side| self.say(side));
            self.settle();
            if (0..2).all(|side| self.data[1 - side].contains(&said[side])) {
                return second;
            }
        }
        panic!("no data for a minute");
    }

    fn settle(&mut self) {
        while let Some(frame) = self.take(0) {
            self.deliver(frame);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// When frames arrive again, so does data, each once. 15 s of silence reveal that a peer has lost its keys.
    #[test]
    fn two_ends_always_come_to_hear_each_other(seed in any::<u64>(), acts in vec(act(), 0..60)) {
        let ends = pair(seed);
        let mut world = World {
            ends,
            now: NOW,
            said: 0,
            on_the_way: Vec::new(),
            past: Vec::new(),
            data: Default::default(),
        };
        acts.into_iter().for_each(|act| world.act(act));
        let seconds = world.seconds_until_both_hear();
        prop_assert!(seconds <= 22, "{seconds} s");
    }

    /// Octets that are not a frame change nothing.
    #[test]
    fn random_octets_are_refused(octets in vec(any::<u8>(), 0..300), kind in 0..5_u32, control in any::<bool>()) {
        let mut octets = octets;
        if let (true, Some(begin)) = (control, octets.first_chunk_mut::<8>()) {
            *begin = [0xff; 8];
            begin[4..].copy_from_slice(&kind.to_le_bytes());
        }
        let [mut end, _] = pair(1);
        prop_assert!(end.open(NOW, &octets).is_err());
        prop_assert!(end.answer(NOW, &octets).is_err());
        prop_assert!(Cookies::default().check(&end.local, NOW, b"", &octets).is_err());
    }
}

//! Replays the recorded Noise link octet by octet.

#[path = "support/replay.rs"]
mod replay;
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use cryptoauth::noise::{addressee, Addressee, Due, Link, Request, Timestamp, MESSAGE_ROOM};
use cryptoauth::{Event, Local};
use replay::{link_plaintexts, recorded, with_each_cipher, with_room, Recorded, Script, Side};
use support::hex;

const RECORDING: &str = "handshake_noise";
const NOW: Duration = Duration::from_secs(1);
const VERSION: u32 = 22;
/// The index of each node's only link.
const INDEX: u32 = 1;

struct Node {
    local: Local,
    link: Link,
    ephemerals: std::vec::IntoIter<[u8; 32]>,
}

fn node(side: Side) -> (Side, Node) {
    let secrets = side.secrets(RECORDING);
    let ephemerals = secrets
        .iter()
        .filter_map(|line| line.get("NOISE_EPHEMERAL_PRIVATE"));
    let ephemerals: Vec<[u8; 32]> = ephemerals.map(|key| hex(key)).collect();
    let peer = *side.other().local(RECORDING).public();
    let link = Link::new(peer, side.credential(), INDEX, VERSION);
    (
        side,
        Node {
            local: side.local(RECORDING),
            link,
            ephemerals: ephemerals.into_iter(),
        },
    )
}

/// Returns the timestamps of the recorded INITs, as decrypted by another program.
fn timestamps() -> Vec<Timestamp> {
    let text = support::vectors("handshake_noise.decoded.txt");
    let stamps = text
        .split("tai64n=")
        .skip(1)
        .map(|part| part.split(' ').next().unwrap());
    stamps.map(|stamp| Timestamp(hex(stamp))).collect()
}

impl Node {
    fn script(&mut self) -> Script {
        Script::new(&[&self.ephemerals.next().expect("a recorded key")])
    }

    /// Sends an INIT, which must equal the recorded one.
    fn initiates(&mut self, timestamp: Timestamp, frame: &[u8]) {
        let (mut out, mut script) = ([0; MESSAGE_ROOM], self.script());
        let length = self
            .link
            .initiate(&self.local, NOW, &mut script, timestamp, &mut out);
        assert_eq!(&out[..length.unwrap()], frame);
    }

    /// Answers the INIT `request` with the recorded REPLY.
    fn answers(&mut self, request: &[u8], frame: &[u8]) {
        let request = Request::open(&self.local, true, request).unwrap();
        assert_eq!(
            (request.version(), request.previous()),
            (Some(VERSION), None)
        );
        assert!(request.user().is_some());
        let (mut out, mut script) = ([0; MESSAGE_ROOM], self.script());
        let length = self.link.answer(request, NOW, &mut script, &mut out);
        assert_eq!(&out[..length.unwrap()], frame);
    }

    fn hears(&mut self, frame: &[u8]) -> (Vec<u8>, Event) {
        assert_eq!(addressee(frame), Ok(Addressee::Link(INDEX)));
        let mut frame = frame.to_vec();
        let opened = self.link.open(&self.local, NOW, &mut frame).unwrap();
        (frame[opened.content].to_vec(), opened.event)
    }

    fn says(&mut self, content: &[u8], frame: &[u8]) {
        let (mut space, content) = with_room(content);
        let sealed = self.link.seal(NOW, &mut space, content).unwrap();
        assert_eq!(&space[sealed], frame);
    }
}

#[test]
fn a_link_with_login_and_password() {
    with_each_cipher(link_with_login_and_password);
}

fn link_with_login_and_password() {
    let mut nodes: BTreeMap<Side, Node> = [node(Side::A), node(Side::B)].into();
    let mut timestamps = timestamps().into_iter();
    let mut request = Vec::new();
    let mut events = Vec::new();
    let mut plaintexts = Vec::new();
    for Recorded { from, frame } in recorded(RECORDING) {
        match (frame[..4] == [0xff; 4]).then_some(frame[4]) {
            Some(1) => {
                nodes
                    .get_mut(&from)
                    .unwrap()
                    .initiates(timestamps.next().unwrap(), &frame);
                request = frame;
                continue;
            }
            Some(2) => nodes.get_mut(&from).unwrap().answers(&request, &frame),
            _ => {}
        }
        let receiver = nodes.get_mut(&from.other()).unwrap();
        let (content, event) = receiver.hears(&frame);
        events.push(event);
        if event != Event::Key {
            nodes.get_mut(&from).unwrap().says(&content, &frame);
            plaintexts.extend((!content.is_empty()).then_some(content));
        }
    }
    assert_eq!(plaintexts, link_plaintexts(RECORDING));
    assert_eq!(events[..2], [Event::Key, Event::Established]);
    assert!(events[2..].iter().all(|event| *event == Event::Data));
    for node in nodes.values() {
        assert!(node.link.is_established(NOW));
        assert_eq!(node.link.due(NOW), None);
        assert_eq!(
            node.link.due(NOW + Duration::from_secs(180)),
            Some(Due::Handshake)
        );
        assert_eq!(
            (node.link.received().lost, node.link.received().duplicate),
            (0, 0)
        );
    }
}

//! Replays recorded CryptoAuth sessions octet by octet. With the same keys and randomness, this crate must seal the
//! same frames and open them to the same content.

#[path = "support/replay.rs"]
mod replay;
mod support;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use cryptoauth::{Event, Local, Session, Stage};
use replay::{link_plaintexts, recorded, with_each_cipher, with_room, Recorded, Script, Side};

const NOW: Duration = Duration::from_secs(1);
const SWITCH_HEADER: usize = 12;
/// Lower handles are handshakes of inner sessions. The highest handle is a control frame.
const FIRST_HANDLE: u32 = 4;
const CONTROL: u32 = u32::MAX;

struct Node {
    local: Local,
    session: Option<Session>,
    temporary_keys: VecDeque<[u8; 32]>,
}

impl Node {
    /// Seals `content` with the randomness of the recorded `frame`, which must be the result.
    fn says(&mut self, content: &[u8], frame: &[u8]) {
        let session = self.session.as_mut().expect("a session");
        let fresh = matches!(session.stage(), Stage::Init | Stage::ReceivedHello);
        let key = if fresh {
            self.temporary_keys.pop_front().expect("a key")
        } else {
            [0; 32]
        };
        let key = if fresh { &key[..] } else { &[] };
        let handshake = frame[..4] < [0, 0, 0, 4][..];
        let mut script = Script::new(&match (handshake, frame[4]) {
            (false, _) => vec![],
            (true, 0) => vec![key, &frame[5..14], &frame[16..40]],
            (true, _) => vec![key, &frame[16..40]],
        });
        let (mut space, content) = with_room(content);
        let sealed = session
            .seal(&self.local, NOW, &mut script, &mut space, content)
            .unwrap();
        assert_eq!(&space[sealed], frame);
        assert!(script.0.is_empty(), "all randomness was used");
    }

    fn hears(&mut self, frame: &[u8], require_auth: bool) -> (Vec<u8>, Event) {
        let mut frame = frame.to_vec();
        let opened = match &mut self.session {
            Some(session) => session.open(&self.local, NOW, &mut frame).unwrap(),
            None => {
                let (session, opened) =
                    Session::answer(&self.local, require_auth, NOW, &mut frame).unwrap();
                self.session = Some(session);
                opened
            }
        };
        (frame[opened.content].to_vec(), opened.event)
    }
}

fn nodes(recording: &str, of_inner: bool) -> BTreeMap<Side, Node> {
    let node = |side: Side| {
        let mut temporary_keys = side.temporary_keys(recording);
        if of_inner && recording == "handshake_cryptoauth" {
            temporary_keys.pop_front(); // the link's
        }
        (
            side,
            Node {
                local: side.local(recording),
                session: None,
                temporary_keys,
            },
        )
    };
    [Side::A, Side::B].map(node).into()
}

/// Replays the link. Returns the content that it transported.
fn link() -> Vec<Recorded> {
    let mut nodes = nodes("handshake_cryptoauth", false);
    let b = *nodes[&Side::B].local.public();
    let a = nodes.get_mut(&Side::A).unwrap();
    a.session = Some(Session::new(&a.local, b, Side::A.credential(), false, NOW).unwrap());
    let mut events = Vec::new();
    let mut carried = Vec::new();
    for Recorded { from, frame } in recorded("handshake_cryptoauth") {
        // The content comes from the receiver, so it is no tautology that the sender makes the same frame from it.
        let (content, event) = nodes.get_mut(&from.other()).unwrap().hears(&frame, true);
        nodes.get_mut(&from).unwrap().says(&content, &frame);
        events.push(event);
        carried.push(Recorded {
            from,
            frame: content,
        });
    }
    assert_eq!(&events[..3], [Event::Hello, Event::Key, Event::Established]);
    assert_eq!(events[4], Event::Established, "of a, with b's first data");
    let others = events
        .iter()
        .enumerate()
        .filter(|(index, _)| ![0, 1, 2, 4].contains(index));
    assert!(others.into_iter().all(|(_, event)| *event == Event::Data));
    // The initiator skips three nonces when it learns that the session is established.
    for (side, lost) in [(Side::A, 0), (Side::B, 3)] {
        let session = nodes[&side].session.as_ref().unwrap();
        assert_eq!(session.stage(), Stage::Established);
        assert_eq!(
            (session.received().lost, session.received().duplicate),
            (lost, 0)
        );
    }
    carried
}

#[test]
fn a_link_with_login_and_password() {
    with_each_cipher(|| {
        let carried: Vec<Vec<u8>> = link().into_iter().map(|content| content.frame).collect();
        assert_eq!(carried, link_plaintexts("handshake_cryptoauth"));
    });
}

/// Replays the inner sessions of a recording. The HELLOs of a and b cross, and b, whose key is lower, stays initiator.
fn inner(recording: &str, carried: Vec<Recorded>) {
    let mut nodes = nodes(recording, true);
    let mut on_the_way: Vec<Recorded> = Vec::new();
    let mut events = Vec::new();
    for Recorded { from, frame } in carried {
        let handle = u32::from_be_bytes(frame[SWITCH_HEADER..][..4].try_into().unwrap());
        let frame = match handle {
            CONTROL => continue,
            FIRST_HANDLE.. => frame[SWITCH_HEADER + 4..].to_vec(),
            _ => frame[SWITCH_HEADER..].to_vec(),
        };
        let is_hello = frame[..4] < [0, 0, 0, 2][..];
        if !is_hello {
            on_the_way
                .drain(..)
                .for_each(|hello| deliver(&mut nodes, hello, &mut events));
        }
        let node = nodes.get_mut(&from).unwrap();
        let content = content_of(recording, &frame);
        if node.session.is_none() {
            let peer = *from.other().local(recording).public();
            node.session = Some(Session::new(&node.local, peer, None, false, NOW).unwrap());
        }
        node.says(&content, &frame);
        let said = Recorded { from, frame };
        if is_hello {
            on_the_way.push(said);
        } else {
            deliver(&mut nodes, said, &mut events);
        }
    }
    assert!(events.contains(&(Side::B, Event::Key)), "b stays initiator");
    assert!(events.contains(&(Side::A, Event::Hello)));
    for side in [Side::A, Side::B] {
        assert!(events.contains(&(side, Event::Established)), "{side:?}");
        assert!(nodes[&side].session.as_ref().unwrap().is_established());
    }
}

fn deliver(nodes: &mut BTreeMap<Side, Node>, said: Recorded, events: &mut Vec<(Side, Event)>) {
    let to = said.from.other();
    let (content, event) = nodes.get_mut(&to).unwrap().hears(&said.frame, false);
    assert!(!content.is_empty());
    events.push((to, event));
}

/// Returns the content of an inner frame, opened with only the recorded secrets.
fn content_of(recording: &str, frame: &[u8]) -> Vec<u8> {
    let secrets = [Side::A, Side::B]
        .map(|side| side.secrets(recording))
        .concat();
    let known = secrets.iter().filter_map(|line| line.get("secret"));
    let opened = known
        .map(|secret| support::hex(secret))
        .find_map(|key| open_with(key, frame));
    opened.expect("one of the recorded secrets opens it")
}

fn open_with(key: [u8; 32], frame: &[u8]) -> Option<Vec<u8>> {
    use crypto_secretbox::aead::{Aead, KeyInit};
    let cipher = crypto_secretbox::XSalsa20Poly1305::new(&key.into());
    if frame[..4] < [0, 0, 0, 4][..] {
        let nonce: [u8; 24] = frame[16..40].try_into().unwrap();
        return Some(cipher.decrypt(&nonce.into(), &frame[72..]).ok()?[32..].to_vec());
    }
    let counter: Vec<u8> = frame[..4].iter().rev().copied().collect();
    [0, 4].into_iter().find_map(|start| {
        let mut nonce = [0; 24];
        nonce[start..start + 4].copy_from_slice(&counter);
        cipher.decrypt(&nonce.into(), &frame[4..]).ok()
    })
}

#[test]
fn inner_sessions_whose_hellos_cross() {
    with_each_cipher(|| inner("handshake_cryptoauth", link()));
}

#[test]
fn inner_sessions_beyond_a_noise_link() {
    with_each_cipher(beyond_a_noise_link);
}

fn beyond_a_noise_link() {
    let plaintexts = link_plaintexts("handshake_noise");
    let data = recorded("handshake_noise")
        .into_iter()
        .filter(|recorded| recorded.frame[..4] != [0xff; 4] && recorded.frame.len() > 24);
    let carried = data.zip(plaintexts).map(|(recorded, frame)| Recorded {
        from: recorded.from,
        frame,
    });
    inner("handshake_noise", carried.collect());
}

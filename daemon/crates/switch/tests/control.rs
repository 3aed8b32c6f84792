//! Control frames: recorded frames octet by octet, the place of each field, and refusals.

use std::fs;

use proptest::prelude::*;
use switch::{
    Answerer, Control, ControlError, ErrorCode, Handle, Header, Label, LinkAddress, Snode,
};

const FRAMES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../tests/vectors/cjdns/frames.hex"
);
const KEY: [u8; 32] = [7; 32];

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The recorded frames: each header and the octets after it.
fn recorded() -> Vec<Vec<u8>> {
    let lines = fs::read_to_string(FRAMES).unwrap();
    lines
        .lines()
        .map(|line| hex(line.split(' ').next_back().unwrap()))
        .collect()
}

fn encoded(control: &Control) -> Vec<u8> {
    let mut out = [0; 600];
    let length = control.encode(&mut out).unwrap();
    out[..length].to_vec()
}

/// A body with a type and the right checksum.
fn with_checksum(typ: u16, body: &[u8]) -> Vec<u8> {
    let mut octets = [&[0, 0][..], &typ.to_be_bytes(), body].concat();
    let pairs = octets
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = pairs.fold(0, |sum, pair| (sum + pair) % 0xffff);
    octets[..2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    octets
}

#[test]
fn recorded_control_frames_are_read_and_written_the_same() {
    let mut kinds = [0; 12];
    for frame in recorded() {
        let (header, content) = Header::decode(&frame).unwrap();
        assert_eq!(header.encode(), frame[..Header::LEN]);
        assert_eq!(
            (header.label, header.shift),
            (Label(0x8000_0000_0000_0001), 4)
        );
        let (Handle::Control, body) = Handle::decode(content).unwrap() else {
            continue;
        };
        let control = Control::decode(body).unwrap();
        assert_eq!(encoded(&control), body);
        kinds[usize::from(body[3])] += 1;
    }
    assert_eq!(kinds, [0, 0, 0, 8, 7, 0, 0, 6, 6, 3, 3, 0]);
}

#[test]
fn what_a_router_answered_to_each_query_is_read_and_written_the_same() {
    let answers: Vec<_> = include_str!("../../../../tests/vectors/cjdns/answers.hex")
        .lines()
        .map(|line| hex(line.split(' ').next_back().unwrap()))
        .collect();
    let controls: Vec<_> = answers
        .iter()
        .map(|octets| Control::decode(octets).unwrap())
        .collect();
    for (control, octets) in controls.iter().zip(&answers) {
        assert_eq!(encoded(control), *octets);
    }
    let version = 22;
    assert!(matches!(
        controls[0],
        Control::KeyPong { version: 22, opaque: b"keyping1", key } if key[..4] == [0xf2, 0x89, 0xed, 0xec]
    ));
    let (path, opaque) = (Label(0x13), &b"rpath123"[..]);
    let rpath = Control::RpathReply {
        version,
        path,
        opaque,
    };
    let address = LinkAddress::Udp4("10.78.1.2:5000".parse().unwrap());
    let opaque = &b"lladdr12"[..];
    let link = Control::LinkReply {
        version,
        address,
        opaque,
    };
    assert_eq!(controls[1..], [rpath, link]);
}

#[test]
fn recorded_queries_are_answered_as_the_recorded_routers_did() {
    let answerer = Answerer {
        key: KEY,
        neighbour: None,
    };
    let bodies: Vec<_> = recorded()
        .iter()
        .filter_map(|frame| match Handle::decode(&frame[Header::LEN..]) {
            Ok((Handle::Control, body)) => Some(body.to_vec()),
            _ => None,
        })
        .collect();
    let mut answered = 0;
    for body in &bodies {
        let Some(answer) = answerer.answer(&Control::decode(body).unwrap(), Label(0x13)) else {
            continue;
        };
        let found = bodies.contains(&encoded(&answer));
        let lost = matches!(answer, Control::Pong { opaque, .. } if opaque.starts_with(&hex("fd4bad83fa4afbb0")));
        assert!(
            found || lost,
            "no recorded router gave this answer: {answer:?}"
        );
        answered += usize::from(found);
    }
    assert_eq!(
        answered, 16,
        "all but the PING whose answer was lost in the handshake"
    );
}

#[test]
fn a_recorded_ping() {
    let body = hex("024f000309f9110200000016fd4bad83fa4afbb08e8bff6949464143455f434e54524c52");
    let Ok(Control::Ping {
        version: 22,
        opaque,
    }) = Control::decode(&body)
    else {
        panic!("no PING");
    };
    assert!(opaque.ends_with(b"IFACE_CNTRLR"));
}

#[test]
fn each_field_in_its_place() {
    let cause = Header {
        shift: 5,
        ..Header::new(Label(0x99))
    };
    let code = ErrorCode::RETURN_PATH_INVALID;
    let error = encoded(&Control::Error {
        code,
        cause,
        handle: 0x1234,
        rest: &[1, 2],
    });
    assert_eq!(
        error[2..],
        hex("00020000000a0000000000000099004 5ffff000012340102"
            .replace(' ', "")
            .as_str())
    );
    let key = encoded(&Control::KeyPing {
        version: 21,
        key: KEY,
        opaque: &[9],
    });
    assert_eq!(
        key[2..12],
        hex("0005012345670000 0015".replace(' ', "").as_str())
    );
    assert_eq!((&key[12..44], &key[44..]), (&KEY[..], &[9][..]));
    let snode = Snode {
        version: 22,
        snode_version: 20,
        kbps: 99,
        key: KEY,
        path: Label(0x13),
        opaque: &[],
    };
    let snode = encoded(&Control::SnodeReply(snode));
    assert_eq!(snode[2..20], hex("0008736e6f72000000160000001400000063"));
    assert_eq!(
        (&snode[20..52], &snode[52..]),
        (&KEY[..], &hex("0000000000000013")[..])
    );
}

#[test]
fn link_addresses() {
    let four = LinkAddress::Udp4("10.99.1.2:5000".parse().unwrap());
    let six = LinkAddress::Udp6("[fd00::2]:5000".parse().unwrap());
    let written = [
        (four, "01081388 0a630102"),
        (six, "02141388 fd000000000000000000000000000002"),
        (LinkAddress::Other([3; 30]), "0320"),
    ];
    for (address, start) in written {
        let reply = Control::LinkReply {
            version: 22,
            address,
            opaque: &[8],
        };
        let octets = encoded(&reply);
        let start = hex(&start.replace(' ', ""));
        assert_eq!(
            (octets.len(), &octets[12..12 + start.len()]),
            (45, &start[..])
        );
        assert_eq!(Control::decode(&octets), Ok(reply));
    }
    let mut wrong = hex("6c6c617200000016");
    wrong.extend([1, 20]);
    wrong.extend([0; 30]);
    let cause = ControlError::LinkAddress { typ: 1, length: 20 };
    assert_eq!(Control::decode(&with_checksum(12, &wrong)), Err(cause));
}

#[test]
fn what_is_refused() {
    let ping = encoded(&Control::Ping {
        version: 22,
        opaque: &[1, 2, 3],
    });
    assert_eq!(Control::decode(&ping[..3]), Err(ControlError::Truncated));
    let mut forged = ping.clone();
    forged[8] ^= 1;
    assert!(matches!(
        Control::decode(&forged),
        Err(ControlError::Checksum(_))
    ));
    for typ in [0, 1, 13, 0xffff] {
        assert_eq!(
            Control::decode(&with_checksum(typ, &[])),
            Err(ControlError::Type(typ))
        );
    }
    for typ in 2..13 {
        assert_eq!(
            Control::decode(&with_checksum(typ, &[0; 3])),
            Err(ControlError::Truncated),
            "{typ}"
        );
    }
    for typ in 3..13 {
        assert_eq!(
            Control::decode(&with_checksum(typ, &[0xee; 80])),
            Err(ControlError::Magic(0xeeee_eeee)),
            "{typ}"
        );
    }
    let opaque = [0; 65];
    let key = Control::KeyPing {
        version: 22,
        key: KEY,
        opaque: &opaque,
    };
    assert_eq!(key.encode(&mut [0; 200]), Err(ControlError::Opaque(65)));
    let body = [&hex("0123456700000016")[..], &KEY, &opaque].concat();
    assert_eq!(
        Control::decode(&with_checksum(5, &body)),
        Err(ControlError::Opaque(65))
    );
}

#[test]
fn what_is_not_answered() {
    let answerer = Answerer {
        key: KEY,
        neighbour: None,
    };
    let old = Control::Ping {
        version: 19,
        opaque: &[],
    };
    let pong = Control::Pong {
        version: 22,
        opaque: &[],
    };
    let link = Control::LinkQuery {
        version: 22,
        opaque: &[],
    };
    for control in [old, pong, link] {
        assert_eq!(answerer.answer(&control, Label(0x13)), None);
    }
    let address = LinkAddress::Other([0; 30]);
    let neighbour = Answerer {
        neighbour: Some(address),
        ..answerer
    };
    assert_eq!(
        neighbour.answer(&link, Label(0x13)),
        Some(Control::LinkReply {
            version: 22,
            address,
            opaque: &[]
        })
    );
    let key = Control::KeyPing {
        version: 20,
        key: [0; 32],
        opaque: &[1],
    };
    assert_eq!(
        answerer.answer(&key, Label(0x13)),
        Some(Control::KeyPong {
            version: 22,
            key: KEY,
            opaque: &[1]
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_written_the_same(typ in 2..13_u16, magic in 0..8_usize, body in prop::collection::vec(any::<u8>(), 0..300)) {
        const MAGICS: [u32; 8] =
            [0x09f9_1102, 0x9d74_e35b, 0x0123_4567, 0x89ab_cdef, 0x736e_6f71, 0x736e_6f72, 0x6c6c_6171, 0x6c6c_6172];
        let octets = with_checksum(typ, &[&MAGICS[magic].to_be_bytes()[..], &body].concat());
        if let Ok(control) = Control::decode(&octets) {
            let written = encoded(&control);
            prop_assert_eq!(Control::decode(&written), Ok(control));
            prop_assert_eq!(written.len(), octets.len());
        }
    }

    #[test]
    fn any_octets_are_survived(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Control::decode(&octets);
        let _ = Control::decode(&with_checksum(octets.len() as u16 % 14, &octets));
    }
}

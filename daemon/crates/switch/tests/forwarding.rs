//! Forwarding: the worked example, each refusal, and that the receiver of a frame can answer it.

use proptest::prelude::*;
use switch::{
    compress, control_frame, decompress, error_frame, forward, label_for, peer_label,
    refused_frame, Control, ErrorCode, Form, Handle, Header, Interface, Interfaces, Label, Refusal,
    MAX_ERROR_FRAME,
};

fn interface(number: u16) -> Interface {
    Interface::new(number).unwrap()
}

/// A switch with all interfaces up to this number.
fn switch_of(last: u16) -> Interfaces {
    let mut interfaces = Interfaces::new();
    while interfaces.iter().count() <= usize::from(last) {
        interfaces.add().unwrap();
    }
    interfaces
}

fn frame(label: Label) -> [u8; 20] {
    let mut frame = [0xcc; 20];
    frame[..Header::LEN].copy_from_slice(&Header::new(label).encode());
    frame
}

fn header(frame: &[u8]) -> Header {
    Header::decode(frame).unwrap().0
}

#[test]
fn the_worked_example() {
    let switch = switch_of(2);
    let mut frame = frame(Label(0x153));
    assert_eq!(
        forward(&switch, Interface::ROUTER, &mut frame),
        Ok(interface(0))
    );
    assert_eq!(
        (header(&frame).label, header(&frame).shift),
        (Label(0x8000_0000_0000_0015), 4)
    );
    assert_eq!(forward(&switch, interface(0), &mut frame), Ok(interface(2)));
    assert_eq!(
        (header(&frame).label, header(&frame).shift),
        (Label(0xc800_0000_0000_0001), 8)
    );
    assert_eq!(
        forward(&switch, interface(0), &mut frame),
        Ok(Interface::ROUTER)
    );
    assert_eq!(
        header(&frame).label.reversed(),
        Label(0x133),
        "the way back, each by its interface 0"
    );
    assert_eq!(frame[Header::LEN..], [0xcc; 8], "the content is as it was");
}

#[test]
fn what_forwarding_keeps_and_what_it_sets() {
    let sent = Header {
        congestion: 77,
        suppress_errors: true,
        version: 0,
        shift: 7,
        traffic_class: 3,
        ..Header::new(Label(0x15))
    };
    let mut octets = sent.encode();
    forward(&switch_of(2), interface(0), &mut octets).unwrap();
    let label = Label(1 | 0xc << 60);
    let expected = Header {
        label,
        shift: 11,
        traffic_class: 0xffff,
        ..sent
    };
    assert_eq!(header(&octets), expected);
}

fn refused(interfaces: &Interfaces, source: u16, sent: &[u8]) -> Refusal {
    let mut frame = sent.to_vec();
    let refusal = forward(interfaces, interface(source), &mut frame).unwrap_err();
    assert_eq!(frame, sent, "a frame that is refused is not touched");
    refusal
}

#[test]
fn each_refusal() {
    let (small, large) = (switch_of(2), switch_of(40));
    let too_far = Header {
        shift: 60,
        ..Header::new(Label(0x15))
    };
    assert_eq!(refused(&small, 0, &frame(Label(0x15))[..11]), Refusal::Runt);
    assert_eq!(
        refused(&small, 0, &frame(Label(0x17))),
        Refusal::NoInterface
    );
    assert_eq!(
        refused(&large, 8, &frame(Label(0x15))),
        Refusal::SourceTooLong
    );
    assert_eq!(
        refused(&large, 8, &frame(Label(0x101))),
        Refusal::NoReturnPath
    );
    assert_eq!(refused(&small, 0, &too_far.encode()), Refusal::TooFar);
    let codes = [
        Refusal::Runt,
        Refusal::TooFar,
        Refusal::NoInterface,
        Refusal::SourceTooLong,
        Refusal::NoReturnPath,
    ]
    .map(Refusal::code);
    let malformed = Some(ErrorCode::MALFORMED_ADDRESS);
    assert_eq!(
        codes,
        [
            None,
            None,
            malformed,
            malformed,
            Some(ErrorCode::RETURN_PATH_INVALID)
        ]
    );
}

#[test]
fn a_long_source_reaches_the_router_if_nothing_is_swallowed() {
    let switch = switch_of(256);
    for (source, bits) in [(7, 4), (8, 7), (32, 7), (33, 10), (256, 10)] {
        let mut frame = frame(Label(1 << 20 | 1));
        assert_eq!(
            forward(&switch, interface(source), &mut frame),
            Ok(Interface::ROUTER)
        );
        let back = header(&frame).label.reversed();
        assert_eq!(
            (decompress(back), Form::of_label(back).bits()),
            (interface(source), bits)
        );
    }
    let swallows = |bit: u32| refused(&switch, 256, &frame(Label(1 << bit | 1)));
    assert_eq!([swallows(4), swallows(13)], [Refusal::NoReturnPath; 2]);
}

#[test]
fn an_error_frame_carries_its_cause_back() {
    let mut cause = [0x5a; 400];
    let label = Label(0x8000_0000_0000_0017);
    cause[..Header::LEN].copy_from_slice(&Header::new(label).encode());
    cause[Header::LEN..][..4].copy_from_slice(&7_u32.to_be_bytes());
    let mut out = [0; MAX_ERROR_FRAME];
    let length = error_frame(Refusal::NoInterface, &cause, &mut out).unwrap();
    assert_eq!(length, MAX_ERROR_FRAME);
    let (header, content) = Header::decode(&out[..length]).unwrap();
    assert_eq!(header.label, label.reversed());
    assert_eq!(
        (header.suppress_errors, header.shift, header.version),
        (true, 0, 1)
    );
    let (handle, body) = Handle::decode(content).unwrap();
    assert_eq!(handle, Handle::Control);
    let expected = Control::Error {
        code: ErrorCode::MALFORMED_ADDRESS,
        cause: Header::new(label),
        handle: 7,
        rest: &cause[16..256],
    };
    assert_eq!(Control::decode(body), Ok(expected));
}

#[test]
fn a_receiver_can_refuse_for_any_cause() {
    let mut out = [0; MAX_ERROR_FRAME];
    let sent = frame(Label(0x8000_0000_0000_0001));
    let length = refused_frame(ErrorCode::AUTHENTICATION, &sent, &mut out).unwrap();
    let (_, body) = Handle::decode(Header::decode(&out[..length]).unwrap().1).unwrap();
    let Ok(Control::Error { code, .. }) = Control::decode(body) else {
        panic!("no error: {body:02x?}");
    };
    assert_eq!(code, ErrorCode::AUTHENTICATION);
}

#[test]
fn a_certain_interface_is_taken_once() {
    let mut interfaces = Interfaces::new();
    let wanted = interface(200);
    assert!(interfaces.insert(wanted) && interfaces.contains(wanted));
    assert!(!interfaces.insert(wanted) && !interfaces.insert(Interface::ROUTER));
    interfaces.remove(wanted);
    assert!(interfaces.insert(wanted));
}

#[test]
fn no_error_about_errors_and_short_frames() {
    let mut out = [0; MAX_ERROR_FRAME];
    let silent = Header {
        suppress_errors: true,
        ..Header::new(Label(0x17))
    }
    .encode();
    let mut mute = frame(Label(0x17));
    mute[..Header::LEN].copy_from_slice(&silent);
    let talking = frame(Label(0x17));
    assert_eq!(error_frame(Refusal::NoInterface, &mute, &mut out), None);
    assert_eq!(
        error_frame(Refusal::NoInterface, &talking[..15], &mut out),
        None
    );
    assert_eq!(error_frame(Refusal::TooFar, &talking, &mut out), None);
    let short = error_frame(Refusal::NoInterface, &talking[..16], &mut out).unwrap();
    let (_, body) = Handle::decode(Header::decode(&out[..short]).unwrap().1).unwrap();
    let Ok(Control::Error { rest, .. }) = Control::decode(body) else {
        panic!("no error: {body:02x?}");
    };
    assert_eq!(rest, []);
    assert_eq!(
        error_frame(
            Refusal::NoInterface,
            &out[..short],
            &mut [0; MAX_ERROR_FRAME]
        ),
        None,
        "itself an error"
    );
}

#[test]
fn handles_at_their_borders() {
    let numbers = [0, 3, 4, u32::MAX - 1, u32::MAX];
    let handles = [
        Handle::Handshake(0),
        Handle::Handshake(3),
        Handle::Session(4),
        Handle::Session(u32::MAX - 1),
        Handle::Control,
    ];
    for (number, handle) in numbers.into_iter().zip(handles) {
        let content = [&number.to_be_bytes()[..], &[9]].concat();
        let rest = if number < 4 { &content[..] } else { &[9] };
        assert_eq!(Handle::decode(&content), Ok((handle, rest)));
        assert_eq!(handle.number(), number);
    }
    assert_eq!(Handle::decode(&[0; 3]), Err(Refusal::Runt));
}

/// A switch on the path: the interfaces on which the frame arrives and leaves.
fn hop() -> impl Strategy<Value = (u16, u16)> {
    let number = || prop_oneof![Just(0), 2..9_u16, 2..40_u16, 2..257_u16];
    (number(), number())
}

/// The path over these switches to the router of the last node, each part as announced by its node.
fn way(first: u16, hops: &[(u16, u16)]) -> Option<Label> {
    hops.iter().try_fold(
        peer_label(interface(first)),
        |path, &(incoming, outgoing)| {
            let (back, on) = (
                peer_label(interface(incoming)),
                peer_label(interface(outgoing)),
            );
            label_for(on, back)?.after(path)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_receives_a_frame_can_answer(first in 2..257_u16, hops in prop::collection::vec(hop(), 0..6), last in 2..257_u16) {
        let Some(path) = way(first, &hops) else { return Ok(()) };
        let switch = switch_of(256);
        let mut there = frame(path);
        prop_assert_eq!(forward(&switch, Interface::ROUTER, &mut there), Ok(interface(first)));
        for &(incoming, outgoing) in &hops {
            prop_assert_eq!(forward(&switch, interface(incoming), &mut there), Ok(interface(outgoing)));
        }
        match forward(&switch, interface(last), &mut there) {
            Ok(destination) => prop_assert_eq!(destination, Interface::ROUTER),
            Err(refusal) => {
                // This may happen only if the label is full.
                prop_assert!(matches!(refusal, Refusal::NoReturnPath | Refusal::TooFar));
                prop_assert!(path.bits() + Form::of_interface(interface(last)).bits() + 4 > 63);
                return Ok(());
            }
        }
        let mut back = frame(header(&there).label.reversed());
        prop_assert_eq!(forward(&switch, Interface::ROUTER, &mut back), Ok(interface(last)));
        for &(incoming, outgoing) in hops.iter().rev() {
            prop_assert_eq!(forward(&switch, interface(outgoing), &mut back), Ok(interface(incoming)));
        }
        prop_assert_eq!(forward(&switch, interface(first), &mut back), Ok(Interface::ROUTER));
    }

    #[test]
    fn any_octets_are_survived(octets in prop::collection::vec(any::<u8>(), 0..300), source in 0..257_u16) {
        let mut frame = octets.clone();
        let mut out = [0; MAX_ERROR_FRAME];
        match forward(&switch_of(40), interface(source), &mut frame) {
            Ok(_) => prop_assert_eq!(&frame[Header::LEN..], &octets[Header::LEN..]),
            Err(refusal) => {
                let length = error_frame(refusal, &octets, &mut out).unwrap_or_default();
                prop_assert!(length <= octets.len() + 24);
            }
        }
    }

    #[test]
    fn a_header_is_written_as_it_was_read(octets in any::<[u8; Header::LEN]>()) {
        prop_assert_eq!(Header::from(&octets).encode(), octets);
    }

    #[test]
    fn compressed_in_a_longer_form_it_is_the_same_interface(number in 2..257_u16) {
        let form = Form::of_interface(interface(number));
        let director = compress(interface(number), form).unwrap();
        prop_assert_eq!(decompress(Label(director)), interface(number));
    }
}

#[test]
fn a_whole_control_frame() {
    let ping = Control::Ping {
        version: 22,
        opaque: b"IFACE_CNTRLR",
    };
    let mut out = [0; 64];
    let length = control_frame(&ping, Label(0x13), &mut out).unwrap();
    assert_eq!(header(&out), Header::new(Label(0x13)));
    let (handle, body) = Handle::decode(&out[Header::LEN..length]).unwrap();
    assert_eq!((handle, Control::decode(body)), (Handle::Control, Ok(ping)));
    assert!(control_frame(&ping, Label(0x13), &mut [0; 20]).is_err());
}

//! A forwarded frame differs from the received one in its header only, the way back leads back, and a refused
//! one is not touched.
//!
//! The input is two octets of interface and a frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switch::{
    decompress, error_frame, forward, Control, Handle, Header, Interface, Interfaces,
    MAX_ERROR_FRAME,
};

fuzz_target!(|input: &[u8]| {
    let Some((&[high, low], frame)) = input.split_first_chunk() else {
        return;
    };
    let number = u16::from_be_bytes([high, low]) % Interface::COUNT;
    let source = Interface::new(number).expect("in range");
    let mut sent = frame.to_vec();
    match forward(&interfaces(), source, &mut sent) {
        Ok(_) => check_forwarded(source, frame, &sent),
        Err(refusal) => {
            assert_eq!(sent, frame);
            let mut out = [0; MAX_ERROR_FRAME];
            if let Some(length) = error_frame(refusal, frame, &mut out) {
                check_error(frame, &out[..length]);
            }
        }
    }
});

/// Those that short and middle directors can name.
fn interfaces() -> Interfaces {
    let mut interfaces = Interfaces::new();
    while interfaces.iter().count() < 33 {
        interfaces.add().expect("there are more");
    }
    interfaces
}

fn check_forwarded(source: Interface, frame: &[u8], sent: &[u8]) {
    let (before, content) = Header::decode(frame).expect("it was forwarded");
    let (after, same) = Header::decode(sent).expect("as long as before");
    assert_eq!(content, same);
    assert_eq!(decompress(after.label.reversed()), source);
    assert!(after.shift > before.shift);
}

fn check_error(frame: &[u8], error: &[u8]) {
    let (header, content) = Header::decode(error).expect("what we send decodes");
    assert!(header.suppress_errors);
    let (handle, body) = Handle::decode(content).expect("what we send decodes");
    assert_eq!(handle, Handle::Control);
    let Ok(Control::Error { rest, .. }) = Control::decode(body) else {
        panic!("what we send decodes: {body:02x?}");
    };
    assert!(frame[16..].starts_with(rest));
}

//! A control frame or an encoding scheme that decodes survives being encoded and decoded again, and so does each answer.
//!
//! Where the checksum of the input does not match it is fixed, so that what is behind it is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switch::{Answerer, Control, ControlError, Label, LinkAddress, Scheme, MAX_SCHEME_OCTETS};

fuzz_target!(|octets: &[u8]| {
    if let Ok(scheme) = Scheme::decode(octets) {
        let mut out = [0; MAX_SCHEME_OCTETS];
        let length = scheme.encode(&mut out);
        assert_eq!(&out[..length], octets);
    }
    let mut fixed = octets.to_vec();
    if let Err(ControlError::Checksum(rest)) = Control::decode(octets) {
        let sum = u32::from(u16::from_be_bytes([octets[0], octets[1]])) + u32::from(rest);
        let sum = (sum & 0xffff) + (sum >> 16);
        fixed[..2].copy_from_slice(&(sum as u16).to_be_bytes());
    }
    let Ok(control) = Control::decode(&fixed) else {
        return;
    };
    check(&control);
    let neighbour = Some(LinkAddress::Other([1; 30]));
    let answerer = Answerer {
        key: [7; 32],
        neighbour,
    };
    if let Some(answer) = answerer.answer(&control, Label(0x13)) {
        check(&answer);
    }
});

fn check(control: &Control) {
    let mut out = vec![0; 9000];
    let length = control.encode(&mut out).expect("there is room");
    assert_eq!(Control::decode(&out[..length]).as_ref(), Ok(control));
}

//! Seals and opens messages by AES-CCM on a machine that runs nothing else, and prints what that costs on its serial port.
//!
//! First packet vector 1 of RFC 3610 must come out. Then each line is a JSON object with the cycles of one call. Under
//! QEMU's `-icount shift=0` the time stamp counter counts instructions.
#![no_std]
#![no_main]

mod machine;

use core::fmt::Write;
use core::hint::black_box;

use aes_ccm::Ccm;
use machine::{cycles, exit, Serial};

const SIZES: [usize; 7] = [50, 100, 200, 500, 1000, 1500, 8192];
/// Calls of which the quickest counts.
const CALLS: usize = 16;
/// Lengths of CCMP: tag and nonce, and the header that is authenticated in the clear.
const TAG: usize = 8;
const NONCE: usize = 13;
const ASSOCIATED: [u8; 22] = [0x88; 22];

#[no_mangle]
extern "C" fn main() -> ! {
    vector();
    let ccm = Ccm::new(&[0x2b; 16], TAG, NONCE).expect("allowed lengths");
    for octets in SIZES {
        measure(&ccm, octets);
    }
    exit(0)
}

/// RFC 3610, section 8, packet vector 1.
fn vector() {
    let mut key = [0; 16];
    key.iter_mut()
        .zip(0xc0..)
        .for_each(|(octet, value)| *octet = value);
    let nonce = [0, 0, 0, 3, 2, 1, 0, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5];
    let mut packet = [0; 31];
    packet
        .iter_mut()
        .zip(0..)
        .for_each(|(octet, value)| *octet = value);
    let (header, content) = packet.split_at_mut(8);
    let ccm = Ccm::new(&key, TAG, NONCE).expect("allowed lengths");
    let mut tag = [0; TAG];
    ccm.seal(&nonce, header, content, &mut tag)
        .expect("allowed lengths");
    assert_eq!(content[..4], [0x58, 0x8c, 0x97, 0x9a], "packet vector 1");
    assert_eq!(
        tag,
        [0x17, 0xe8, 0xd1, 0x2c, 0xfd, 0xf9, 0x26, 0xe0],
        "packet vector 1"
    );
    content[0] ^= 1;
    assert!(
        ccm.open(&nonce, header, content, &tag).is_err(),
        "a changed packet was opened"
    );
}

fn measure(ccm: &Ccm, octets: usize) {
    let mut buffer = [0x5a; SIZES[SIZES.len() - 1]];
    let (content, nonce) = (&mut buffer[..octets], [7; NONCE]);
    let mut tag = [0; TAG];
    let (mut sealing, mut opening) = (u64::MAX, u64::MAX);
    for _ in 0..CALLS {
        let start = cycles();
        let sealed = ccm.seal(black_box(&nonce), &ASSOCIATED, black_box(content), &mut tag);
        sealing = sealing.min(cycles() - start);
        let between = cycles();
        let opened = ccm.open(black_box(&nonce), &ASSOCIATED, black_box(content), &tag);
        opening = opening.min(cycles() - between);
        assert!(sealed.is_ok() && opened.is_ok(), "{octets} octets");
    }
    for (what, least) in [("encryption", sealing), ("decryption", opening)] {
        let line = writeln!(
            Serial,
            "{{\"what\": \"{what}\", \"octets\": {octets}, \"cycles\": {least}}}"
        );
        line.expect("the port takes all");
    }
}

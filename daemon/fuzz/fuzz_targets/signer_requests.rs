//! Whatever a router that was taken over sends to olsrv2-signer: the program does not panic, answers each request once and
//! in its turn, and signs nothing but whole HELLOs and TCs, each with a counter of its own.
//!
//! The first octet says into which portions the rest is cut. The modules are olsrv2-signer's own files: a program has no
//! library to link.
#![no_main]

#[path = "../../crates/olsrv2_signer/src/client.rs"]
mod client;
#[path = "../../crates/olsrv2_signer/src/counter.rs"]
mod counter;
#[path = "../../crates/olsrv2_signer/src/key.rs"]
mod key;
#[path = "../../crates/olsrv2_signer/src/pace.rs"]
mod pace;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use icv::{Answer, Claim, Frames, Request};
use libfuzzer_sys::fuzz_target;
use rfc5444::iana::message::{HELLO, TC};
use rfc5444::Message;

use client::Client;
use counter::Counter;
use key::Key;

/// What lasts from one connection to the next.
struct Program {
    key: Key,
    now: Duration,
    last: Option<u64>,
}

static PROGRAM: LazyLock<Mutex<Program>> = LazyLock::new(|| {
    let directory = Path::new("artifacts/signer_requests");
    std::fs::create_dir_all(directory).unwrap();
    let counter = Counter::open(&directory.join("counter")).unwrap();
    Mutex::new(Program {
        key: Key::new(&[7; icv::KEY_LENGTH], counter),
        now: Duration::ZERO,
        last: None,
    })
});

fuzz_target!(|input: &[u8]| {
    let Some((cut, octets)) = input.split_first() else {
        return;
    };
    let mut program = PROGRAM.lock().unwrap();
    // The whole burst may follow again.
    program.now += Duration::from_secs(1);
    let (ours, mut router) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    router.set_nonblocking(true).unwrap();
    let mut client = Client::new(ours);
    let (mut asked, mut answered) = (Frames::default(), Frames::default());
    for portion in octets.chunks(1 + 16 * usize::from(*cut)) {
        router.write_all(portion).unwrap();
        let now = program.now;
        let serves = client.serve(now, &mut program.key);
        asked.push(portion);
        answered.push(&read(&mut router));
        while let Ok(Some(request)) = asked.next_frame() {
            let answer = answered.next_frame().unwrap();
            check(&mut program, &request, &answer.expect("it answers each"));
        }
        assert_eq!(answered.next_frame(), Ok(None), "nobody asked");
        assert_eq!(serves, asked.next_frame().is_ok());
        if !serves {
            return;
        }
    }
});

/// Reads what has been answered.
fn read(router: &mut UnixStream) -> Vec<u8> {
    let mut octets = Vec::new();
    match router.read_to_end(&mut octets) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        Ok(_) => unreachable!("the program keeps its end open"),
    }
    octets
}

fn check(program: &mut Program, request: &[u8], answer: &[u8]) {
    let Some(answer) = Answer::read(answer) else {
        return;
    };
    let request = Request::read(request).expect("what cannot be read is refused");
    let plain = Message::decode(request.message).expect("what is no message is refused");
    assert!([HELLO, TC].contains(&plain.typ));
    assert_eq!(Claim::read(&plain.tlvs), Ok(None));
    let signed = Message::decode(answer.signed).unwrap();
    let claim = Claim::read(&signed.tlvs).unwrap().unwrap();
    claim
        .verify(plain.originator.unwrap(), answer.signed)
        .unwrap();
    assert_eq!(signed.tlvs[..plain.tlvs.len()], plain.tlvs);
    assert_eq!((signed.addresses, signed.seq), (plain.addresses, plain.seq));
    assert_eq!(claim.counter, answer.counter);
    assert!(program.last.is_none_or(|last| last < claim.counter));
    program.last = Some(claim.counter);
}

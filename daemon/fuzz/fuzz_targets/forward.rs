//! A forwarded message differs from the received one in hop limit and hop count only.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rfc5444::{PacketView, RawMessage};

fuzz_target!(|octets: &[u8]| {
    let Ok(view) = PacketView::new(octets) else {
        return;
    };
    view.messages().flatten().for_each(check);
});

fn check(received: RawMessage) {
    let Some(copy) = received.forward_copy() else {
        return;
    };
    let packet = [&[0], &copy[..]].concat();
    let view = PacketView::new(&packet).expect("a packet of one message");
    let mut sent = view
        .messages()
        .next()
        .expect("a message")
        .expect("a header");
    let hop_limit = received.header.hop_limit.map(|limit| limit - 1);
    let hop_count = received.header.hop_count.map(|count| count + 1);
    assert_eq!(
        (sent.header.hop_limit, sent.header.hop_count),
        (hop_limit, hop_count)
    );
    sent.header.hop_limit = received.header.hop_limit;
    sent.header.hop_count = received.header.hop_count;
    assert_eq!(sent.header, received.header);
    let changed = copy.iter().zip(received.octets).filter(|(a, b)| a != b);
    assert_eq!(changed.count(), 1 + usize::from(hop_count.is_some()));
    assert_eq!(sent.decode().is_ok(), received.decode().is_ok());
}

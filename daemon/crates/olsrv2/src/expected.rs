//! Which messages are expected next, by the tokens of those before.
//!
//! A message with the next token of its originator is verified although there are too many in its name. Nobody else
//! could have said that token before. Who hears it can use it in false messages from then on, so there is a bound for
//! how many with one token are verified.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use icv::Shown;
use nhdp::{InterfaceId, Time};

use crate::rate::Bucket;

/// Messages with one token that are verified. A true one comes through unless so many false ones overtake it, from
/// somebody who is nearer to its originator.
const ATTEMPTS: u32 = 64;
/// Messages whose token was seen before that are verified, of all originators: how many at once, and how many a second
/// from then on.
const AGAIN: (u32, u32) = (256, 128);

/// Messages with a new token that are verified, of each stream and of all together: how many at once, and how many a
/// second from then on. Anybody can say tokens of his own. A mesh of 1000 routers has 200 TCs a second.
const OF_STREAM: (u32, u32) = (16, 8);
const OF_ALL: (u32, u32) = (512, 256);

/// Whose tokens follow each other: the HELLOs of an originator from one interface on one of ours, or what it floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stream {
    pub originator: IpAddr,
    /// Where its HELLOs are heard, and from which address.
    pub hellos: Option<(InterfaceId, IpAddr)>,
}

/// The last message of a stream.
#[derive(Debug)]
struct Last {
    shown: Shown,
    /// The counter of the last one that was verified.
    counter: u64,
    heard: Time,
    /// How many more with this token are verified; none after a true one.
    attempts: u32,
    /// How many more tokens of this stream are worth something.
    new: Bucket,
}

/// The last tokens of all streams.
#[derive(Debug)]
pub(crate) struct Expected {
    streams: BTreeMap<Stream, Last>,
    again: Bucket,
    new: Bucket,
    /// The message that is being handled was granted a verification.
    granted: bool,
}

impl Expected {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            streams: BTreeMap::new(),
            again: Bucket::new(now, AGAIN.0, AGAIN.1),
            new: Bucket::new(now, OF_ALL.0, OF_ALL.1),
            granted: false,
        }
    }

    /// Begins with the next message.
    pub(crate) fn begin(&mut self) {
        self.granted = false;
    }

    /// Returns whether a message is to be verified although there are too many, and counts it once. Trusted originators do
    /// not share what all have together.
    pub(crate) fn grants(
        &mut self,
        now: Time,
        stream: Stream,
        shown: Option<Shown>,
        is_trusted: bool,
    ) -> bool {
        let last = self.streams.get_mut(&stream);
        if let (false, Some(last), Some(shown)) = (self.granted, last, shown) {
            if shown.token == last.shown.token {
                self.granted = last.attempts > 0 && self.again.take(now);
                last.attempts -= u32::from(self.granted);
            } else if let Some(shown) = shown.after(&last.shown) {
                // Its originator has said this token, whoever has made the message.
                self.granted = last.new.take(now) && (is_trusted || self.new.take(now));
                if self.granted {
                    (last.shown, last.attempts) = (shown, ATTEMPTS - 1);
                }
            }
        }
        self.granted
    }

    /// Records a message that was verified. At `limit`, the stream that was heard longest ago gives way.
    pub(crate) fn verified(
        &mut self,
        now: Time,
        stream: Stream,
        shown: Option<Shown>,
        counter: u64,
        limit: usize,
    ) {
        let Some(shown) = shown else {
            return;
        };
        if let Some(last) = self.streams.get_mut(&stream) {
            if counter > last.counter {
                (last.shown, last.counter, last.heard) = (shown, counter, now);
                last.attempts = 0;
            }
            return;
        }
        if self.streams.len() >= limit.max(1) {
            let oldest = self.streams.iter().min_by_key(|(_, last)| last.heard);
            if let Some(oldest) = oldest.map(|(stream, _)| *stream) {
                self.streams.remove(&oldest);
            }
        }
        let last = Last {
            shown,
            counter,
            heard: now,
            attempts: 0,
            new: Bucket::new(now, OF_STREAM.0, OF_STREAM.1),
        };
        self.streams.insert(stream, last);
    }

    /// Forgets what was heard on an interface that is gone.
    pub(crate) fn forget_interface(&mut self, interface: InterfaceId) {
        let is_other = |stream: &Stream| stream.hellos.is_none_or(|(id, _)| id != interface);
        self.streams.retain(|stream, _| is_other(stream));
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use core::time::Duration;

    use icv::Tokens;

    use super::*;

    fn stream(number: u32, hellos: Option<u32>) -> Stream {
        let address = IpAddr::from(Ipv4Addr::from_bits(number));
        Stream {
            originator: address,
            hellos: hellos.map(|id| (InterfaceId(id), address)),
        }
    }

    fn next(tokens: &mut Tokens) -> Option<Shown> {
        Shown::read(&[tokens.next_tlv()])
    }

    /// Returns whether another message is granted a verification.
    fn grants(expected: &mut Expected, stream: Stream, shown: Option<Shown>) -> bool {
        expected.begin();
        expected.grants(Time::ZERO, stream, shown, false)
    }

    #[test]
    fn a_message_that_was_granted_a_verification_is_counted_once() {
        let mut tokens = Tokens::new(&[1; 32], 0);
        let mut expected = Expected::new(Time::ZERO);
        let of = stream(1, None);
        expected.verified(Time::ZERO, of, next(&mut tokens), 1, 10);
        let later = next(&mut tokens);
        for _ in 0..ATTEMPTS {
            expected.begin();
            let granted = [(); 3].map(|()| expected.grants(Time::ZERO, of, later, false));
            assert_eq!(granted, [true; 3]);
        }
        assert!(!grants(&mut expected, of, later));
        assert!(!grants(&mut expected, stream(2, None), next(&mut tokens)));
        assert!(!grants(&mut expected, of, None));
    }

    #[test]
    fn all_originators_together_have_256_more_than_one_for_each_token() {
        let mut expected = Expected::new(Time::ZERO);
        let mut granted = 0;
        for number in 0..10 {
            let mut tokens = Tokens::new(&[1; 32], number.into());
            let of = stream(number, None);
            expected.verified(Time::ZERO, of, next(&mut tokens), 1, 10);
            let later = next(&mut tokens);
            granted += (0..100)
                .filter(|_| grants(&mut expected, of, later))
                .count();
        }
        assert_eq!(granted, 10 + 256);
    }

    #[test]
    fn each_stream_has_16_new_tokens_at_once_and_all_together_512_without_those_of_trusted_ones() {
        let mut expected = Expected::new(Time::ZERO);
        let mut granted = [0, 0];
        for number in 0..80 {
            let is_trusted = number % 2 == 1;
            let mut tokens = Tokens::new(&[1; 32], number.into());
            let of = stream(number, None);
            expected.verified(Time::ZERO, of, next(&mut tokens), 1, 100);
            for counter in 2..=30 {
                let shown = next(&mut tokens);
                expected.begin();
                if expected.grants(Time::ZERO, of, shown, is_trusted) {
                    expected.verified(Time::ZERO, of, shown, counter, 100);
                    granted[usize::from(is_trusted)] += 1;
                }
            }
        }
        assert_eq!(granted, [512, 40 * 16]);
        let mut tokens = Tokens::new(&[2; 32], 0);
        let of = stream(99, None);
        expected.verified(Time::ZERO, of, next(&mut tokens), 1, 100);
        let later = next(&mut tokens);
        assert!(!grants(&mut expected, of, later));
        let now = Time::ZERO + Duration::from_millis(4);
        assert!(expected.grants(now, of, later, false));
    }

    #[test]
    fn a_verified_message_with_a_lower_counter_changes_nothing() {
        let mut tokens = Tokens::new(&[1; 32], 0);
        let mut expected = Expected::new(Time::ZERO);
        let of = stream(1, None);
        let [first, second, third] = [(); 3].map(|()| next(&mut tokens));
        expected.verified(Time::ZERO, of, second, 2, 10);
        expected.verified(Time::ZERO, of, first, 1, 10);
        assert!(!grants(&mut expected, of, second), "it was said");
        assert!(grants(&mut expected, of, third));
    }

    #[test]
    fn streams_have_a_bound_and_go_with_their_interface() {
        let mut expected = Expected::new(Time::ZERO);
        let heard = |expected: &mut Expected, number: u32, hellos| {
            let mut tokens = Tokens::new(&[1; 32], number.into());
            let now = Time::ZERO + Duration::from_secs(number.into());
            expected.verified(now, stream(number, hellos), next(&mut tokens), 1, 3);
        };
        for number in [2, 1, 3, 4] {
            heard(&mut expected, number, Some(number % 2));
        }
        let known = |expected: &Expected| -> alloc::vec::Vec<Stream> {
            expected.streams.keys().copied().collect()
        };
        let [two, three, four] = [(2, 0), (3, 1), (4, 0)].map(|(n, id)| stream(n, Some(id)));
        assert_eq!(known(&expected), [two, three, four]);
        expected.forget_interface(InterfaceId(0));
        assert_eq!(known(&expected), [three]);
    }
}

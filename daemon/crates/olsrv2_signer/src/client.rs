//! The connection of the router.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use daemonkit::Time;
use icv::{Answer, Frames};

use crate::key::Key;

/// Octets read in one turn.
const READ_MAX: usize = 4096;

/// A router that asks for signatures.
pub struct Client {
    stream: UnixStream,
    frames: Frames,
    /// How many requests in a row were refused, of which the log has two lines: why, and how many.
    refused: u64,
}

impl Client {
    /// Wraps a non-blocking connection.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            refused: 0,
        }
    }

    /// Answers what has arrived. Returns false when the connection is over: at its end, after a frame that is too long,
    /// or when the router does not read its answers.
    pub fn serve(&mut self, now: Time, key: &mut Key) -> bool {
        let mut octets = [0; READ_MAX];
        match self.stream.read(&mut octets) {
            Ok(0) => return false,
            Ok(count) => self.frames.push(&octets[..count]),
            Err(error) => {
                return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
            }
        }
        loop {
            match self.frames.next_frame() {
                Ok(Some(request)) => {
                    let answer = self.answer(now, key, &request);
                    if self.stream.write_all(&answer).is_err() {
                        log::warn!("the router does not read its answers: disconnected");
                        return false;
                    }
                }
                Ok(None) => return true,
                Err(error) => {
                    log::warn!("the router sends {error}: disconnected");
                    return false;
                }
            }
        }
    }

    fn answer(&mut self, now: Time, key: &mut Key, request: &[u8]) -> Vec<u8> {
        match key.sign(now, request) {
            Ok((counter, signed)) => {
                if self.refused > 0 {
                    log::info!("signing again; {} requests were refused", self.refused);
                    self.refused = 0;
                }
                let answer = Answer {
                    counter,
                    signed: &signed,
                };
                answer.frame()
            }
            Err(refusal) => {
                if self.refused == 0 {
                    log::warn!("a message is not signed: {refusal}");
                }
                self.refused += 1;
                Answer::refusal()
            }
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use icv::{Claim, Request};
    use rfc5444::iana::message::HELLO;
    use rfc5444::Message;

    use super::*;
    use crate::counter::Counter;
    use crate::test_directory::Directory;

    fn pair(directory: &Directory) -> (Client, UnixStream, Key) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let counter = Counter::open(&directory.join("counter")).unwrap();
        (Client::new(ours), theirs, Key::new(&[7; 32], counter))
    }

    fn hello() -> Vec<u8> {
        let message = Message::new(HELLO, Ipv4Addr::LOCALHOST.into());
        let message = message.encode().unwrap();
        let request = Request {
            floor: None,
            message: &message,
        };
        request.frame()
    }

    #[test]
    fn each_request_has_its_answer_also_when_one_is_refused() {
        let directory = Directory::new("answers");
        let (mut client, mut router, mut key) = pair(&directory);
        let nothing = Request {
            floor: None,
            message: &[],
        };
        router
            .write_all(&[hello(), nothing.frame(), hello()].concat())
            .unwrap();
        assert!(client.serve(Time::ZERO, &mut key));
        let mut octets = [0; 4096];
        let count = router.read(&mut octets).unwrap();
        let mut frames = Frames::default();
        frames.push(&octets[..count]);
        let mut signed = Vec::new();
        while let Some(frame) = frames.next_frame().unwrap() {
            signed.push(Answer::read(&frame).map(|answer| {
                let message = Message::decode(answer.signed).unwrap();
                Claim::read(&message.tlvs).unwrap().unwrap().counter
            }));
        }
        assert!(matches!(signed[..], [Some(first), None, Some(last)] if last == first + 1));
        assert_eq!(client.refused, 0, "signing again");
        router
            .write_all(&[nothing.frame(), nothing.frame()].concat())
            .unwrap();
        assert!(client.serve(Time::ZERO, &mut key));
        assert_eq!(client.refused, 2);
        drop(router);
        assert!(!client.serve(Time::ZERO, &mut key));
    }

    #[test]
    fn who_floods_or_does_not_read_is_disconnected() {
        let directory = Directory::new("flood");
        let (mut client, mut router, mut key) = pair(&directory);
        router.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(!client.serve(Time::ZERO, &mut key));
        let directory = Directory::new("deaf");
        let (mut client, mut router, mut key) = pair(&directory);
        let served = (0..100_000)
            .all(|_| router.write_all(&hello()).is_ok() && client.serve(Time::ZERO, &mut key));
        assert!(!served);
    }
}

//! What a router asks the program that has its key, and what that answers, as octets on a stream.
//!
//! Each is a frame: its length in 4 octets, and as many octets. All numbers have their most significant octet first.
//!
//! | frame | octets |
//! |---|---|
//! | request | 1 if a floor follows, else 0: 1 octet; floor: 8 octets; the message |
//! | answer | counter: 8 octets; the signed message |
//! | refusal | none |

use alloc::vec::Vec;
use core::fmt;

/// Octets of a frame's length.
const LENGTH: usize = size_of::<u32>();
/// Octets of a request before its message.
const REQUEST_HEADER: usize = 1 + COUNTER;
const COUNTER: usize = size_of::<u64>();
/// Most octets of a frame behind its length: the longest message (RFC 5444, section 5.2) and what is before it.
const FRAME_MAX: usize = REQUEST_HEADER + u16::MAX as usize;

/// A message to be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The lowest counter that the router has used lately; `None` when it has used none since its start.
    pub floor: Option<u64>,
    /// The encoded message.
    pub message: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns the request as a frame.
    pub fn frame(&self) -> Vec<u8> {
        let floor = self.floor.unwrap_or_default().to_be_bytes();
        frame(&[&[self.floor.is_some().into()], &floor, self.message])
    }

    /// Reads the octets of a frame; `None` if they are no request.
    pub fn read(octets: &'a [u8]) -> Option<Self> {
        let (header, message) = octets.split_first_chunk::<REQUEST_HEADER>()?;
        let (flag, floor) = header.split_first()?;
        let floor = floor.try_into().ok().map(u64::from_be_bytes);
        match flag {
            0 => Some(Self {
                floor: None,
                message,
            }),
            1 => Some(Self { floor, message }),
            _ => None,
        }
    }
}

/// A message with its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The counter with which the message is signed.
    pub counter: u64,
    /// The message with its signature.
    pub signed: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Returns the answer as a frame.
    pub fn frame(&self) -> Vec<u8> {
        frame(&[&self.counter.to_be_bytes(), self.signed])
    }

    /// Returns the frame that refuses to sign.
    pub fn refusal() -> Vec<u8> {
        frame(&[])
    }

    /// Reads the octets of a frame; `None` if they refuse.
    pub fn read(octets: &'a [u8]) -> Option<Self> {
        let (counter, signed) = octets.split_first_chunk::<COUNTER>()?;
        Some(Self {
            counter: u64::from_be_bytes(*counter),
            signed,
        })
    }
}

/// A frame is longer than any request. The stream cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub usize);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a frame of {} octets, more than {FRAME_MAX}", self.0)
    }
}

impl core::error::Error for TooLong {}

/// The frames of a stream.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// Adds octets that have arrived. Take the frames out after each call: only the last one, which is not whole, stays.
    pub fn push(&mut self, octets: &[u8]) {
        self.0.extend_from_slice(octets);
    }

    /// Returns the next whole frame without its length.
    ///
    /// # Errors
    ///
    /// [`TooLong`], before the frame is stored.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let Some((length, rest)) = self.0.split_first_chunk::<LENGTH>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > FRAME_MAX {
            return Err(TooLong(length));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let octets = rest[..length].to_vec();
        self.0.drain(..LENGTH + length);
        Ok(Some(octets))
    }
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut octets = (length as u32).to_be_bytes().to_vec();
    parts.iter().for_each(|part| octets.extend_from_slice(part));
    octets
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn what_is_written_is_read_however_it_is_cut() {
        let requests = [
            Request {
                floor: None,
                message: &[],
            },
            Request {
                floor: Some(u64::MAX),
                message: &[7; 300],
            },
        ];
        let octets: Vec<u8> = requests.iter().flat_map(Request::frame).collect();
        for cut in 1..octets.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for part in octets.chunks(cut) {
                frames.push(part);
                while let Some(frame) = frames.next_frame().unwrap() {
                    found.push(frame);
                }
            }
            let found: Vec<_> = found.iter().filter_map(|one| Request::read(one)).collect();
            assert_eq!(found, requests);
        }
    }

    #[test]
    fn answers_and_refusals_differ() {
        let answer = Answer {
            counter: 1 << 40,
            signed: b"signed",
        };
        let read = |frame: &[u8]| {
            let mut frames = Frames::default();
            frames.push(frame);
            frames.next_frame().unwrap().unwrap()
        };
        assert_eq!(Answer::read(&read(&answer.frame())), Some(answer));
        assert_eq!(Answer::read(&read(&Answer::refusal())), None);
    }

    #[test]
    fn what_is_no_request_is_refused_and_a_frame_that_is_too_long_ends_the_stream() {
        assert_eq!(Request::read(&[0; REQUEST_HEADER - 1]), None);
        let mut octets = vec![0; REQUEST_HEADER];
        octets[0] = 2;
        assert_eq!(Request::read(&octets), None);
        for (length, accepted) in [
            (FRAME_MAX, true),
            (FRAME_MAX + 1, false),
            (u32::MAX as usize, false),
        ] {
            let mut frames = Frames::default();
            frames.push(&(length as u32).to_be_bytes());
            assert_eq!(frames.next_frame().is_ok(), accepted, "{length}");
        }
    }
}

//! Frames that are longer than a device takes: each goes in two pieces, its halves.
//!
//! The overlay cuts no frames, and routers of cjdns drop pieces. The devices that are too short are the links of
//! meshsecd, which have an overlayd at both ends.

use super::buffers::CONTENT_MAX;

/// The first two bytes of the header before a frame or a piece: which half it is, and its frame's number.
pub type Mark = [u8; 2];

/// The mark of a whole frame.
pub const WHOLE: Mark = [0, 0];
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Numbers the frames that are cut.
#[derive(Default)]
pub struct Numbers(u8);

impl Numbers {
    /// Returns the marks of the next frame's halves.
    pub fn next_marks(&mut self) -> [Mark; 2] {
        self.0 = self.0.wrapping_add(1);
        [[FIRST, self.0], [SECOND, self.0]]
    }
}

/// Returns whether a received mark means anything.
pub const fn is_mark(mark: Mark) -> bool {
    matches!(mark, WHOLE | [FIRST | SECOND, _])
}

/// Joins the halves of frames. At most one first half waits for its second half, so that halves cannot fill memory.
#[derive(Default)]
pub struct Joiner {
    waiting: Option<([u8; 6], u8)>,
    length: usize,
    content: Vec<u8>,
}

impl Joiner {
    /// Returns a whole frame, or the one that this piece completes; `None` while its other half is missing. A piece may
    /// be given again until the next one comes.
    pub fn join<'a>(&'a mut self, from: [u8; 6], mark: Mark, piece: &'a [u8]) -> Option<&'a [u8]> {
        match mark {
            [FIRST, number] => {
                self.content.clear();
                self.content.extend_from_slice(piece);
                (self.waiting, self.length) = (Some((from, number)), piece.len());
                None
            }
            [SECOND, number] => {
                let fits = self.length + piece.len() <= CONTENT_MAX;
                if self.waiting != Some((from, number)) || !fits {
                    return None;
                }
                self.content.truncate(self.length);
                self.content.extend_from_slice(piece);
                Some(&self.content)
            }
            _ => Some(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
    const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

    #[test]
    fn halves_make_their_frame_again_and_as_often_as_it_is_asked_for() {
        let (mut joiner, [first, second]) = (Joiner::default(), Numbers::default().next_marks());
        assert_eq!(joiner.join(A, first, b"abc"), None);
        for _ in 0..2 {
            assert_eq!(joiner.join(A, second, b"de"), Some(&b"abcde"[..]));
        }
    }

    #[test]
    fn whole_frames_pass_between_halves() {
        let (mut joiner, [first, second]) = (Joiner::default(), Numbers::default().next_marks());
        joiner.join(A, first, b"abc");
        assert_eq!(joiner.join(B, WHOLE, b"whole"), Some(&b"whole"[..]));
        assert_eq!(joiner.join(A, second, b"de"), Some(&b"abcde"[..]));
    }

    #[test]
    fn halves_of_different_frames_or_senders_are_not_joined() {
        let mut numbers = Numbers::default();
        let ([first, second], [_, other]) = (numbers.next_marks(), numbers.next_marks());
        let mut joiner = Joiner::default();
        assert_eq!(joiner.join(A, second, b"de"), None);
        joiner.join(A, first, b"abc");
        assert_eq!(joiner.join(A, other, b"de"), None);
        assert_eq!(joiner.join(B, second, b"de"), None);
    }

    #[test]
    fn nothing_longer_than_a_frame_is_joined() {
        let (mut joiner, [first, second]) = (Joiner::default(), Numbers::default().next_marks());
        let half = [7; CONTENT_MAX / 2 + 1];
        joiner.join(A, first, &half);
        assert_eq!(joiner.join(A, second, &half), None);
        let joined = joiner.join(A, second, &half[2..]).map(<[u8]>::len);
        assert_eq!(joined, Some(CONTENT_MAX));
    }

    #[test]
    fn marks_of_nothing_are_refused() {
        let marks = [WHOLE, [1, 0], [1, 255], [2, 7], [0, 1], [3, 0], [255, 1]];
        let are = marks.map(is_mark);
        assert_eq!(are, [true, true, true, true, false, false, false]);
    }

    #[test]
    fn numbers_begin_again() {
        let mut numbers = Numbers(255);
        assert_eq!(numbers.next_marks(), [[1, 0], [2, 0]]);
    }
}

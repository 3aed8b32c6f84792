//! A fixed pool of buffers with space around their contents, so that no packet needs an allocation.

use std::ops::Range;

use overlay_node::{HEAD_ROOM, TAIL_ROOM};

/// Longest frame or packet in a buffer in bytes, more than an Ethernet frame has.
pub const CONTENT_MAX: usize = 2048;
/// Length of a buffer in bytes.
const LENGTH: usize = HEAD_ROOM + CONTENT_MAX + TAIL_ROOM;

/// A buffer in use. It is returned with [`Pool::give`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer(u16);

/// A part of a buffer in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The buffer.
    pub buffer: Buffer,
    /// The range in it.
    pub range: Range<usize>,
}

/// Buffers of equal length.
pub struct Pool {
    octets: Vec<[u8; LENGTH]>,
    free: Vec<Buffer>,
}

impl Pool {
    /// Makes `count` buffers.
    pub fn new(count: u16) -> Self {
        Self {
            octets: vec![[0; LENGTH]; usize::from(count)],
            free: (0..count).rev().map(Buffer).collect(),
        }
    }

    /// Returns the number of free buffers.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a buffer; `None` if none is free.
    pub fn take(&mut self) -> Option<Buffer> {
        self.free.pop()
    }

    /// Takes a buffer and copies `content` into it; `None` if none is free or the content is too long.
    pub fn hold(&mut self, content: &[u8]) -> Option<Part> {
        if content.len() > CONTENT_MAX {
            return None;
        }
        let buffer = self.take()?;
        let range = HEAD_ROOM..HEAD_ROOM + content.len();
        self.octets_mut(buffer)[range.clone()].copy_from_slice(content);
        Some(Part { buffer, range })
    }

    /// Cuts a part into two, of which the second is in another buffer; `None` if none is free.
    pub fn halves(&mut self, part: &Part) -> Option<[Part; 2]> {
        let other = self.take()?;
        let middle = part.range.start + part.range.len().div_ceil(2);
        let rest = middle..part.range.end;
        let whole = self.octets[usize::from(part.buffer.0)];
        self.octets_mut(other)[rest.clone()].copy_from_slice(&whole[rest.clone()]);
        let of = |buffer, range| Part { buffer, range };
        Some([of(part.buffer, part.range.start..middle), of(other, rest)])
    }

    /// Returns a buffer to the pool.
    pub fn give(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }

    /// Returns all bytes of a buffer, including the space around its contents.
    pub fn octets_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        &mut self.octets[usize::from(buffer.0)]
    }

    /// Returns the bytes of a part.
    pub fn part(&self, part: &Part) -> &[u8] {
        &self.octets[usize::from(part.buffer.0)][part.range.clone()]
    }

    /// Returns the bytes of a part.
    pub fn part_mut(&mut self, part: &Part) -> &mut [u8] {
        &mut self.octets[usize::from(part.buffer.0)][part.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_again_and_not_more() {
        let mut pool = Pool::new(2);
        let part = pool.hold(b"content").unwrap();
        assert_eq!(pool.part(&part), b"content");
        let other = pool.take().unwrap();
        assert!(pool.take().is_none());
        assert!(pool.hold(b"content").is_none());
        pool.give(part.buffer);
        assert!(pool.hold(&[0; CONTENT_MAX + 1]).is_none());
        assert_eq!(pool.take(), Some(part.buffer));
        pool.give(other);
        assert_eq!(pool.free(), 1);
    }

    #[test]
    fn a_part_is_cut_into_two_buffers_that_make_it_up() {
        let mut pool = Pool::new(2);
        let part = pool.hold(b"content").unwrap();
        let halves = pool.halves(&part).unwrap();
        let contents = [0, 1].map(|half| pool.part(&halves[half]));
        assert_eq!(contents, [&b"cont"[..], b"ent"]);
        assert!(pool.halves(&part).is_none());
        for half in halves {
            pool.give(half.buffer);
        }
        assert_eq!(pool.free(), 2);
    }
}

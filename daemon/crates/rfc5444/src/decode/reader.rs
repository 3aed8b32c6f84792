//! A cursor that never runs past the end of its octets.

use crate::{DecodeCause, DecodeError};

/// Reads forward through octets. Offsets count from the start of the whole slice.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    octets: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub fn new(octets: &'a [u8]) -> Self {
        Self {
            octets,
            position: 0,
        }
    }

    /// Returns the offset of the next octet.
    pub fn position(&self) -> usize {
        self.position
    }

    pub fn is_empty(&self) -> bool {
        self.position == self.octets.len()
    }

    /// Returns the octets that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.octets[self.position..]
    }

    /// Reads the next `count` octets.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        let taken = rest.get(..count).ok_or_else(|| {
            let missing = count - rest.len();
            DecodeError::new(DecodeCause::Truncated, self.octets.len(), missing)
        })?;
        self.position += count;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        let octets = self.take(2)?;
        Ok(u16::from_be_bytes([octets[0], octets[1]]))
    }

    /// Reads an octet that exists only if `present`.
    pub fn optional_u8(&mut self, present: bool) -> Result<Option<u8>, DecodeError> {
        present.then(|| self.u8()).transpose()
    }

    /// Reads two octets that exist only if `present`.
    pub fn optional_u16(&mut self, present: bool) -> Result<Option<u16>, DecodeError> {
        present.then(|| self.u16()).transpose()
    }

    /// Splits off a reader of the next `count` octets. Its offsets continue those of this one.
    pub fn split(&mut self, count: usize) -> Result<Self, DecodeError> {
        let position = self.position;
        self.take(count)?;
        Ok(Self {
            octets: &self.octets[..self.position],
            position,
        })
    }
}

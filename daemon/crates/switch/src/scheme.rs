//! How any node writes directors, as announced in its DHT messages.
//!
//! A form is encoded as `u5 length of the prefix | u5 data bits | the prefix`, low bits first. The forms follow each
//! other without gaps, and zeros fill the last octet.

use crate::{Label, SchemeError};

/// Largest number of forms that this node accepts. No known node uses more than three.
pub const MAX_FORMS: usize = 8;

/// Length in octets of the longest serialised scheme.
pub const MAX_SCHEME_OCTETS: usize = (MAX_FORMS * 41).div_ceil(8);

/// Number of usable bits of a label, the largest length of a director.
const MAX_DIRECTOR: u8 = 59;

/// One of the forms in which a node writes directors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemeForm {
    /// Number of data bits, 1 to 31.
    pub bits: u8,
    /// Number of prefix bits, which come first: 0 for an only form, otherwise 1 to 31.
    pub prefix_bits: u8,
    /// The prefix.
    pub prefix: u32,
}

/// How a node writes directors: in one form of fixed length, or in several, each longer than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    forms: [SchemeForm; MAX_FORMS],
    count: usize,
}

impl SchemeForm {
    /// Returns the length of its directors in bits, including the prefix, 1 to 59.
    #[must_use]
    pub const fn length(self) -> u32 {
        self.bits as u32 + self.prefix_bits as u32
    }

    const fn matches(self, label: u64) -> bool {
        let mask = (1 << self.prefix_bits) - 1;
        (label ^ self.prefix as u64) & mask == 0
    }

    const fn is_valid(self, only: bool) -> bool {
        let prefix = if only {
            self.prefix_bits == 0
        } else {
            matches!(self.prefix_bits, 1..=31)
        };
        let fits = (self.prefix as u64) < 1 << self.prefix_bits;
        prefix
            && fits
            && matches!(self.bits, 1..=31)
            && self.bits + self.prefix_bits <= MAX_DIRECTOR
    }
}

impl Scheme {
    /// The scheme v3x5x8, which this implementation and every known node use.
    pub const V3X5X8: Self = {
        let mut forms = [SchemeForm {
            bits: 0,
            prefix_bits: 0,
            prefix: 0,
        }; MAX_FORMS];
        forms[0] = SchemeForm {
            bits: 3,
            prefix_bits: 1,
            prefix: 1,
        };
        forms[1] = SchemeForm {
            bits: 5,
            prefix_bits: 2,
            prefix: 2,
        };
        forms[2] = SchemeForm {
            bits: 8,
            prefix_bits: 2,
            prefix: 0,
        };
        Self { forms, count: 3 }
    };

    /// Returns a scheme of these forms.
    ///
    /// # Errors
    ///
    /// Forms that their prefixes do not distinguish, or that are not each longer than the one before.
    pub fn new(forms: &[SchemeForm]) -> Result<Self, SchemeError> {
        let mut all = [SchemeForm::default(); MAX_FORMS];
        let count = forms.len();
        all.get_mut(..count)
            .ok_or(SchemeError::Forms(count))?
            .copy_from_slice(forms);
        if count == 0 {
            return Err(SchemeError::Length(0));
        }
        if let Some(index) = forms.iter().position(|form| !form.is_valid(count == 1)) {
            return Err(SchemeError::Form(index));
        }
        for (index, form) in forms.iter().enumerate() {
            if index > 0 && form.bits <= forms[index - 1].bits {
                return Err(SchemeError::Order(index));
            }
            let mut others = forms
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            if others.any(|(_, other)| form.matches(other.prefix.into())) {
                return Err(SchemeError::Ambiguous(index));
            }
        }
        Ok(Self { forms: all, count })
    }

    /// Reads a serialised scheme.
    ///
    /// # Errors
    ///
    /// Octets that are not whole forms, and forms that [`Scheme::new`] refuses.
    pub fn decode(octets: &[u8]) -> Result<Self, SchemeError> {
        let mut bits = BitReader {
            octets,
            position: 0,
        };
        let mut forms = [SchemeForm::default(); MAX_FORMS];
        let mut count = 0;
        while bits.left() >= 10 {
            let form = forms.get_mut(count).ok_or(SchemeError::Forms(count + 1))?;
            let malformed = SchemeError::Length(octets.len());
            let prefix_bits = bits.take(5).ok_or(malformed)?;
            form.bits = bits.take(5).ok_or(malformed)? as u8;
            form.prefix = bits.take(prefix_bits).ok_or(malformed)?;
            form.prefix_bits = prefix_bits as u8;
            count += 1;
        }
        let filling = bits.left();
        if filling >= 8 || bits.take(filling as u32) != Some(0) {
            return Err(SchemeError::Length(octets.len()));
        }
        Self::new(&forms[..count])
    }

    /// Writes the serialised scheme into `out`. Returns its length in octets.
    #[must_use]
    pub fn encode(&self, out: &mut [u8; MAX_SCHEME_OCTETS]) -> usize {
        out.fill(0);
        let mut position = 0;
        for form in self.forms() {
            let head = u64::from(form.prefix_bits) | u64::from(form.bits) << 5;
            let all = head | u64::from(form.prefix) << 10;
            for bit in 0..10 + u32::from(form.prefix_bits) {
                out[position / 8] |= ((all >> bit & 1) as u8) << (position % 8);
                position += 1;
            }
        }
        position.div_ceil(8)
    }

    /// Returns the forms, shortest first.
    #[must_use]
    pub fn forms(&self) -> &[SchemeForm] {
        &self.forms[..self.count]
    }

    /// Returns the index and form of a label's first director, or `None` if no form has its prefix.
    #[must_use]
    pub fn form_of(&self, label: Label) -> Option<(usize, SchemeForm)> {
        let mut forms = self.forms().iter().copied().enumerate();
        forms.find(|(_, form)| form.matches(label.0))
    }

    /// Returns the interface number of a label's first director, as counted by the node with this scheme.
    ///
    /// With several forms, 0 and 1 are exchanged, so that 0001 is always the node's own router. In v3x5x8 this holds
    /// only for the shortest form, and the others skip the router.
    #[must_use]
    pub fn interface(&self, label: Label) -> Option<u32> {
        let (index, form) = self.form_of(label)?;
        let value = (label.0 >> form.prefix_bits) as u32 & ((1 << form.bits) - 1);
        Some(if self.count == 1 {
            value
        } else if index > 0 && *self == Self::V3X5X8 {
            value + u32::from(value > 0)
        } else if *self == Self::V3X5X8 && value > 1 {
            value
        } else {
            value ^ 1
        })
    }
}

struct BitReader<'a> {
    octets: &'a [u8],
    position: usize,
}

impl BitReader<'_> {
    fn left(&self) -> usize {
        self.octets.len() * 8 - self.position
    }

    /// Reads the next bits, at most 32, the first one lowest. Returns `None` if fewer are left.
    fn take(&mut self, bits: u32) -> Option<u32> {
        let mut value = 0;
        for bit in 0..bits {
            let octet = self.octets.get(self.position / 8)?;
            value |= u32::from(octet >> (self.position % 8) & 1) << bit;
            self.position += 1;
        }
        Some(value)
    }
}

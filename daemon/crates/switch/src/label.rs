//! Labels: the path that a frame still has to take and, reversed, the path back to its sender.

use core::fmt;
use core::str::FromStr;

use crate::error::ParseLabelError;

/// Largest number of director bits in a label made of two.
///
/// The other bits keep the path ahead and the path back apart.
pub const MAX_LABEL_BITS: u32 = 59;

/// The path to a node, relative to the switch where it starts.
///
/// The highest set bit marks the end. The directors are in the bits below, the first one lowest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u64);

impl Label {
    /// The path of a node to itself: no director, only the end.
    pub const SELF: Self = Self(1);

    /// Returns the path back. `self` is the label with which a frame arrived.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self(self.0.reverse_bits())
    }

    /// Returns the number of director bits, 0 to 63. It is also 0 for the label 0, which leads nowhere.
    #[must_use]
    pub const fn bits(self) -> u32 {
        (self.0 | 1).ilog2()
    }

    /// Returns the path that first leads to `via` and from there follows this label.
    ///
    /// Returns `None` if the label would be longer than [`MAX_LABEL_BITS`], or if one of the two is 0.
    #[must_use]
    pub const fn after(self, via: Self) -> Option<Self> {
        let fits = self.bits() + via.bits() <= MAX_LABEL_BITS;
        if !fits || self.0 == 0 || via.0 == 0 {
            return None;
        }
        Some(Self((self.0 ^ 1) << via.bits() ^ via.0))
    }

    /// Returns the rest of this path, relative to the node at `middle`.
    ///
    /// Returns `None` if the path does not lead through `middle`.
    #[must_use]
    pub const fn beyond(self, middle: Self) -> Option<Self> {
        if !self.leads_through(middle) {
            return None;
        }
        Some(Self(self.0 >> middle.bits()))
    }

    /// Returns whether the node at `middle` is on this path, including its end.
    ///
    /// Every path except the label 0 leads through its start, [`Label::SELF`].
    #[must_use]
    pub const fn leads_through(self, middle: Self) -> bool {
        let mask = (1 << middle.bits()) - 1;
        middle.0 != 0 && middle.0 <= self.0 && (self.0 ^ middle.0) & mask == 0
    }
}

/// Writes groups of four digits, as cjdns's tools print them: `0000.0000.0000.0153`.
impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let group = |shift: u32| self.0 >> shift & 0xffff;
        let (a, b, c, d) = (group(48), group(32), group(16), group(0));
        write!(f, "{a:04x}.{b:04x}.{c:04x}.{d:04x}")
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads four groups of four hexadecimal digits, separated by dots.
impl FromStr for Label {
    type Err = ParseLabelError;

    fn from_str(text: &str) -> Result<Self, ParseLabelError> {
        let mut label = 0;
        let mut groups = 0;
        for group in text.split('.') {
            groups += 1;
            let digits = group.len() == 4 && group.bytes().all(|digit| digit.is_ascii_hexdigit());
            if groups > 4 || !digits {
                return Err(ParseLabelError { group: groups });
            }
            let value = u64::from_str_radix(group, 16).unwrap_or_default();
            label = label << 16 | value;
        }
        match groups {
            4 => Ok(Self(label)),
            _ => Err(ParseLabelError { group: groups + 1 }),
        }
    }
}

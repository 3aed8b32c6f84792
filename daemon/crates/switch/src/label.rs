//! Labels: where a frame still has to go, and, reversed, how to answer it.

use core::fmt;
use core::str::FromStr;

use crate::error::ParseLabelError;

/// The most bits of directors that a label may hold when two are spliced.
///
/// The remaining ones keep the way ahead and the way back apart.
pub const MAX_LABEL_BITS: u32 = 59;

/// The way to a node, relative to the switch at which it begins.
///
/// The highest bit that is set ends it; below stand the directors, the first
/// one lowest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u64);

impl Label {
    /// The way to oneself: no director, only the end.
    pub const SELF: Self = Self(1);

    /// The way back: what a receiver makes of the label with which a frame arrived.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self(self.0.reverse_bits())
    }

    /// How many bits of directors it holds: 0 to 63; 0 too for the label 0, which leads nowhere.
    #[must_use]
    pub const fn bits(self) -> u32 {
        (self.0 | 1).ilog2()
    }

    /// The way that goes first to `via` and from there on by this label.
    ///
    /// `None` when the label would be longer than [`MAX_LABEL_BITS`], or one of
    /// the two is 0.
    #[must_use]
    pub const fn after(self, via: Self) -> Option<Self> {
        let fits = self.bits() + via.bits() <= MAX_LABEL_BITS;
        if !fits || self.0 == 0 || via.0 == 0 {
            return None;
        }
        Some(Self((self.0 ^ 1) << via.bits() ^ via.0))
    }

    /// The rest of this way, as the node at `middle` has to write it.
    ///
    /// `None` when the way does not lead through `middle`.
    #[must_use]
    pub const fn beyond(self, middle: Self) -> Option<Self> {
        if !self.leads_through(middle) {
            return None;
        }
        Some(Self(self.0 >> middle.bits()))
    }

    /// Whether the node at `middle` stands on this way, its end included.
    ///
    /// Every way but the label 0 leads through its beginning, [`Label::SELF`].
    #[must_use]
    pub const fn leads_through(self, middle: Self) -> bool {
        let mask = (1 << middle.bits()) - 1;
        middle.0 != 0 && middle.0 <= self.0 && (self.0 ^ middle.0) & mask == 0
    }
}

/// In groups of four digits, as cjdns's tools print it: `0000.0000.0000.0153`.
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

/// Four groups of four hexadecimal digits, separated by dots.
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

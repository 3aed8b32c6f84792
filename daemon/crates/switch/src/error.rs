//! What can be wrong with a frame, and with what it says.

use core::fmt;

/// Why a frame is not forwarded: count and drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The frame ends inside its header.
    Runt,
    /// The label names an interface that does not exist.
    NoInterface,
    /// The director of the interface that the frame came by does not fit
    /// where the one that it leaves by was.
    SourceTooLong,
    /// The same with a frame to this node's router.
    NoReturnPath,
    /// The frame has passed too many switches: a loop, or a label that was never valid.
    TooFar,
}

/// The code of an ERROR frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// The label leads nowhere.
    pub const MALFORMED_ADDRESS: Self = Self(1);
    /// A link is congested.
    pub const FLOOD: Self = Self(2);
    /// The frame is too long for a link.
    pub const OVERSIZE: Self = Self(4);
    /// The frame is too short.
    pub const RUNT: Self = Self(5);
    /// Its authentication failed.
    pub const AUTHENTICATION: Self = Self(6);
    /// Its header or checksum is wrong.
    pub const INVALID: Self = Self(7);
    /// It could not be sent, by no fault of the sender.
    pub const UNDELIVERABLE: Self = Self(8);
    /// It would leave by the interface that it came by.
    pub const LOOP: Self = Self(9);
    /// There is no room in its label for the way back.
    pub const RETURN_PATH_INVALID: Self = Self(10);
    /// It is of a kind that the node does not handle.
    pub const UNHANDLED: Self = Self(11);
    /// An internal fault.
    pub const INTERNAL: Self = Self(13);

    /// Its name; "unknown" for what no node is known to send.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MALFORMED_ADDRESS => "malformed address",
            Self::FLOOD => "flood",
            Self::OVERSIZE => "oversize",
            Self::RUNT => "runt",
            Self::AUTHENTICATION => "authentication",
            Self::INVALID => "invalid",
            Self::UNDELIVERABLE => "undeliverable",
            Self::LOOP => "loop",
            Self::RETURN_PATH_INVALID => "return path invalid",
            Self::UNHANDLED => "unhandled",
            Self::INTERNAL => "internal",
            _ => "unknown",
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

/// Why a control frame is refused: count and drop. Encoding knows `Truncated`
/// (the buffer is too short) and `Opaque` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// It ends inside a field.
    Truncated,
    /// The checksum does not match; the value is what it should have added up to 0 with.
    Checksum(u16),
    /// A type that nobody sends.
    Type(u16),
    /// The magic number is not that of its type.
    Magic(u32),
    /// The opaque octets are too many; the value is their number.
    Opaque(usize),
    /// A link address of unknown type, or whose length is not that of its type.
    LinkAddress {
        /// The type octet.
        typ: u8,
        /// The length octet.
        length: u8,
    },
}

/// Why a serialised encoding scheme is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeError {
    /// No form at all, or the octets end inside one, or are too many.
    Length(usize),
    /// More than [`crate::MAX_FORMS`] forms.
    Forms(usize),
    /// The form of that index has no data bits, or a prefix where the only form
    /// must have none or one of several must have one.
    Form(usize),
    /// The form of that index is not longer than the one before.
    Order(usize),
    /// The form of that index cannot be told from another one by its prefix.
    Ambiguous(usize),
}

/// Text that is no label: the number, from 1, of the first group that is not
/// four hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLabelError {
    /// The group.
    pub group: usize,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Runt => "shorter than its header",
            Self::NoInterface => "no such interface",
            Self::SourceTooLong => "no room for the way back through this switch",
            Self::NoReturnPath => "no room for the way back from this router",
            Self::TooFar => "passed too many switches",
        })
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "control frame ends inside a field"),
            Self::Checksum(rest) => write!(f, "control frame: checksum is off by {rest:#06x}"),
            Self::Type(typ) => write!(f, "control frame: unknown type {typ}, allowed are 2 to 12"),
            Self::Magic(magic) => write!(f, "control frame: wrong magic number {magic:#010x}"),
            Self::Opaque(length) => write!(f, "control frame: {length} opaque octets are too many"),
            Self::LinkAddress { typ, length } => {
                write!(
                    f,
                    "control frame: link address of type {typ} with length {length}"
                )
            }
        }
    }
}

impl fmt::Display for SchemeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Length(length) => {
                write!(f, "encoding scheme: {length} octets are not whole forms")
            }
            Self::Forms(forms) => write!(
                f,
                "encoding scheme: {forms} forms, allowed are {}",
                crate::MAX_FORMS
            ),
            Self::Form(index) => write!(f, "encoding scheme: form {index} is invalid"),
            Self::Order(index) => write!(
                f,
                "encoding scheme: form {index} is not longer than the one before"
            ),
            Self::Ambiguous(index) => write!(
                f,
                "encoding scheme: form {index} cannot be told from another"
            ),
        }
    }
}

impl fmt::Display for ParseLabelError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "label: group {} of 4 is not four hexadecimal digits",
            self.group
        )
    }
}

impl core::error::Error for Refusal {}
impl core::error::Error for ControlError {}
impl core::error::Error for SchemeError {}
impl core::error::Error for ParseLabelError {}

//! Errors in frames, control frames, encoding schemes and labels.

use core::fmt;

/// Why a frame is not forwarded. The switch counts and drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The frame ends inside its header.
    Runt,
    /// The label names an interface that does not exist.
    NoInterface,
    /// The director of the interface on which the frame arrived does not fit in place of the director by which it
    /// leaves.
    SourceTooLong,
    /// The same for a frame to this node's router.
    NoReturnPath,
    /// The frame has passed too many switches, because of a loop or a label that was never valid.
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
    /// The authentication failed.
    pub const AUTHENTICATION: Self = Self(6);
    /// The header or the checksum is wrong.
    pub const INVALID: Self = Self(7);
    /// The frame could not be sent, through no fault of the sender.
    pub const UNDELIVERABLE: Self = Self(8);
    /// The frame would leave through the interface on which it arrived.
    pub const LOOP: Self = Self(9);
    /// The label has no space for the path back.
    pub const RETURN_PATH_INVALID: Self = Self(10);
    /// The node does not handle frames of this kind.
    pub const UNHANDLED: Self = Self(11);
    /// An internal fault.
    pub const INTERNAL: Self = Self(13);

    /// Returns the name, "unknown" for a code that no known node sends.
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

/// Why a control frame is refused. The receiver counts and drops it. Encoding returns only `Truncated` (the buffer is
/// too short) and `Opaque`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// The frame ends inside a field.
    Truncated,
    /// The checksum is wrong. The value is the checksum of all octets, which should be 0.
    Checksum(u16),
    /// No message has this type.
    Type(u16),
    /// This magic number is not that of the type.
    Magic(u32),
    /// There are this many opaque octets, which is too many.
    Opaque(usize),
    /// A link address has an unknown type, or a length that its type does not have.
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
    /// There are no forms, the octets end inside one, or this number of octets is too large.
    Length(usize),
    /// There are this many forms, more than [`crate::MAX_FORMS`].
    Forms(usize),
    /// The form with this index has no data bits. Or it is the only form and has a prefix, or it is one of several and
    /// has none.
    Form(usize),
    /// The form with this index is not longer than the one before.
    Order(usize),
    /// The prefix of the form with this index does not distinguish it from another form.
    Ambiguous(usize),
}

/// The text is not a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLabelError {
    /// Number, from 1, of the first group that is not four hexadecimal digits.
    pub group: usize,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Runt => "shorter than its header",
            Self::NoInterface => "no such interface",
            Self::SourceTooLong => "no space in the label for the path back through this switch",
            Self::NoReturnPath => "no space in the label for the path back from this router",
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
                "encoding scheme: form {index} cannot be distinguished from another"
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

//! Forwarding, and the frame that tells a sender why it did not happen.

use crate::control::Control;
use crate::director::{compress, decompress, Form};
use crate::header::{Handle, Header};
use crate::interfaces::{Interface, Interfaces};
use crate::{ErrorCode, Label, Refusal};

/// How much of a frame its error frame carries back, in octets, header included.
const MAX_CAUSE: usize = 256;

/// Header, handle, and the checksum, type and code of an ERROR.
const BEFORE_CAUSE: usize = Header::LEN + Handle::LEN + 8;

/// The length in octets of the longest error frame.
pub const MAX_ERROR_FRAME: usize = BEFORE_CAUSE + MAX_CAUSE;

/// Forwards a frame that came in by `source`: rewrites its header in place and
/// tells by which interface it has to leave. Its content is not looked at.
///
/// # Errors
///
/// Why it cannot be forwarded; the frame is unchanged then. [`error_frame`]
/// makes what is to be sent back.
#[inline]
pub fn forward(
    interfaces: &Interfaces,
    source: Interface,
    frame: &mut [u8],
) -> Result<Interface, Refusal> {
    let octets = frame
        .first_chunk_mut::<{ Header::LEN }>()
        .ok_or(Refusal::Runt)?;
    let mut header = Header::from(&*octets);
    let label = header.label;
    let destination = decompress(label);
    let form = form_of_transit(label, source, destination)?;
    // Always there: `form_of_transit` chose a form that the source fits.
    let back = compress(source, form).ok_or(Refusal::SourceTooLong)?;
    if !interfaces.contains(destination) {
        return Err(Refusal::NoInterface);
    }
    let shift = u32::from(header.shift) + form.bits();
    if shift > 63 {
        return Err(Refusal::TooFar);
    }
    header.label = Label(label.0 >> form.bits() | back.reverse_bits());
    header.shift = shift as u8;
    header.traffic_class = 0xffff;
    *octets = header.encode();
    Ok(destination)
}

/// With how many bits a frame passes this switch: those of its director.
///
/// A node that writes to this router does not know how long its own interface's
/// director is here. When that one is longer, the router's 0001 may be
/// taken as long, if nothing follows that it would swallow.
fn form_of_transit(
    label: Label,
    source: Interface,
    destination: Interface,
) -> Result<Form, Refusal> {
    let (form, needed) = (Form::of_label(label), Form::of_interface(source));
    if needed <= form {
        return Ok(form);
    }
    if destination != Interface::ROUTER {
        return Err(Refusal::SourceTooLong);
    }
    let swallowed = (1 << (needed.bits() + 4)) - 1;
    match (label.0 ^ 1) & swallowed {
        0 => Ok(needed),
        _ => Err(Refusal::NoReturnPath),
    }
}

/// Writes the error frame for a frame that was refused, and returns its length
/// in octets. It has to leave by the interface by which the frame came in.
///
/// `None` when there is nothing to be sent: the frame asked for silence, as
/// error frames do, it is too short, or nobody is to be told of that refusal.
pub fn error_frame(
    refusal: Refusal,
    frame: &[u8],
    out: &mut [u8; MAX_ERROR_FRAME],
) -> Option<usize> {
    refused_frame(refusal.code()?, frame, out)
}

/// The same for any code: for a frame that was forwarded, but that its receiver could not take. It has to be forwarded
/// from the router.
pub fn refused_frame(
    code: ErrorCode,
    frame: &[u8],
    out: &mut [u8; MAX_ERROR_FRAME],
) -> Option<usize> {
    let (cause, content) = Header::decode(frame).ok()?;
    let (handle, rest) = content.split_first_chunk()?;
    if cause.suppress_errors {
        return None;
    }
    let header = Header {
        suppress_errors: true,
        // Not 0: that is how a switch of long ago, which knew no congestion, is told apart.
        congestion: 1,
        ..Header::new(cause.label.reversed())
    };
    let error = Control::Error {
        code,
        cause,
        handle: u32::from_be_bytes(*handle),
        rest: &rest[..rest.len().min(MAX_CAUSE - Header::LEN - Handle::LEN)],
    };
    let (head, body) = out.split_first_chunk_mut()?;
    *head = header.encode();
    let (number, body) = body.split_first_chunk_mut()?;
    *number = Handle::Control.number().to_be_bytes();
    let length = error.encode(body).ok()?;
    Some(Header::LEN + Handle::LEN + length)
}

impl Refusal {
    /// What the sender is told, if he is.
    #[must_use]
    pub const fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Runt | Self::TooFar => None,
            Self::NoInterface | Self::SourceTooLong => Some(ErrorCode::MALFORMED_ADDRESS),
            Self::NoReturnPath => Some(ErrorCode::RETURN_PATH_INVALID),
        }
    }
}

//! Forwards frames, and writes the error frame for a frame that cannot be forwarded.

use crate::control::Control;
use crate::director::{compress, decompress, Form};
use crate::header::{Handle, Header};
use crate::interfaces::{Interface, Interfaces};
use crate::{ErrorCode, Label, Refusal};

/// Octets of a refused frame, including its header, that the error frame returns to the sender.
const MAX_CAUSE: usize = 256;

/// Octets of the header, the handle, and the checksum, type and code of an ERROR.
const BEFORE_CAUSE: usize = Header::LEN + Handle::LEN + 8;

/// Length in octets of the longest error frame.
pub const MAX_ERROR_FRAME: usize = BEFORE_CAUSE + MAX_CAUSE;

/// Forwards a frame that arrived on `source`: rewrites its header in place, and returns the interface through which it
/// must be sent. The content is not examined.
///
/// # Errors
///
/// Why it cannot be forwarded. The frame is unchanged then, and [`error_frame`] writes what must be sent back.
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
    // Never fails: `form_of_transit` chose a form in which the source can be expressed.
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

/// Returns the form in which a frame passes this switch. Its length is that of the frame's director.
///
/// A node that writes to this router does not know how long the director of its own interface is here. If that is
/// longer than the router's 0001, the router's director may count as equally long, provided that the label ends there.
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

/// Writes the error frame for a frame that was refused. Returns its length in octets. It must be sent on the interface
/// on which the frame arrived.
///
/// Returns `None` if no error frame is sent: the frame suppresses errors, as error frames do, it is too short, or the
/// refusal has no error code.
pub fn error_frame(
    refusal: Refusal,
    frame: &[u8],
    out: &mut [u8; MAX_ERROR_FRAME],
) -> Option<usize> {
    refused_frame(refusal.code()?, frame, out)
}

/// Writes the error frame with any code, for a frame that was forwarded but that the receiver could not handle. It must
/// be forwarded from the router.
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
        // Not 0, because that identifies an old switch without congestion control.
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
    /// Returns the code that is sent to the sender, if the sender is informed.
    #[must_use]
    pub const fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Runt | Self::TooFar => None,
            Self::NoInterface | Self::SourceTooLong => Some(ErrorCode::MALFORMED_ADDRESS),
            Self::NoReturnPath => Some(ErrorCode::RETURN_PATH_INVALID),
        }
    }
}

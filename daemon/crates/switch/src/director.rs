//! The encoding scheme v3x5x8, in which this switch writes directors.
//!
//! | form | bits | suffix | value v is interface |
//! |---|---|---|---|
//! | short | 4 | `1` | v, but 0 is interface 1 and 1 is interface 0 |
//! | middle | 7 | `10` | v + 1, but 0 is interface 0 |
//! | long | 10 | `00` | v + 1, but 0 is interface 0 |
//!
//! This node's own router, interface 1, has only the short form, 0001.

use crate::interfaces::Interface;
use crate::label::{Label, MAX_LABEL_BITS};

/// The forms of a director, shortest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// 4 bits: interfaces 0 to 7.
    Short,
    /// 7 bits: interfaces 0 to 32 except the router.
    Middle,
    /// 10 bits: every interface except the router.
    Long,
}

impl Form {
    /// Returns the form of the first director of a label.
    #[must_use]
    pub const fn of_label(label: Label) -> Self {
        match label.0 & 3 {
            1 | 3 => Self::Short,
            2 => Self::Middle,
            _ => Self::Long,
        }
    }

    /// Returns the shortest form that can express an interface.
    #[must_use]
    pub const fn of_interface(interface: Interface) -> Self {
        match interface.number() {
            0..8 => Self::Short,
            8..33 => Self::Middle,
            _ => Self::Long,
        }
    }

    /// Returns the length of a director in this form, in bits, including the suffix.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Short => 4,
            Self::Middle => 7,
            Self::Long => 10,
        }
    }

    /// Returns the index of the form in the serialised scheme. It is the `ei` of DHT messages.
    #[must_use]
    pub const fn index(self) -> u8 {
        self as u8
    }
}

impl Label {
    /// Returns the start of this path, up to the first neighbour.
    ///
    /// [`Label::SELF`] and the label 0 are returned unchanged.
    #[must_use]
    pub const fn first_hop(self) -> Self {
        if self.0 <= Self::SELF.0 {
            return self;
        }
        let end = 1 << Form::of_label(self).bits();
        Self(self.0 & (end - 1) | end)
    }
}

/// Returns the interface that the first director of a label names.
#[must_use]
pub const fn decompress(label: Label) -> Interface {
    let number = match Form::of_label(label) {
        Form::Short => match label.0 >> 1 & 7 {
            0 => 1,
            1 => 0,
            number => number,
        },
        Form::Middle => skip_router(label.0 >> 2 & 31),
        Form::Long => skip_router(label.0 >> 2 & 255),
    };
    Interface::from_director(number as u16)
}

const fn skip_router(value: u64) -> u64 {
    value + (value > 0) as u64
}

/// Returns the director for an interface in a form, or `None` if the form is too short for it.
///
/// The router's director is 0001 in every form; zeros fill the longer ones.
#[must_use]
pub const fn compress(interface: Interface, form: Form) -> Option<u64> {
    if (form as u8) < Form::of_interface(interface) as u8 {
        return None;
    }
    let number = interface.number() as u64;
    Some(match (form, number) {
        (_, 1) => 1,
        (Form::Short, 0) => 3,
        (Form::Short, number) => number << 1 | 1,
        (Form::Middle, number) => number.saturating_sub(1) << 2 | 2,
        (Form::Long, number) => number.saturating_sub(1) << 2,
    })
}

/// Returns the shortest label that leads to the neighbour behind an interface.
///
/// ```
/// use switch::{peer_label, Interface, Label};
///
/// assert_eq!(peer_label(Interface::new(0).unwrap()), Label(0x13));
/// assert_eq!(peer_label(Interface::ROUTER), Label(0x11));
/// ```
#[must_use]
pub const fn peer_label(interface: Interface) -> Label {
    let form = Form::of_interface(interface);
    match compress(interface, form) {
        Some(director) => Label(director | 1 << form.bits()),
        None => Label(0),
    }
}

/// Returns this node's path `target` in the form in which another node may use it. `asker` is the first hop of the path
/// from this node to that node.
///
/// A frame from an interface with a long director must leave through one that is at least as long, so that the path
/// back fits into the label. Returns `None` if that makes the label too long.
#[must_use]
pub const fn label_for(target: Label, asker: Label) -> Option<Label> {
    let (from, to) = (Form::of_label(asker), Form::of_label(target));
    if target.0 <= Label::SELF.0 || from as u8 <= to as u8 {
        return Some(target);
    }
    let rest = Label(target.0 >> to.bits());
    match compress(decompress(target), from) {
        Some(director) if rest.bits() + from.bits() <= MAX_LABEL_BITS => {
            Some(Label(rest.0 << from.bits() | director))
        }
        _ => None,
    }
}

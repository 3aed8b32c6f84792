//! What the far end of a link says of it (docs/adr/0050).

use rfc5444::Metric;

/// What a router says of the link from another one to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It tells all its neighbours, and the other router is none of them.
    Denied,
    /// It tells nothing that decides.
    Silent,
    /// It tells the link, and with what metric it hears the other router if it says so.
    Confirmed(Option<Metric>),
}

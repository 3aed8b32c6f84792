//! What the far end of a link reports about it (docs/development/adr/0050).

use rfc5444::Metric;

/// What a router reports about the link from another router to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It lists all its neighbours, and the other router is not among them.
    Denied,
    /// It reports nothing that decides.
    Silent,
    /// It lists the link, perhaps with the metric at which it hears the other router.
    Confirmed(Option<Metric>),
}

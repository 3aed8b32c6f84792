//! Counts the requests of a server by their result.

/// The number of requests by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were carried out or passed to another node, and requests for a cookie.
    pub taken: u64,
    /// Datagrams that are not a request; they are not answered.
    pub malformed: u64,
    /// Datagrams with more values or deeper nesting than a request can have: bencode that is small on the wire and
    /// large in memory. They are decoded only up to the limit, and are not answered.
    pub bomb: u64,
    /// Requests that are too long.
    pub oversize: u64,
    /// Requests with a wrong hash or an old cookie.
    pub unauthenticated: u64,
    /// Unauthenticated requests for a function that needs authentication.
    pub forbidden: u64,
    /// Requests for a function that does not exist.
    pub unknown: u64,
    /// Requests with wrong arguments, or that the router refuses.
    pub refused: u64,
    /// Questions that were not asked because too many were open.
    pub busy: u64,
    /// Answers and log lines that were not sent because too many were queued.
    pub lost: u64,
}

impl Counters {
    /// All counters at zero.
    pub(crate) const ZERO: Self = Self {
        taken: 0,
        malformed: 0,
        bomb: 0,
        oversize: 0,
        unauthenticated: 0,
        forbidden: 0,
        unknown: 0,
        refused: 0,
        busy: 0,
        lost: 0,
    };

    /// Returns every counter with its name.
    #[must_use]
    pub const fn all(&self) -> [(&'static str, u64); 10] {
        [
            ("taken", self.taken),
            ("malformed", self.malformed),
            ("bomb", self.bomb),
            ("oversize", self.oversize),
            ("unauthenticated", self.unauthenticated),
            ("forbidden", self.forbidden),
            ("unknown", self.unknown),
            ("refused", self.refused),
            ("busy", self.busy),
            ("lost", self.lost),
        ]
    }
}

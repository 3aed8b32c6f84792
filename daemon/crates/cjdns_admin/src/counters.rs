//! What came to a server, by what became of it.

/// What came in, by what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were carried out or asked of another node, and requests for a cookie.
    pub taken: u64,
    /// Datagrams that are no request; they are not answered.
    pub malformed: u64,
    /// Datagrams with more values, or more of them in each other, than a request can have: bencode that is small on the wire
    /// and large in memory. They are not answered, and were not decoded further than to the bound.
    pub bomb: u64,
    /// Requests that are too long.
    pub oversize: u64,
    /// Requests with a wrong hash or an old cookie.
    pub unauthenticated: u64,
    /// Requests for a function that needs authentication, without any.
    pub forbidden: u64,
    /// Requests for a function that does not exist.
    pub unknown: u64,
    /// Requests whose arguments are wrong, or that the router does not carry out.
    pub refused: u64,
    /// Questions that could not be asked because too many were open.
    pub busy: u64,
    /// Answers and log lines that were not sent because too many waited.
    pub lost: u64,
}

impl Counters {
    /// None yet.
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

    /// Every counter with its name.
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

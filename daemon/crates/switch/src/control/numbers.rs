//! Numbers of the control protocol.

/// Types of control frames.
pub(super) mod typ {
    pub const ERROR: u16 = 2;
    pub const PING: u16 = 3;
    pub const PONG: u16 = 4;
    pub const KEY_PING: u16 = 5;
    pub const KEY_PONG: u16 = 6;
    pub const SNODE_QUERY: u16 = 7;
    pub const SNODE_REPLY: u16 = 8;
    pub const RPATH_QUERY: u16 = 9;
    pub const RPATH_REPLY: u16 = 10;
    pub const LINK_QUERY: u16 = 11;
    pub const LINK_REPLY: u16 = 12;
}

/// The first octets of a body, by its type.
pub(super) mod magic {
    pub const PING: u32 = 0x09f9_1102;
    pub const PONG: u32 = 0x9d74_e35b;
    pub const KEY_PING: u32 = 0x0123_4567;
    pub const KEY_PONG: u32 = 0x89ab_cdef;
    /// `snoq`, also used by RPATH.
    pub const QUERY: u32 = 0x736e_6f71;
    /// `snor`, also used by RPATH.
    pub const REPLY: u32 = 0x736e_6f72;
    /// `llaq`
    pub const LINK_QUERY: u32 = 0x6c6c_6171;
    /// `llar`
    pub const LINK_REPLY: u32 = 0x6c6c_6172;
}

/// For each kind of link address: its type, its length (including both of these octets), and the octets of the whole
/// field.
pub(super) mod link {
    pub const UDP4: (u8, u8) = (1, 8);
    pub const UDP6: (u8, u8) = (2, 20);
    pub const OTHER: (u8, u8) = (3, 32);
    pub const LEN: usize = 32;
}

//! The messages of mac80211_hwsim's generic netlink family.
//!
//! A frame that misses something, or that is too short to be one, is no frame; nothing panics.

use netlinkkit::{attributes, u32_of, u64_of, Message};

/// A hardware address.
pub type Mac = [u8; 6];

/// The name of the family.
pub const FAMILY: &[u8] = b"MAC80211_HWSIM";
/// Rows of the rate table of a frame (IEEE80211_TX_MAX_RATES).
pub const ROWS: usize = 4;
/// The frame was acknowledged (HWSIM_TX_STAT_ACK), and it asks for no acknowledgement (HWSIM_TX_CTL_NO_ACK).
pub const STAT_ACK: u32 = 1 << 2;
pub const NO_ACK: u32 = 1 << 1;
/// Flags of a rate.
pub const RTS: u16 = 1;
pub const SHORT_PREAMBLE: u16 = 1 << 2;
pub const MCS: u16 = 1 << 3;
pub const WIDE: u16 = 1 << 5;
pub const SHORT_GI: u16 = 1 << 7;
pub const VHT: u16 = 1 << 8;

const CMD_REGISTER: u8 = 1;
const CMD_FRAME: u8 = 2;
const CMD_TX_INFO_FRAME: u8 = 3;
const CMD_ADD_MAC_ADDR: u8 = 7;
const CMD_DEL_MAC_ADDR: u8 = 8;
const ATTR_ADDR_RECEIVER: u16 = 1;
const ATTR_ADDR_TRANSMITTER: u16 = 2;
const ATTR_FRAME: u16 = 3;
const ATTR_FLAGS: u16 = 4;
const ATTR_RX_RATE: u16 = 5;
const ATTR_SIGNAL: u16 = 6;
const ATTR_TX_INFO: u16 = 7;
const ATTR_COOKIE: u16 = 8;
const ATTR_FREQ: u16 = 19;
const ATTR_TX_INFO_FLAGS: u16 = 21;
/// What distinguishes the second address of a radio, by which hwsim knows it, from its permanent one.
const SECOND_ADDRESS: u8 = 0x40;

/// A row of a rate table: so many attempts at this rate. A negative index ends the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the rate in its band, or the HT scheme.
    pub index: i8,
    /// Number of attempts.
    pub count: u8,
    /// Flags of the rate.
    pub flags: u16,
}

/// The end of a table.
pub const NO_ROW: Row = Row {
    index: -1,
    count: 0,
    flags: 0,
};

/// A frame that a radio sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The permanent address of the radio.
    pub radio: Mac,
    /// The frame from its frame control field on, without check sequence.
    pub octets: Vec<u8>,
    /// Flags of the transmission.
    pub flags: u32,
    /// The rates to try.
    pub rows: [Row; ROWS],
    /// The kernel's name for it.
    pub cookie: u64,
    /// Frequency in MHz.
    pub frequency: u32,
}

/// What the kernel tells the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A radio sends.
    Frame(Sent),
    /// A radio has got, or lost, a further address.
    Address {
        /// The permanent address of the radio.
        radio: Mac,
        /// The further address.
        address: Mac,
        /// Whether it has got it.
        added: bool,
    },
}

/// Returns what a message of the family says; `None` if it says nothing that concerns a medium.
pub fn read(message: &Message) -> Option<Told> {
    let (mut radio, mut address, mut octets) = (None, None, None);
    let (mut flags, mut cookie, mut frequency) = (0, None, 0);
    let (mut table, mut table_flags): (&[u8], &[u8]) = (&[], &[]);
    for (kind, value) in attributes(&message.attributes) {
        match kind {
            ATTR_ADDR_TRANSMITTER => radio = value.try_into().ok().map(permanent),
            ATTR_ADDR_RECEIVER => address = value.try_into().ok(),
            ATTR_FRAME => octets = Some(value),
            ATTR_FLAGS => flags = u32_of(value).unwrap_or(0),
            ATTR_COOKIE => cookie = u64_of(value),
            ATTR_FREQ => frequency = u32_of(value).unwrap_or(0),
            ATTR_TX_INFO => table = value,
            ATTR_TX_INFO_FLAGS => table_flags = value,
            _ => {}
        }
    }
    match message.command {
        CMD_FRAME => Some(Told::Frame(Sent {
            radio: radio?,
            octets: octets?.to_vec(),
            flags,
            rows: rows(table, table_flags),
            cookie: cookie?,
            frequency,
        })),
        CMD_ADD_MAC_ADDR | CMD_DEL_MAC_ADDR => Some(Told::Address {
            radio: radio?,
            address: address?,
            added: message.command == CMD_ADD_MAC_ADDR,
        }),
        _ => None,
    }
}

/// Asks for all frames from now on.
pub fn register(family: u16) -> Message {
    Message::new(family, CMD_REGISTER, &[])
}

/// Lets a radio receive a frame.
pub fn delivery(
    family: u16,
    radio: Mac,
    octets: &[u8],
    rate_index: u32,
    signal_dbm: i32,
    frequency: u32,
) -> Message {
    let radio = second(radio);
    let (rate, signal) = (rate_index.to_ne_bytes(), signal_dbm.to_ne_bytes());
    let frequency = frequency.to_ne_bytes();
    let found: [(u16, &[u8]); 5] = [
        (ATTR_ADDR_RECEIVER, &radio),
        (ATTR_FRAME, octets),
        (ATTR_RX_RATE, &rate),
        (ATTR_SIGNAL, &signal),
        (ATTR_FREQ, &frequency),
    ];
    Message::new(family, CMD_FRAME, &found)
}

/// Reports what became of a frame: `rows` are the attempts that were made.
pub fn report(
    family: u16,
    radio: Mac,
    cookie: u64,
    flags: u32,
    rows: &[Row; ROWS],
    signal_dbm: i32,
) -> Message {
    let radio = second(radio);
    let mut table = [0; 2 * ROWS];
    for (place, row) in table.chunks_exact_mut(2).zip(rows) {
        place.copy_from_slice(&[row.index.to_ne_bytes()[0], row.count]);
    }
    let (flags, signal, cookie) = (
        flags.to_ne_bytes(),
        signal_dbm.to_ne_bytes(),
        cookie.to_ne_bytes(),
    );
    let found: [(u16, &[u8]); 5] = [
        (ATTR_ADDR_TRANSMITTER, &radio),
        (ATTR_FLAGS, &flags),
        (ATTR_SIGNAL, &signal),
        (ATTR_TX_INFO, &table),
        (ATTR_COOKIE, &cookie),
    ];
    Message::new(family, CMD_TX_INFO_FRAME, &found)
}

/// Returns the rows of the two tables (struct hwsim_tx_rate, struct hwsim_tx_rate_flag), as far as they go.
fn rows(table: &[u8], flags: &[u8]) -> [Row; ROWS] {
    let mut found = [NO_ROW; ROWS];
    for (number, (row, pair)) in found.iter_mut().zip(table.chunks_exact(2)).enumerate() {
        row.index = i8::from_ne_bytes([pair[0]]);
        row.count = pair[1];
        if let Some(&[_, low, high]) = flags.get(3 * number..3 * number + 3) {
            row.flags = u16::from_ne_bytes([low, high]);
        }
    }
    found
}

fn permanent(mut address: Mac) -> Mac {
    address[0] &= !SECOND_ADDRESS;
    address
}

fn second(mut address: Mac) -> Mac {
    address[0] |= SECOND_ADDRESS;
    address
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_of_the_kernel_is_read() {
        let cookie = 7_u64.to_ne_bytes();
        let table: [u8; 8] = [7, 2, 4, 3, 0xff, 0, 0xff, 0];
        let mut table_flags = vec![7, 0, 0, 4, 0, 0];
        table_flags[1..3].copy_from_slice(&(MCS | RTS).to_ne_bytes());
        let (flags, frequency) = (1_u32.to_ne_bytes(), 2412_u32.to_ne_bytes());
        let found: [(u16, &[u8]); 7] = [
            (ATTR_ADDR_TRANSMITTER, &[0x42, 0, 0, 0, 1, 0]),
            (ATTR_FRAME, &[8, 0, 1]),
            (ATTR_FLAGS, &flags),
            (ATTR_FREQ, &frequency),
            (ATTR_TX_INFO, &table),
            (ATTR_TX_INFO_FLAGS, &table_flags),
            (ATTR_COOKIE, &cookie),
        ];
        let Some(Told::Frame(sent)) = read(&Message::new(30, CMD_FRAME, &found)) else {
            panic!("no frame");
        };
        assert_eq!(sent.radio, [2, 0, 0, 0, 1, 0]);
        assert_eq!((sent.cookie, sent.frequency, sent.flags), (7, 2412, 1));
        assert_eq!((sent.rows[0].index, sent.rows[0].count), (7, 2));
        assert_eq!(sent.rows[0].flags, MCS | RTS);
        assert_eq!(sent.rows[2].index, -1);
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(command in any::<u8>(), attributes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&Message { family: 1, command, attributes });
        }
    }
}

//! Texts that several functions share.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use cryptoauth::Address;
use overlay::Contact;
use switch::{Label, Scheme, PROTOCOL_VERSION};

use crate::answer::{Answer, Field};
use crate::router::{Page, Router};

/// Number of entries on a page of each list, as in cjdns, whose answers had to fit into small buffers.
pub const ENTRIES: Entries = Entries {
    interfaces: 6,
    peers: 6,
    nodes: 4,
    handles: 64,
    users: 16,
};

/// Number of entries on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// Of `InterfaceController_interfaces`.
    pub interfaces: usize,
    /// Of `InterfaceController_peerStats`.
    pub peers: usize,
    /// Of `NodeStore_dumpTable`.
    pub nodes: usize,
    /// Of `SessionManager_getHandles`.
    pub handles: usize,
    /// Of `AuthorizedPasswords_list`.
    pub users: usize,
}

/// Adds to an answer whether further pages follow.
pub(crate) fn with_more(answer: Answer, page: Page, total: usize) -> Answer {
    let more = page.first.saturating_add(page.size) < total;
    answer.with_some("more", more.then_some(1_u32))
}

pub(crate) fn received(received: &cryptoauth::Received) -> Answer {
    Answer::new()
        .with("duplicates", received.duplicate)
        .with("lostPackets", received.lost)
        .with("receivedOutOfRange", received.late)
}

pub(crate) const fn stage_name(stage: cryptoauth::Stage) -> &'static str {
    use cryptoauth::Stage;
    match stage {
        Stage::Init => "INIT",
        Stage::SentHello => "SENT_HELLO",
        Stage::ReceivedHello => "RECEIVED_HELLO",
        Stage::SentKey => "SENT_KEY",
        Stage::ReceivedKey => "RECEIVED_KEY",
        Stage::Established => "ESTABLISHED",
    }
}

pub(crate) fn own(router: &dyn Router) -> Contact {
    Contact {
        key: router.key(),
        path: Label::SELF,
        version: PROTOCOL_VERSION,
    }
}

/// Formats a node as existing tools read it: `v22.0000.0000.0000.0013.KEY.k`.
pub(crate) fn contact(contact: &Contact) -> Vec<u8> {
    let Contact { key, path, version } = contact;
    format!("v{version}.{path}.{key}").into_bytes()
}

/// Formats an address with all of its 32 digits.
pub(crate) fn address(address: Address) -> Vec<u8> {
    let pairs = address.octets().chunks_exact(2);
    let groups: Vec<_> = pairs
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    groups.join(":").into_bytes()
}

pub(crate) fn scheme(scheme: &Scheme) -> Field {
    let form = |form: &switch::SchemeForm| {
        let prefix = match form.prefix_bits {
            0 => Vec::new(),
            _ => prefix(form.prefix),
        };
        Answer::new()
            .with("bitCount", u32::from(form.bits))
            .with("prefix", prefix)
            .with("prefixLen", u32::from(form.prefix_bits))
    };
    scheme.forms().iter().map(form).collect()
}

/// Formats a number in hexadecimal digits, without leading zero bytes.
fn prefix(prefix: u32) -> Vec<u8> {
    let digits = 2 * (4 - (prefix | 1).leading_zeros() as usize / 8);
    format!("{prefix:0digits$x}").into_bytes()
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

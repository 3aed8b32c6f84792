//! What a router says of the counters that it has heard, in HELLOs and TCs.

use rfc5444::iana::address_tlv;
use rfc5444::{AddressEntry, Tlv};

use nhdp::{LinkId, NeighbourId};

use crate::extension::{newest_counter, Neighbours};
use crate::signatures::{quote, Quote};

/// Returns the counter of the last HELLO on a link, or of the newest one of a neighbour.
pub(crate) fn quoted(
    nhdp: &Neighbours,
    link: Option<LinkId>,
    neighbour: Option<NeighbourId>,
) -> Option<u64> {
    match (link.and_then(|id| nhdp.link(id)), neighbour) {
        (Some(link), _) => link.ext.counter,
        (None, Some(id)) => newest_counter(nhdp, id),
        (None, None) => None,
    }
}

/// Writes the low half of the counter that was heard last from a neighbour, if it signs (docs/development/adr/0092).
pub(crate) fn quote_tlv(counter: Option<u64>) -> Option<Tlv> {
    let value = quote(counter?).to_be_bytes();
    Some(Tlv::new(
        address_tlv::TIMESTAMP,
        icv::TIMESTAMP_EXTENSION,
        value,
    ))
}

/// Reads the quote of an address; `None` also when its length is wrong.
pub(crate) fn read_quote(entry: &AddressEntry) -> Option<Quote> {
    let tlv = entry.tlv(address_tlv::TIMESTAMP, icv::TIMESTAMP_EXTENSION)?;
    Some(Quote::from_be_bytes(tlv.value[..].try_into().ok()?))
}

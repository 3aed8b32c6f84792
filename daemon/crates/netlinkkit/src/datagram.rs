//! Splits a netlink datagram into messages.

use netlink_packet_core::{NetlinkBuffer, NetlinkDeserializable, NetlinkMessage};

/// Returns the messages of a datagram. A message that cannot be decoded (a newer kernel's attribute) is skipped.
pub fn messages<M: NetlinkDeserializable>(datagram: &[u8]) -> Vec<NetlinkMessage<M>> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Some((message, tail)) = split(rest) {
        match NetlinkMessage::<M>::deserialize(message) {
            Ok(message) => found.push(message),
            Err(error) => log::debug!("netlink: message passed over: {error}"),
        }
        rest = tail;
    }
    found
}

/// Returns the first message and the rest (aligned to 4 bytes).
fn split(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = NetlinkBuffer::new_checked(octets).ok()?.length() as usize;
    let message = octets.get(..length)?;
    let tail = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((message, tail))
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::RouteNetlinkMessage;

    use super::*;

    /// A NLMSG_DONE with sequence number 7.
    const DONE: [u8; 20] = [20, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_datagram_gives_its_messages_and_a_cut_one_those_that_are_whole() {
        let two = [DONE, DONE].concat();
        assert_eq!(messages::<RouteNetlinkMessage>(&two).len(), 2);
        for length in 0..two.len() {
            let whole = messages::<RouteNetlinkMessage>(&two[..length]);
            assert_eq!(whole.len(), length / DONE.len());
        }
    }

    #[test]
    fn a_message_that_cannot_be_decoded_is_passed_over() {
        let unknown = [
            20, 0, 0, 0, 0xff, 0xff, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let both = [unknown, DONE].concat();
        assert_eq!(messages::<RouteNetlinkMessage>(&both).len(), 1);
    }
}

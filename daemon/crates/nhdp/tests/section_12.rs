//! HELLO processing (RFC 6130, sections 12 to 14). Each test checks one rule.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use nhdp::{
    Family, Hello, HelloError, InterfaceId, Link, LinkStatus, Neighbourhood, Params, Rejected,
    Time, MAX_LOCAL_ADDRESSES,
};
use rfc5444::iana::{address_tlv, link_status, local_if, message, message_tlv, other_neighb};
use rfc5444::time::encode_time;
use rfc5444::{AddressEntry, Message, Prefix, Tlv};

const MESH: InterfaceId = InterfaceId(1);
const OTHER: InterfaceId = InterfaceId(2);
const VALIDITY: Duration = Duration::from_secs(6);
const HOLD: Duration = Duration::from_secs(6);
const START: Time = Time::from_secs(100);

fn address(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// A neighbourhood with address 1 on MESH and address 2 on OTHER.
fn neighbourhood() -> Neighbourhood<()> {
    let mut nhdp = Neighbourhood::new(Params {
        hold_time: HOLD,
        max_links: 8,
        max_two_hops: 8,
    });
    nhdp.set_interface(START, MESH, BTreeSet::from([address(1)]));
    nhdp.set_interface(START, OTHER, BTreeSet::from([address(2)]));
    nhdp.take_changes();
    nhdp
}

fn entry(n: u8, typ: u8, value: u8) -> AddressEntry {
    AddressEntry {
        prefix: Prefix::host(address(n)),
        tlvs: vec![Tlv::new(typ, 0, [value])],
    }
}

fn this_if(n: u8) -> AddressEntry {
    entry(n, address_tlv::LOCAL_IF, local_if::THIS_IF)
}

fn other_if(n: u8) -> AddressEntry {
    entry(n, address_tlv::LOCAL_IF, local_if::OTHER_IF)
}

fn heard(n: u8) -> AddressEntry {
    entry(n, address_tlv::LINK_STATUS, link_status::HEARD)
}

fn symmetric(n: u8) -> AddressEntry {
    entry(n, address_tlv::LINK_STATUS, link_status::SYMMETRIC)
}

fn lost(n: u8) -> AddressEntry {
    entry(n, address_tlv::LINK_STATUS, link_status::LOST)
}

fn other_symmetric(n: u8) -> AddressEntry {
    entry(n, address_tlv::OTHER_NEIGHB, other_neighb::SYMMETRIC)
}

fn other_lost(n: u8) -> AddressEntry {
    entry(n, address_tlv::OTHER_NEIGHB, other_neighb::LOST)
}

fn message(addresses: Vec<AddressEntry>) -> Message {
    let mut hello = Message::without_originator(message::HELLO, 4);
    hello.tlvs = vec![Tlv::new(
        message_tlv::VALIDITY_TIME,
        0,
        [encode_time(VALIDITY)],
    )];
    hello.addresses = addresses;
    hello
}

fn hello(addresses: Vec<AddressEntry>) -> Hello {
    Hello::read(&message(addresses)).unwrap()
}

fn receive(nhdp: &mut Neighbourhood<()>, now: Time, addresses: Vec<AddressEntry>) {
    nhdp.process(now, MESH, address(9), &hello(addresses))
        .unwrap();
}

/// A neighbour with symmetric links on both interfaces.
fn linked_twice() -> Neighbourhood<()> {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), other_if(8), heard(1)]);
    nhdp.process(
        START,
        OTHER,
        address(8),
        &hello(vec![this_if(8), other_if(9), heard(2)]),
    )
    .unwrap();
    nhdp
}

fn only_link(nhdp: &Neighbourhood<()>) -> &Link<()> {
    let links: Vec<_> = nhdp.links().map(|(_, link)| link).collect();
    let [link] = links[..] else {
        panic!("{} links", links.len())
    };
    link
}

fn status(nhdp: &Neighbourhood<()>) -> LinkStatus {
    only_link(nhdp).status
}

/// The LINK_STATUS and OTHER_NEIGHB of an address in the next HELLO on MESH.
fn announced(nhdp: &Neighbourhood<()>, n: u8) -> Vec<(u8, u8)> {
    let hello = nhdp.hello(MESH, Family::V4, VALIDITY, VALIDITY, |_, _, _| {});
    let entries = hello
        .addresses
        .iter()
        .filter(|entry| entry.prefix.addr == address(n));
    entries
        .flat_map(|entry| &entry.tlvs)
        .map(|tlv| (tlv.typ, tlv.value[0]))
        .collect()
}

#[test]
fn invalid_hellos_are_named() {
    let read = |change: &dyn Fn(&mut Message)| {
        let mut hello = message(vec![this_if(9)]);
        change(&mut hello);
        Hello::read(&hello)
    };
    let validity = || Tlv::new(message_tlv::VALIDITY_TIME, 0, [encode_time(VALIDITY)]);
    let interval = || Tlv::new(message_tlv::INTERVAL_TIME, 0, [encode_time(VALIDITY)]);
    assert!(read(&|_| {}).is_ok());
    assert!(read(&|m| (m.hop_limit, m.hop_count) = (Some(1), Some(0))).is_ok());
    assert_eq!(
        read(&|m| m.hop_limit = Some(2)),
        Err(HelloError::HopLimit(2))
    );
    assert_eq!(
        read(&|m| m.hop_limit = Some(0)),
        Err(HelloError::HopLimit(0))
    );
    assert_eq!(
        read(&|m| m.hop_count = Some(1)),
        Err(HelloError::HopCount(1))
    );
    assert_eq!(read(&|m| m.addr_len = 8), Err(HelloError::AddressLength(8)));
    assert_eq!(read(&|m| m.tlvs.clear()), Err(HelloError::ValidityTime));
    assert_eq!(
        read(&|m| m.tlvs.push(validity())),
        Err(HelloError::ValidityTime)
    );
    assert_eq!(
        read(&|m| m.tlvs.extend([interval(), interval()])),
        Err(HelloError::IntervalTime)
    );
    let with = |entry: AddressEntry| read(&|m| m.addresses.push(entry.clone()));
    assert_eq!(
        with(other_if(9)),
        Err(HelloError::Contradiction(address(9)))
    );
    assert_eq!(
        with(symmetric(9)),
        Err(HelloError::LocalAndNeighbour(address(9)))
    );
    assert_eq!(
        with(other_lost(9)),
        Err(HelloError::LocalAndNeighbour(address(9)))
    );
    let many = |m: &mut Message| {
        m.addresses
            .extend((100..100 + MAX_LOCAL_ADDRESSES as u8).map(other_if))
    };
    assert_eq!(
        read(&many),
        Err(HelloError::TooManyLocalAddresses(MAX_LOCAL_ADDRESSES + 1))
    );
}

#[test]
fn a_hello_with_an_own_address_is_refused() {
    let mut nhdp = neighbourhood();
    let refused = nhdp.process(
        START,
        MESH,
        address(9),
        &hello(vec![this_if(9), other_if(2)]),
    );
    assert_eq!(refused, Err(Rejected::OwnAddress(address(2))));
    assert_eq!((nhdp.links().count(), nhdp.neighbours().count()), (0, 0));
}

#[test]
fn a_hello_without_this_if_comes_from_its_source_address() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![]);
    assert_eq!(only_link(&nhdp).addresses, BTreeSet::from([address(9)]));
}

#[test]
fn a_neighbour_is_heard_then_symmetric_then_heard_no_more() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9)]);
    assert_eq!(status(&nhdp), LinkStatus::Heard);
    assert_eq!(
        announced(&nhdp, 9),
        [(address_tlv::LINK_STATUS, link_status::HEARD)]
    );
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    assert_eq!(status(&nhdp), LinkStatus::Symmetric);
    assert_eq!(
        announced(&nhdp, 9),
        [(address_tlv::LINK_STATUS, link_status::SYMMETRIC)]
    );

    let silent = START + VALIDITY;
    assert_eq!(nhdp.next_expiry(START), Some(silent));
    nhdp.expire(silent - Duration::from_nanos(1));
    assert_eq!(status(&nhdp), LinkStatus::Symmetric);
    nhdp.expire(silent);
    assert_eq!(status(&nhdp), LinkStatus::Lost);
    assert_eq!(
        announced(&nhdp, 9),
        [(address_tlv::LINK_STATUS, link_status::LOST)]
    );
    nhdp.expire(silent + HOLD);
    assert_eq!((nhdp.links().count(), nhdp.neighbours().count()), (0, 0));
    assert!(announced(&nhdp, 9).is_empty());
}

#[test]
fn being_heard_on_another_interface_does_not_make_a_link_symmetric() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), symmetric(2)]);
    assert_eq!(status(&nhdp), LinkStatus::Heard);
}

#[test]
fn a_neighbour_that_lost_us_ends_the_symmetry_at_once() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1), symmetric(20)]);
    assert_eq!(only_link(&nhdp).two_hops.len(), 1);
    nhdp.take_changes();
    receive(&mut nhdp, START, vec![this_if(9), lost(1)]);
    assert_eq!(status(&nhdp), LinkStatus::Heard);
    assert_eq!(only_link(&nhdp).two_hops.len(), 0);
    assert_eq!(nhdp.lost_neighbours().collect::<Vec<_>>(), [address(9)]);
    let changes = nhdp.take_changes();
    assert!(changes.links && changes.two_hops);
}

#[test]
fn a_hello_that_repeats_the_last_one_changes_nothing() {
    let mut nhdp = neighbourhood();
    let same = vec![this_if(9), other_if(8), symmetric(1), symmetric(20)];
    receive(&mut nhdp, START, same.clone());
    receive(&mut nhdp, START, same.clone());
    nhdp.take_changes();
    receive(&mut nhdp, START + Duration::from_secs(1), same);
    assert_eq!(nhdp.take_changes(), nhdp::Changes::default());
}

#[test]
fn the_link_layer_ends_a_link() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    assert!(!nhdp.neighbour_lost(START, OTHER, address(9)));
    assert!(nhdp.neighbour_lost(START, MESH, address(9)));
    assert_eq!(status(&nhdp), LinkStatus::Lost);
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    assert_eq!(
        status(&nhdp),
        LinkStatus::Symmetric,
        "a HELLO proves the link again"
    );
}

#[test]
fn a_link_of_bad_quality_is_lost_until_it_is_good_again() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    let id = nhdp.find_link(MESH, address(9)).unwrap();
    nhdp.set_link_usable(START, id, false);
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    assert_eq!(status(&nhdp), LinkStatus::Lost);
    nhdp.set_link_usable(START, id, true);
    assert_eq!(status(&nhdp), LinkStatus::Symmetric);
}

#[test]
fn an_interface_that_goes_takes_its_links_with_it() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    nhdp.remove_interface(START, MESH);
    assert_eq!((nhdp.links().count(), nhdp.neighbours().count()), (0, 0));
    assert_eq!(nhdp.lost_neighbours().collect::<Vec<_>>(), [address(9)]);
}

#[test]
fn two_links_to_one_neighbour_keep_it_symmetric_until_the_second_goes() {
    let mut nhdp = linked_twice();
    assert_eq!((nhdp.links().count(), nhdp.neighbours().count()), (2, 1));
    nhdp.neighbour_lost(START, MESH, address(9));
    assert!(nhdp.neighbours().all(|(_, neighbour)| neighbour.symmetric));
    let of_9 = [
        (address_tlv::LINK_STATUS, link_status::LOST),
        (address_tlv::OTHER_NEIGHB, other_neighb::SYMMETRIC),
    ];
    assert_eq!(announced(&nhdp, 9), of_9);
    nhdp.neighbour_lost(START, OTHER, address(8));
    assert!(nhdp.neighbours().all(|(_, neighbour)| !neighbour.symmetric));
    assert_eq!(
        announced(&nhdp, 8),
        [(address_tlv::OTHER_NEIGHB, other_neighb::LOST)]
    );
}

#[test]
fn neighbours_that_turn_out_to_be_one_are_merged() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    nhdp.process(START, OTHER, address(8), &hello(vec![this_if(8), heard(2)]))
        .unwrap();
    assert_eq!(nhdp.neighbours().count(), 2);
    receive(&mut nhdp, START, vec![this_if(9), other_if(8), heard(1)]);
    assert_eq!((nhdp.links().count(), nhdp.neighbours().count()), (2, 1));
    let (merged, _) = nhdp.neighbours().next().unwrap();
    assert!(nhdp.links().all(|(_, link)| link.neighbour == merged));
}

#[test]
fn a_link_goes_with_the_address_that_its_neighbour_gives_up() {
    let mut nhdp = linked_twice();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    assert_eq!(only_link(&nhdp).interface, MESH);
}

#[test]
fn a_link_follows_the_addresses_and_the_source_of_its_neighbour() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    nhdp.take_changes();
    nhdp.process(
        START,
        MESH,
        address(7),
        &hello(vec![this_if(7), this_if(9), heard(1)]),
    )
    .unwrap();
    let link = only_link(&nhdp);
    assert_eq!(
        (&link.addresses, link.source),
        (&BTreeSet::from([address(7), address(9)]), address(7))
    );
    assert!(nhdp.take_changes().links);
}

#[test]
fn an_address_that_a_neighbour_gives_up_is_lost() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), other_if(8), heard(1)]);
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    assert_eq!(nhdp.lost_neighbours().collect::<Vec<_>>(), [address(8)]);
    assert_eq!(
        announced(&nhdp, 8),
        [(address_tlv::OTHER_NEIGHB, other_neighb::LOST)]
    );
}

#[test]
fn a_neighbour_with_a_new_interface_address_keeps_one_link() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    receive(&mut nhdp, START, vec![this_if(9), this_if(7), heard(1)]);
    receive(&mut nhdp, START, vec![this_if(7), heard(1)]);
    assert_eq!(only_link(&nhdp).addresses, BTreeSet::from([address(7)]));
    assert_eq!(nhdp.neighbours().count(), 1);
}

#[test]
fn two_hop_neighbours_come_and_go_as_the_neighbour_says() {
    let mut nhdp = neighbourhood();
    receive(
        &mut nhdp,
        START,
        vec![
            this_if(9),
            heard(1),
            symmetric(20),
            other_symmetric(21),
            heard(22),
        ],
    );
    let two_hops =
        |nhdp: &Neighbourhood<()>| only_link(nhdp).two_hops.keys().copied().collect::<Vec<_>>();
    assert_eq!(two_hops(&nhdp), [address(20), address(21)]);
    receive(
        &mut nhdp,
        START,
        vec![this_if(9), heard(1), lost(20), other_lost(21)],
    );
    assert!(two_hops(&nhdp).is_empty());
    receive(&mut nhdp, START, vec![this_if(9), heard(1), symmetric(20)]);
    receive(
        &mut nhdp,
        START + Duration::from_secs(3),
        vec![this_if(9), heard(1)],
    );
    nhdp.expire(START + VALIDITY);
    assert!(two_hops(&nhdp).is_empty(), "what is not repeated expires");
}

#[test]
fn own_addresses_are_no_two_hop_neighbours_even_when_just_given_up() {
    let mut nhdp = neighbourhood();
    nhdp.set_interface(START, OTHER, BTreeSet::from([address(3)]));
    receive(
        &mut nhdp,
        START,
        vec![this_if(9), heard(1), other_symmetric(2), other_symmetric(3)],
    );
    assert_eq!(only_link(&nhdp).two_hops.len(), 0);
    nhdp.expire(START + HOLD);
    receive(
        &mut nhdp,
        START + HOLD,
        vec![this_if(9), heard(1), other_symmetric(2)],
    );
    assert_eq!(only_link(&nhdp).two_hops.len(), 1);
}

#[test]
fn two_hop_neighbours_stop_at_the_limit() {
    let mut nhdp = neighbourhood();
    let many = (20..40).map(symmetric);
    receive(
        &mut nhdp,
        START,
        [this_if(9), heard(1)].into_iter().chain(many).collect(),
    );
    assert_eq!(only_link(&nhdp).two_hops.len(), 8);
    assert_eq!(nhdp.take_over_limit(), 12);
}

#[test]
fn a_hello_announces_all_own_addresses_once() {
    let mut nhdp = neighbourhood();
    nhdp.set_other_addresses(START, BTreeSet::from([address(1), address(50)]));
    assert_eq!(
        announced(&nhdp, 1),
        [(address_tlv::LOCAL_IF, local_if::THIS_IF)]
    );
    assert_eq!(
        announced(&nhdp, 2),
        [(address_tlv::LOCAL_IF, local_if::OTHER_IF)]
    );
    assert_eq!(
        announced(&nhdp, 50),
        [(address_tlv::LOCAL_IF, local_if::OTHER_IF)]
    );
}

#[test]
fn unspecified_values_are_passed_over() {
    let read = hello(vec![
        entry(8, address_tlv::LOCAL_IF, 2),
        entry(9, address_tlv::LOCAL_IF, local_if::UNSPECIFIED),
        entry(20, address_tlv::LINK_STATUS, link_status::UNSPECIFIED),
        entry(21, address_tlv::OTHER_NEIGHB, other_neighb::UNSPECIFIED),
        entry(22, address_tlv::LINK_STATUS, 3),
    ]);
    assert_eq!(read.local_addresses().count(), 0);
    assert!(read.neighbours.is_empty());
}

#[test]
fn excess_octets_are_ignored_and_absent_ones_are_0() {
    let with = |n, typ, value: &[u8]| AddressEntry {
        prefix: Prefix::host(address(n)),
        tlvs: vec![Tlv::new(typ, 0, value)],
    };
    let read = hello(vec![
        with(9, address_tlv::LOCAL_IF, &[]),
        with(8, address_tlv::LOCAL_IF, &[local_if::OTHER_IF, 7]),
        with(20, address_tlv::LINK_STATUS, &[link_status::HEARD, 1, 2]),
        with(21, address_tlv::LINK_STATUS, &[]),
        with(22, address_tlv::OTHER_NEIGHB, &[other_neighb::SYMMETRIC, 9]),
    ]);
    assert_eq!(read.this_interface, [address(9)]);
    assert_eq!(read.other_interfaces, [address(8)]);
    let said: Vec<_> = read
        .neighbours
        .iter()
        .map(|neighbour| (neighbour.link, neighbour.other_symmetric))
        .collect();
    let expected = [
        (Some(LinkStatus::Heard), None),
        (Some(LinkStatus::Lost), None),
        (None, Some(true)),
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_hello_with_an_address_that_was_ours_until_recently_is_refused() {
    let mut nhdp = neighbourhood();
    nhdp.set_interface(START, OTHER, BTreeSet::from([address(3)]));
    let claim = hello(vec![this_if(9), other_if(2)]);
    let refused = nhdp.process(START, MESH, address(9), &claim);
    assert_eq!(refused, Err(Rejected::OwnAddress(address(2))));
    nhdp.expire(START + HOLD);
    assert!(nhdp.process(START + HOLD, MESH, address(9), &claim).is_ok());
}

#[test]
fn a_hello_from_an_own_address_is_refused() {
    let mut nhdp = neighbourhood();
    let refused = nhdp.process(START, MESH, address(2), &hello(vec![]));
    assert_eq!(refused, Err(Rejected::OwnAddress(address(2))));
}

#[test]
fn an_address_that_becomes_ours_is_nobody_elses() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), other_if(8), heard(1)]);
    nhdp.process(
        START,
        MESH,
        address(7),
        &hello(vec![this_if(7), heard(1), symmetric(8)]),
    )
    .unwrap();
    assert_eq!((nhdp.links().count(), nhdp.neighbours().count()), (2, 2));
    nhdp.set_interface(START, OTHER, BTreeSet::from([address(2), address(8)]));
    assert_eq!(only_link(&nhdp).addresses, BTreeSet::from([address(7)]));
    assert!(only_link(&nhdp).two_hops.is_empty());
    assert_eq!(nhdp.neighbours().count(), 1);
    assert_eq!(
        nhdp.lost_neighbours().count(),
        0,
        "section 9.3 makes no lost neighbour"
    );
}

#[test]
fn an_address_that_was_lost_and_becomes_ours_is_lost_no_more() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), other_if(8), heard(1)]);
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    nhdp.set_other_addresses(START, BTreeSet::from([address(8)]));
    assert_eq!(nhdp.lost_neighbours().count(), 0);
    assert_eq!(
        announced(&nhdp, 8),
        [(address_tlv::LOCAL_IF, local_if::OTHER_IF)]
    );
}

#[test]
fn only_what_was_symmetric_is_lost_when_neighbours_merge() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), other_if(19), heard(1)]);
    nhdp.process(
        START,
        OTHER,
        address(8),
        &hello(vec![this_if(8), other_if(18)]),
    )
    .unwrap();
    receive(&mut nhdp, START, vec![this_if(9), other_if(8), heard(1)]);
    assert_eq!(nhdp.neighbours().count(), 1);
    assert_eq!(nhdp.lost_neighbours().collect::<Vec<_>>(), [address(19)]);
}

#[test]
fn a_pending_link_goes_when_it_is_heard_no_more() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![]);
    nhdp.neighbour_lost(START, MESH, address(9));
    let id = nhdp.find_link(MESH, address(9)).unwrap();
    nhdp.set_link_usable(START, id, false);
    assert_eq!(status(&nhdp), LinkStatus::Pending);
    let later = START + HOLD;
    receive(&mut nhdp, later, vec![]);
    nhdp.expire(later + VALIDITY);
    assert_eq!(nhdp.links().count(), 0, "it was never advertised");
}

#[test]
fn hold_times_move_with_their_parameter() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    nhdp.neighbour_lost(START, MESH, address(9));
    nhdp.set_params(Params {
        hold_time: 2 * HOLD,
        max_links: 8,
        max_two_hops: 8,
    });
    assert_eq!(only_link(&nhdp).expires, START + 2 * HOLD);
    nhdp.expire(START + HOLD);
    assert_eq!(nhdp.lost_neighbours().count(), 1);
    nhdp.expire(START + 2 * HOLD);
    assert_eq!(
        (nhdp.lost_neighbours().count(), nhdp.links().count()),
        (0, 0)
    );
}

#[test]
fn a_heard_link_matters_to_its_interface_and_a_symmetric_one_to_all() {
    let mut nhdp = neighbourhood();
    receive(&mut nhdp, START, vec![this_if(9)]);
    let changes = nhdp.take_changes();
    assert_eq!(
        (changes.neighbours, changes.statuses),
        (false, BTreeSet::from([MESH]))
    );
    receive(&mut nhdp, START, vec![this_if(9), heard(1)]);
    assert!(nhdp.take_changes().neighbours);
    nhdp.expire(START + VALIDITY);
    nhdp.take_changes();
    nhdp.expire(START + VALIDITY + HOLD);
    let changes = nhdp.take_changes();
    assert!(changes.links, "the lost link is gone");
    assert_eq!((changes.neighbours, changes.statuses.len()), (false, 0));
}

#[test]
fn a_prefix_is_no_interface_address() {
    let mut prefix = this_if(8);
    prefix.prefix = "10.0.0.0/24".parse().unwrap();
    assert_eq!(hello(vec![prefix, this_if(9)]).this_interface, [address(9)]);
}

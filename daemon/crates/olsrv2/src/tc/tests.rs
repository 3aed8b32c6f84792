use super::*;
use rfc5444::Packet;

fn content(addresses: u8) -> Content {
    let neighbours = (1..=addresses).map(|n| {
        let metric = Metric::new(u32::from(n) * 7).unwrap();
        (
            IpAddr::from([10, n, n, n]),
            NeighbourAddress {
                originator: true,
                routable: n % 2 == 0,
                metric,
                metric_in: (n % 3 == 0).then_some(metric),
            },
        )
    });
    let network = AttachedNetwork {
        distance: 3,
        metric: Metric::MIN,
    };
    Content {
        all: addresses % 2 == 0,
        neighbours: neighbours.collect(),
        attached: BTreeMap::from([("10.128.0.0/9".parse().unwrap(), network)]),
    }
}

fn round_trip(content: &Content, limit: usize) -> Vec<Tc> {
    let mut seq = 65534u16;
    let times = [Duration::from_secs(5), Duration::from_secs(15)];
    let messages = content.encode(
        [10, 0, 0, 1].into(),
        65535,
        times,
        limit,
        |_| None,
        || {
            seq = seq.wrapping_add(1);
            seq
        },
    );
    let read = |octets: Vec<u8>| Tc::read(&Message::decode(&octets).unwrap());
    let read = |octets| read(octets).unwrap().unwrap();
    messages.unwrap().into_iter().map(read).collect()
}

#[test]
fn a_complete_tc_carries_all() {
    let content = content(9);
    let [tc] = &round_trip(&content, 1200)[..] else {
        panic!("more than one message")
    };
    assert_eq!((tc.seq, tc.ansn, tc.complete), (65535, 65535, true));
    assert_eq!(tc.validity, Duration::from_secs(15));
    assert_eq!(tc.content.attached, content.attached);
    assert_eq!(tc.content.neighbours.len(), 9);
}

#[test]
fn a_tc_stays_complete_beyond_the_size_of_a_packet() {
    let content = content(200);
    assert!(!content.fits([10, 0, 0, 1].into(), 300));
    let [tc] = &round_trip(&content, 300)[..] else {
        panic!("more than one message")
    };
    assert!(tc.complete);
    assert!(tc.content.neighbours.keys().eq(content.neighbours.keys()));
}

#[test]
fn a_limit_is_kept_to_the_octet() {
    let content = content(20);
    let originator = [10, 0, 0, 1].into();
    let times = [Duration::from_secs(5); 2];
    let size = content
        .encode(originator, 1, times, 0, |_| None, || 1)
        .unwrap()[0]
        .len();
    assert!(content.fits(originator, size));
    assert!(!content.fits(originator, size - 1));
}

#[test]
fn what_exceeds_a_message_travels_in_incomplete_tcs() {
    let neighbours = (0..6000u128).map(|n| {
        let address = n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let neighbour = NeighbourAddress {
            originator: true,
            routable: false,
            metric: Metric::MIN,
            metric_in: Some(Metric::MAX),
        };
        (
            IpAddr::from((address >> 8 | 0xfd << 120).to_be_bytes()),
            neighbour,
        )
    });
    let content = Content {
        all: true,
        neighbours: neighbours.collect(),
        attached: BTreeMap::new(),
    };
    let times = [Duration::from_secs(5); 2];
    let messages = content
        .encode(IpAddr::from([0xfd; 16]), 7, times, 1200, |_| None, || 1)
        .unwrap();
    assert!(messages.iter().all(|message| message.len() <= 1200));
    let read = |octets: &Vec<u8>| Tc::read(&Message::decode(octets).unwrap());
    let mut all = BTreeMap::new();
    for tc in messages
        .iter()
        .map(|message| read(message).unwrap().unwrap())
    {
        assert!(!tc.complete && tc.ansn == 7);
        assert!(!tc.content.all, "nobody else's absence means anything");
        all.extend(tc.content.neighbours);
    }
    assert_eq!(all, content.neighbours);
}

#[test]
fn invalid_tcs_are_named() {
    let times = [Duration::from_secs(5), Duration::from_secs(15)];
    let octets = content(2)
        .encode([10, 0, 0, 1].into(), 1, times, 1200, |_| None, || 1)
        .unwrap();
    let valid = Message::decode(&octets[0]).unwrap();
    let with = |change: &dyn Fn(&mut Message)| {
        let mut message = valid.clone();
        change(&mut message);
        Tc::read(&message).unwrap_err()
    };
    assert_eq!(with(&|m| m.seq = None), TcError::Header);
    assert_eq!(with(&|m| m.originator = None), TcError::Header);
    let by_distance = |m: &mut Message| {
        m.hop_count = None;
        m.tlvs[0].value = [0x72, 3, 0x92].into();
    };
    assert_eq!(with(&by_distance), TcError::Header);
    assert_eq!(
        with(&|m| m.tlvs.push(m.tlvs[1].clone())),
        TcError::IntervalTime
    );
    assert_eq!(with(&|m| m.tlvs[2].value.truncate(1)), TcError::ContSeqNum);
    assert_eq!(
        with(&|m| m.tlvs.retain(|t| t.typ != message_tlv::VALIDITY_TIME)),
        TcError::ValidityTime
    );
    assert_eq!(
        with(&|m| m.tlvs.retain(|t| t.typ != message_tlv::CONT_SEQ_NUM)),
        TcError::ContSeqNum
    );
    assert_eq!(
        with(&|m| m.tlvs.push(m.tlvs[2].clone())),
        TcError::ContSeqNum
    );
    let prefix = valid.addresses[0].prefix;
    let both = |m: &mut Message| {
        m.addresses[0]
            .tlvs
            .push(Tlv::new(address_tlv::GATEWAY, 0, [0]))
    };
    assert_eq!(with(&both), TcError::NeighbourAndAttached(prefix));
    let metrics = |m: &mut Message| m.addresses[0].tlvs.push(metric_tlv(Metric::MAX));
    assert_eq!(with(&metrics), TcError::Contradiction(prefix));
    let distances = |m: &mut Message| {
        let distance = |n: u8| Tlv::new(address_tlv::GATEWAY, 0, [n]);
        m.addresses[2].tlvs.extend([distance(4)]);
    };
    let network = valid.addresses[2].prefix;
    assert_eq!(with(&distances), TcError::Contradiction(network));
    let renamed = |prefix: &'static str| {
        let prefix: Prefix = prefix.parse().unwrap();
        // The second neighbour is announced as routable, the first is not.
        (prefix, move |m: &mut Message| {
            m.addresses[1].prefix = prefix
        })
    };
    let (own, change) = renamed("10.0.0.1/32");
    assert_eq!(with(&change), TcError::OwnOriginator(own));
    let (local, change) = renamed("169.254.0.1/32");
    assert_eq!(with(&change), TcError::NotRoutable(local));
    let (network, change) = renamed("10.9.0.0/16");
    assert_eq!(with(&change), TcError::OriginatorPrefix(network));
}

fn read_changed(change: impl Fn(&mut Message)) -> Option<Tc> {
    let times = [Duration::from_secs(5); 2];
    let octets = content(2).encode([10, 0, 0, 1].into(), 1, times, 1200, |_| None, || 1);
    let mut message = Message::decode(&octets.unwrap()[0]).unwrap();
    change(&mut message);
    Tc::read(&message).unwrap()
}

#[test]
fn hop_limit_and_count_may_be_missing() {
    let tc = read_changed(|m| (m.hop_limit, m.hop_count) = (None, None));
    assert_eq!(tc.unwrap().validity, Duration::from_secs(5));
}

#[test]
fn a_tc_without_content_needs_no_ansn() {
    let without = |m: &mut Message| {
        m.tlvs.retain(|tlv| tlv.typ != message_tlv::CONT_SEQ_NUM);
        m.addresses.clear();
    };
    assert!(read_changed(without).is_none());
}

#[test]
fn what_has_no_metric_is_lost() {
    let is_metric = |tlv: &Tlv| tlv.typ == address_tlv::LINK_METRIC;
    let without = |m: &mut Message| {
        let entries = m.addresses.iter_mut();
        entries.for_each(|entry| entry.tlvs.retain(|tlv| !is_metric(tlv)));
    };
    let tc = read_changed(without).unwrap();
    assert!(tc.content.is_empty());
    assert_eq!((tc.lost_neighbours.len(), tc.lost_networks.len()), (2, 1));
}

#[test]
fn two_copies_of_an_address_say_it_together() {
    let tc = read_changed(|m| {
        let mut copy = m.addresses[0].clone();
        copy.tlvs = vec![Tlv::new(
            address_tlv::NBR_ADDR_TYPE,
            0,
            [nbr_addr_type::ROUTABLE],
        )];
        m.addresses.push(copy);
    });
    let neighbours = tc.unwrap().content.neighbours;
    let first = neighbours.values().next().unwrap();
    assert!(first.originator && first.routable);
}

#[test]
fn a_packet_of_tcs_decodes() {
    let octets = content(3)
        .encode(
            [10, 0, 0, 1].into(),
            1,
            [Duration::from_secs(5); 2],
            1200,
            |_| None,
            || 1,
        )
        .unwrap();
    let mut writer = rfc5444::PacketWriter::new(1200);
    writer.push(&octets[0]);
    let packets = writer.finish(|| Some(1));
    assert_eq!(Packet::decode(&packets[0]).unwrap().messages.len(), 1);
}

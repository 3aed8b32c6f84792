use super::*;

const CONFIG: &str = r#"
queue = 4
[[station]]
name = "a"
radio = "02:00:00:00:00:00"
[[station]]
name = "b"
radio = "02:00:00:00:01:00"
[[station]]
name = "c"
radio = "02:00:00:00:02:00"
[[link]]
from = "a"
to = "b"
snr = 40
[[link]]
from = "b"
to = "c"
snr = 40
"#;
const A: Mac = [2, 0, 0, 0, 0, 0];
const B: Mac = [2, 0, 0, 0, 1, 0];
const ALL: Mac = [0xff; 6];
const FIRST: Row = Row {
    index: 4,
    count: 3,
    flags: 0,
};
const SECOND: Row = Row {
    index: 0,
    count: 2,
    flags: hwsim::RTS,
};

fn bridge(text: &str) -> Bridge {
    let directory = std::env::temp_dir();
    let path = directory.join(format!("airmedium-{:?}.toml", std::thread::current().id()));
    std::fs::write(&path, text).unwrap();
    let config = Config::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Bridge::new(config, Time::ZERO)
}

fn sent(radio: Mac, to: Mac, cookie: u64) -> Sent {
    let mut octets = vec![0x88, 0, 0, 0];
    octets.extend(to);
    octets.extend(radio);
    octets.resize(1000, 0);
    Sent {
        radio,
        octets,
        flags: 1,
        rows: [FIRST, SECOND, NO_ROW, NO_ROW],
        cookie,
        frequency: 2412,
    }
}

/// Lets everything happen that follows. Returns the orders, and the time of the last.
fn settle(bridge: &mut Bridge) -> (Vec<Order>, Time) {
    let (mut orders, mut last) = (Vec::new(), Time::ZERO);
    loop {
        while let Some(order) = bridge.poll_order() {
            orders.push(order);
        }
        let Some(at) = bridge.poll_timeout() else {
            return (orders, last);
        };
        bridge.handle_timeout(at);
        if !bridge.orders.is_empty() {
            last = at;
        }
    }
}

#[test]
fn a_frame_is_delivered_after_its_airtime_and_then_reported() {
    let mut bridge = bridge(CONFIG);
    bridge.handle_frame(Time::ZERO, sent(A, B, 7));
    assert_eq!(bridge.poll_order(), None);
    let (orders, last) = settle(&mut bridge);
    let [Order::Deliver { radio, octets, .. }, Order::Report {
        cookie,
        flags,
        rows,
        ..
    }] = &orders[..]
    else {
        panic!("{orders:?}");
    };
    assert_eq!((*radio, octets.len(), octets[1] & RETRY_BIT), (B, 1000, 0));
    assert_eq!((*cookie, flags & STAT_ACK), (7, STAT_ACK));
    assert_eq!((rows[0].count, rows[1].index), (1, -1));
    // DIFS, a frame of 1004 octets at 6 Mbit/s, SIFS and an acknowledgement at 6 Mbit/s.
    assert_eq!(last.as_micros(), 28 + (20 + 336 * 4 + 6) + 10 + 50);
}

#[test]
fn a_frame_to_nobody_is_tried_as_the_table_says_and_reported_as_lost() {
    let mut bridge = bridge(CONFIG);
    bridge.handle_frame(Time::ZERO, sent(A, [2, 9, 9, 9, 9, 9], 7));
    let (orders, _) = settle(&mut bridge);
    let [Order::Report { flags, rows, .. }] = &orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!(flags & STAT_ACK, 0);
    assert_eq!(rows[..2], [FIRST, SECOND]);
    // The second row asks for RTS.
    assert_eq!(bridge.medium.counters(0).rts_sent, 2);
    assert_eq!(bridge.medium.counters(0).data_sent, 3);
}

#[test]
fn a_broadcast_reaches_those_in_reach_and_counts_as_unacknowledged() {
    let mut bridge = bridge(CONFIG);
    bridge.handle_frame(Time::ZERO, sent(B, ALL, 7));
    let (orders, _) = settle(&mut bridge);
    let delivered = orders
        .iter()
        .filter(|order| matches!(order, Order::Deliver { .. }));
    assert_eq!(delivered.count(), 2);
    let Some(Order::Report { flags, .. }) = orders.last() else {
        panic!("{orders:?}");
    };
    assert_eq!(flags & STAT_ACK, 0);
}

#[test]
fn an_address_is_learned_from_the_frames_that_a_radio_sends() {
    let mut bridge = bridge(CONFIG);
    let other = [2, 0, 0, 0, 1, 9];
    let of_b = Sent {
        radio: B,
        ..sent(other, ALL, 1)
    };
    bridge.handle_frame(Time::ZERO, of_b);
    settle(&mut bridge);
    bridge.handle_frame(Time::from_secs(1), sent(A, other, 2));
    let (orders, _) = settle(&mut bridge);
    assert!(
        matches!(&orders[..], [Order::Deliver { radio: B, .. }, Order::Report { flags, .. }] if flags & STAT_ACK != 0)
    );
}

#[test]
fn a_radio_that_the_file_does_not_name_loses_its_frames_and_a_full_queue_too() {
    let mut bridge = bridge(CONFIG);
    bridge.handle_frame(Time::ZERO, sent([2, 0, 0, 0, 8, 0], B, 7));
    assert!(matches!(
        bridge.poll_order(),
        Some(Order::Report {
            cookie: 7,
            flags: 1,
            ..
        })
    ));
    assert_eq!(bridge.strangers(), 1);
    for cookie in 0..100 {
        bridge.handle_frame(Time::ZERO, sent(A, B, cookie));
    }
    assert_eq!(bridge.held.len(), 4);
    let lost = std::iter::from_fn(|| bridge.poll_order());
    assert_eq!(lost.count(), 96);
}

#[test]
fn a_radio_that_takes_no_frame_acknowledges_none_until_it_is_tried_again() {
    let mut bridge = bridge(CONFIG);
    bridge.handle_refusal(Time::ZERO, B);
    bridge.handle_frame(Time::ZERO, sent(A, B, 1));
    bridge.handle_timeout(Time::from_millis(100));
    assert!(matches!(
        bridge.poll_order(),
        Some(Order::Report { flags: 1, .. })
    ));
    bridge.handle_frame(Time::from_millis(500), sent(A, B, 2));
    let (orders, _) = settle(&mut bridge);
    assert!(matches!(
        &orders[..],
        [Order::Deliver { .. }, Order::Report { .. }]
    ));
}

#[test]
fn rates_are_those_of_the_band() {
    let row = |index, flags| Row {
        index,
        count: 1,
        flags,
    };
    let kbps = |row, frequency| rate(row, frequency).map(Rate::kbps);
    assert_eq!(kbps(row(0, 0), 2412), Some(1000));
    assert_eq!(kbps(row(0, 0), 5180), Some(6000));
    assert_eq!(kbps(row(11, 0), 2412), Some(54_000));
    assert_eq!(kbps(row(11, 0), 5180), None);
    assert_eq!(kbps(row(7, hwsim::MCS), 2412), Some(65_000));
    assert_eq!(rate_index(Rate::legacy(54_000, false).unwrap(), 2412), 11);
    assert_eq!(rate_index(Rate::legacy(54_000, false).unwrap(), 5180), 7);
    assert_eq!(rate_index(Rate::legacy(11_000, false).unwrap(), 2412), 3);
    assert_eq!(rate_index(Rate::ht(0, false, false).unwrap(), 2412), 4);
}

#[test]
fn another_configuration_moves_stations_but_changes_no_radios() {
    let mut bridge = bridge(CONFIG);
    let moved = self::bridge(&CONFIG.replace("snr = 40", "snr = -40")).config;
    bridge.reconfigure(moved).unwrap();
    bridge.handle_frame(Time::ZERO, sent(A, B, 1));
    let (orders, _) = settle(&mut bridge);
    assert!(matches!(&orders[..], [Order::Report { flags: 1, .. }]));
    let other = self::bridge(&CONFIG.replace("02:00:00:00:02:00", "02:00:00:00:03:00")).config;
    assert!(bridge.reconfigure(other).unwrap_err().contains("restart"));
}

/// Keeps frames of `a` and `c` to `b` coming for a second, as mac80211 does on reports, with the same row of a rate
/// table. Returns how many `b` received that were no repetitions of received ones.
fn hidden_pair(flags: u16) -> usize {
    const C: Mac = [2, 0, 0, 0, 2, 0];
    let mut bridge = bridge(CONFIG);
    let row = Row {
        index: 4,
        count: 7,
        flags,
    };
    let (mut now, mut cookie) = (Time::ZERO, 0);
    let mut delivered = std::collections::BTreeSet::new();
    let mut next = |bridge: &mut Bridge, now, radio| {
        cookie += 1;
        let mut frame = Sent {
            rows: [row, NO_ROW, NO_ROW, NO_ROW],
            ..sent(radio, B, cookie)
        };
        frame.octets[100..108].copy_from_slice(&cookie.to_ne_bytes());
        bridge.handle_frame(now, frame);
    };
    for radio in [A, C, A, C] {
        next(&mut bridge, now, radio);
    }
    while now < Time::from_secs(1) {
        now = bridge.poll_timeout().unwrap();
        bridge.handle_timeout(now);
        while let Some(order) = bridge.poll_order() {
            match order {
                Order::Deliver { octets, .. } => {
                    delivered.insert(octets[100..108].to_vec());
                }
                Order::Report { radio, .. } => next(&mut bridge, now, radio),
            }
        }
    }
    assert!(bridge.held.len() <= 4);
    delivered.len()
}

#[test]
fn hidden_stations_lose_what_the_mark_of_mac80211_for_rts_saves() {
    let (without, with) = (hidden_pair(0), hidden_pair(hwsim::RTS));
    assert!(with > 2 * without, "{with} with RTS, {without} without");
}

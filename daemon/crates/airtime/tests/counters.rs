//! Counters as reports have them: the names and units that programs read.

use airtime::{Counters, Time};
use serde_json::json;

#[test]
fn times_are_seconds_and_named_so() {
    let counters = Counters {
        data_sent: 3,
        given_up: 1,
        sending: Time::from_millis(1500),
        busy: Time::from_micros(250),
        ..Counters::default()
    };
    let expected = json!({
        "data_sent": 3,
        "rts_sent": 0,
        "cts_missing": 0,
        "ack_missing": 0,
        "delivered": 0,
        "given_up": 1,
        "refused": 0,
        "sending_seconds": 1.5,
        "busy_seconds": 0.000_25,
    });
    assert_eq!(json!(counters), expected);
}

//! Bencoding: each kind of value, each kind of malformed octets, each limit.

use std::iter;

use overlay::bencode::{BencodeCause, Dictionary, Value, MAX_DEPTH, MAX_VALUES};
use proptest::prelude::*;

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

fn refused(octets: &[u8]) -> (BencodeCause, usize) {
    let error = Value::decode(octets).unwrap_err();
    (error.cause, error.offset)
}

#[test]
fn values_at_their_borders() {
    for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
        let octets = format!("i{number}e");
        assert_eq!(Value::decode(octets.as_bytes()), Ok(Value::Integer(number)));
        assert_eq!(encoded(&Value::Integer(number)), octets.as_bytes());
    }
    for string in ["", "a", "0123456789"] {
        let octets = format!("{}:{string}", string.len());
        assert_eq!(
            Value::decode(octets.as_bytes()),
            Ok(Value::String(string.as_bytes()))
        );
        assert_eq!(
            encoded(&Value::String(string.as_bytes())),
            octets.as_bytes()
        );
    }
    assert_eq!(encoded(&Value::decode(b"li1eledee").unwrap()), b"li1eledee");
}

#[test]
fn dictionaries() {
    let value = Value::decode(b"d2:bbi2e1:ali1eee").unwrap();
    let dictionary = value.as_dictionary().unwrap();
    assert_eq!(dictionary.integer("bb"), Some(2));
    assert_eq!(
        dictionary.get("a").and_then(Value::as_list),
        Some(&[Value::Integer(1)][..])
    );
    assert_eq!((dictionary.string("bb"), dictionary.get("c")), (None, None));
    assert_eq!(encoded(&value), b"d1:ali1ee2:bbi2ee", "keys are sorted");
    let mut made = Dictionary::new();
    assert_eq!(made.insert(b"bb", Value::Integer(1)), None);
    assert_eq!(
        made.insert(b"a", Value::List(vec![Value::Integer(1)])),
        None
    );
    assert_eq!(
        made.insert(b"bb", Value::Integer(2)),
        Some(Value::Integer(1))
    );
    assert_eq!(&made, dictionary);
    assert_eq!(
        made.iter().map(|(key, _)| key).collect::<Vec<_>>(),
        [&b"a"[..], b"bb"]
    );
}

#[test]
fn lengths_may_have_leading_zeros() {
    let padded = Value::decode(b"d00000002:eii0e1:pi022ee").unwrap();
    assert_eq!(encoded(&padded), b"d2:eii0e1:pi22ee");
    assert_eq!(
        Value::decode(b"00000000000000000001:a"),
        Ok(Value::String(b"a"))
    );
    assert_eq!(refused(b"000000000000000000001:a").0, BencodeCause::Number);
}

#[test]
fn each_way_to_be_malformed() {
    use BencodeCause::*;
    for truncated in [
        &b""[..],
        b"i",
        b"i1",
        b"5",
        b"5:abcd",
        b"l",
        b"d",
        b"d1:a",
        b"d1:ai1e",
    ] {
        assert_eq!(
            refused(truncated).0,
            Truncated,
            "{}",
            truncated.escape_ascii()
        );
    }
    assert_eq!(refused(b"x"), (Type(b'x'), 0));
    assert_eq!(refused(b"e"), (Type(b'e'), 0));
    assert_eq!(refused(b"i1ei"), (Trailing(1), 3));
    for number in [
        &b"ie"[..],
        b"i-e",
        b"i+1e",
        b"i1-1e",
        b"i 1e",
        b"i9223372036854775808e",
        b"1x:a",
        b"99999999999999999999:a",
    ] {
        assert_eq!(refused(number).0, Number, "{}", number.escape_ascii());
    }
    assert_eq!(refused(b"di1ei1ee"), (Key(b'i'), 1));
    assert_eq!(refused(b"d1:ai1e1:ai1ee"), (Duplicate, 13));
    assert_eq!(refused(b"d1:ae"), (Type(b'e'), 4));
}

#[test]
fn a_bomb_is_refused_at_the_limit() {
    let nested = |depth| [vec![b'l'; depth], vec![b'e'; depth]].concat();
    assert!(Value::decode(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(
        refused(&nested(MAX_DEPTH + 1)),
        (BencodeCause::Depth, MAX_DEPTH)
    );
    assert_eq!(refused(&nested(1 << 20)).0, BencodeCause::Depth);
    let many = |count| [&b"l"[..], &b"0:".repeat(count), b"e"].concat();
    assert!(Value::decode(&many(MAX_VALUES - 1)).is_ok());
    assert_eq!(refused(&many(MAX_VALUES)).0, BencodeCause::Values);
    let keys: Vec<u8> = (0..MAX_VALUES)
        .flat_map(|key| format!("3:{key:03}0:").into_bytes())
        .collect();
    assert_eq!(
        refused(&[b"d", &keys[..], b"e"].concat()).0,
        BencodeCause::Values
    );
    assert_eq!(refused(b"9223372036854775807:a").0, BencodeCause::Truncated);
}

/// A value that owns its strings.
#[derive(Clone, Debug)]
enum Owned {
    Integer(i64),
    String(Vec<u8>),
    List(Vec<Owned>),
    Dictionary(Vec<(Vec<u8>, Owned)>),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Integer(number) => Value::Integer(*number),
            Self::String(octets) => Value::String(octets),
            Self::List(values) => Value::List(values.iter().map(Self::value).collect()),
            Self::Dictionary(entries) => {
                let mut dictionary = Dictionary::new();
                for (key, value) in entries {
                    dictionary.insert(key, value.value());
                }
                Value::Dictionary(dictionary)
            }
        }
    }
}

fn owned() -> impl Strategy<Value = Owned> {
    let octets = || prop::collection::vec(any::<u8>(), 0..12);
    let leaf = prop_oneof![
        any::<i64>().prop_map(Owned::Integer),
        octets().prop_map(Owned::String)
    ];
    leaf.prop_recursive(4, 64, 6, move |inner| {
        let pair = (octets(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Owned::List),
            prop::collection::vec(pair, 0..6).prop_map(Owned::Dictionary),
        ]
    })
}

/// Octets that often resemble bencoding.
fn near() -> impl Strategy<Value = Vec<u8>> {
    let octet = prop_oneof![8 => prop::sample::select(b"dlie0123:-".to_vec()), 1 => any::<u8>()];
    prop::collection::vec(octet, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_the_same(owned in owned()) {
        let octets = encoded(&owned.value());
        prop_assert_eq!(Value::decode(&octets), Ok(owned.value()));
    }

    #[test]
    fn a_beginning_is_not_the_whole(owned in owned(), part in 0.0..1.0) {
        let octets = encoded(&owned.value());
        let part = (octets.len() as f64 * part) as usize;
        prop_assert_eq!(refused(&octets[..part]).0, BencodeCause::Truncated);
        let longer: Vec<_> = octets.iter().copied().chain(iter::once(b'x')).collect();
        prop_assert_eq!(refused(&longer), (BencodeCause::Trailing(1), octets.len()));
        prop_assert_eq!(Value::decode_first(&longer), Ok((owned.value(), octets.len())));
    }

    #[test]
    fn any_octets_are_survived(octets in near()) {
        if let Ok(value) = Value::decode(&octets) {
            let again = encoded(&value);
            prop_assert!(again.len() <= octets.len());
            prop_assert_eq!(Value::decode(&again), Ok(value));
        }
    }
}

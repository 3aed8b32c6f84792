//! Keys and addresses: recorded ones, and those that the orchestrator derives from Ed25519 keys.

mod support;

use cryptoauth::{KeyError, PrivateKey, PublicKey};
use proptest::prelude::*;
use support::{hex, json_objects, vectors};

#[test]
fn recorded_keys_give_the_recorded_public_keys_and_addresses() {
    let objects = json_objects(&vectors("keys.json"));
    assert_eq!(objects.len(), 10);
    for object in objects {
        let public = PrivateKey::from_octets(hex(&object["privateKey"])).public();
        assert_eq!(public.octets(), &hex::<32>(&object["publicKeyHex"]));
        assert_eq!(public.to_string(), object["publicKey"]);
        assert_eq!(object["publicKey"].parse(), Ok(public));
        let expected: std::net::Ipv6Addr = object["ipv6"].parse().unwrap();
        assert_eq!(
            std::net::Ipv6Addr::from(public.node_address().unwrap()),
            expected
        );
    }
}

#[test]
fn both_halves_of_an_ed25519_key_give_one_x25519_key() {
    for object in json_objects(&vectors("ed25519.json")) {
        let private = PrivateKey::from_ed25519_seed(&hex(&object["seed"]));
        let public = PublicKey::from_ed25519(&hex(&object["ed25519"])).unwrap();
        assert_eq!(public.octets(), &hex::<32>(&object["x25519"]));
        assert_eq!(private.public(), public);
        assert_eq!(public.address().to_string(), object["address"]);
    }
}

#[test]
fn an_ed25519_key_that_protects_nothing_is_refused() {
    let mut neutral = [0; 32];
    neutral[0] = 1;
    assert_eq!(PublicKey::from_ed25519(&neutral), Err(KeyError::SmallOrder));
    let mut not_reduced = [0xff; 32]; // y = p + 1 is the neutral element again
    not_reduced[0] = 0xee;
    not_reduced[31] = 0x7f;
    assert!(PublicKey::from_ed25519(&not_reduced).is_err());
    let mut off_curve = [0; 32];
    off_curve[0] = 2;
    assert_eq!(
        PublicKey::from_ed25519(&off_curve),
        Err(KeyError::NotOnCurve)
    );
}

#[test]
fn an_address_outside_of_fc00_is_named() {
    let public = PrivateKey::from_octets([1; 32]).public();
    let error = public.node_address().unwrap_err();
    assert_eq!(error, KeyError::Address(public.address()));
    assert!(error.to_string().contains("not in fc00::/8"));
}

#[test]
fn a_text_form_with_an_error_is_refused_where_it_is() {
    let text = PrivateKey::from_octets([7; 32]).public().to_string();
    let parse = |text: &str| text.parse::<PublicKey>();
    assert_eq!(
        parse(&text.to_uppercase().replace(".K", ".k")),
        parse(&text)
    );
    assert_eq!(parse(&text[..53]), Err(KeyError::TextLength(53)));
    assert_eq!(parse(&text[1..]), Err(KeyError::TextLength(53)));
    assert_eq!(
        parse(&format!("{}a{}", &text[..4], &text[5..])),
        Err(KeyError::TextDigit(4))
    );
    assert_eq!(
        parse(&format!("{}2.k", &text[..51])),
        Err(KeyError::TextOverflow)
    );
    assert_eq!(
        parse(&format!("{}ä{}", &text[..4], &text[6..])),
        Err(KeyError::TextDigit(4))
    );
}

proptest! {
    #[test]
    fn any_key_survives_its_text_form(octets in any::<[u8; 32]>()) {
        let key = PublicKey::from_octets(octets);
        prop_assert_eq!(key.to_string().parse(), Ok(key));
    }

    #[test]
    fn any_text_is_survived(text in "[0-9a-zA-Z.é]{0,60}", digits in "[0-9b-z]{52}") {
        let _ = text.parse::<PublicKey>();
        if let Ok(key) = format!("{digits}.k").parse::<PublicKey>() {
            prop_assert_eq!(key.to_string(), format!("{digits}.k"));
        }
    }
}

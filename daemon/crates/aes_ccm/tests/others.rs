//! What the benchmark compares makes the same messages: RustCrypto, and OpenSSL where the machine has it.

#[path = "../examples/bench/contenders.rs"]
mod contenders;
#[path = "../examples/bench/openssl.rs"]
mod openssl;

use contenders::{Contender, Ours};

const LONGEST: usize = 400;

#[test]
fn all_implementations_make_the_same_and_open_it() {
    let mut ours = Ours::new();
    let others = contenders::all().into_iter();
    for mut other in others.filter(|one| one.name().contains("CCM")) {
        for octets in 0..LONGEST {
            let plain: Vec<u8> = (0..octets).map(|number| number as u8).collect();
            let associated = &plain[octets / 3..];
            let (mut own, mut foreign) = (plain.clone(), plain.clone());
            let number = octets as u64;
            let tag = ours.seal(number, associated, &mut own);
            let name = other.name();
            assert_eq!(
                tag,
                other.seal(number, associated, &mut foreign),
                "{name}: {octets}"
            );
            assert_eq!(own, foreign, "{name}: {octets}");
            assert!(
                other.open(number, associated, &mut own, &tag),
                "{name}: {octets}"
            );
            assert!(
                ours.open(number, associated, &mut foreign, &tag),
                "{name}: {octets}"
            );
            assert_eq!((&own, &foreign), (&plain, &plain), "{name}: {octets}");
        }
    }
}

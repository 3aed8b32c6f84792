//! Nothing of a key is left in the memory where a [`Ccm`] was.

use std::mem::{size_of, MaybeUninit};

use aes_ccm::Ccm;

/// Octets of the key schedule of AES-128, few of which are zero by chance.
const SCHEDULE: usize = 11 * 16;

/// Returns how many octets are not zero.
fn occupied(place: &MaybeUninit<Ccm>) -> usize {
    let start = place.as_ptr().cast::<u8>();
    // SAFETY: the place lives on after the value's end. The compiler knows nothing of what a volatile read finds, and
    // padding has the zeros that were there before the value.
    let octet = |at| unsafe { start.add(at).read_volatile() };
    (0..size_of::<Ccm>()).filter(|at| octet(*at) != 0).count()
}

#[test]
fn a_dropped_key_leaves_zeros() {
    for length in [16, 24, 32] {
        let mut place = MaybeUninit::<Ccm>::zeroed();
        place.write(Ccm::new(&[0xa5; 32][..length], 8, 13).expect("allowed lengths"));
        let before = occupied(&place);
        assert!(before > SCHEDULE / 2, "{before}");
        // SAFETY: it was written above, and is not used as a value again.
        unsafe { place.assume_init_drop() };
        let after = occupied(&place);
        // The lengths and the number of the cipher are no secrets.
        assert!(after < 8, "{after} octets of {before} are left");
    }
}

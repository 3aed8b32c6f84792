//! Labels, directors and schemes: worked examples, every boundary, and that each mapping is one to one.

use proptest::prelude::*;
use switch::{
    compress, decompress, label_for, peer_label, Form, Interface, Interfaces, Label, Scheme,
    SchemeError, SchemeForm, MAX_SCHEME_OCTETS,
};

fn interface(number: u16) -> Interface {
    Interface::new(number).unwrap()
}

/// A label with this many bits.
fn label(bits: impl Strategy<Value = u32>) -> impl Strategy<Value = Label> {
    (bits, any::<u64>()).prop_map(|(bits, low)| Label(1 << bits | low & ((1 << bits) - 1)))
}

#[test]
fn directors_at_the_borders_of_their_forms() {
    let labels = [
        (0, 0x13),
        (1, 0x11),
        (2, 0x15),
        (7, 0x1f),
        (8, 0x9e),
        (32, 0xfe),
        (33, 0x480),
        (256, 0x7fc),
    ];
    for (number, expected) in labels {
        assert_eq!(peer_label(interface(number)), Label(expected), "{number}");
    }
    assert_eq!(Interface::new(257), None);
}

#[test]
fn interface_0_in_each_form() {
    let first = interface(0);
    let written = [Form::Short, Form::Middle, Form::Long].map(|form| compress(first, form));
    assert_eq!(written, [Some(3), Some(2), Some(0)]);
}

#[test]
fn every_director_names_its_interface() {
    for number in (0..Interface::COUNT).filter(|&number| number != 1) {
        for form in [Form::Short, Form::Middle, Form::Long] {
            let fits = Form::of_interface(interface(number)) <= form;
            let director = compress(interface(number), form);
            assert_eq!(director.is_some(), fits);
            if let Some(director) = director {
                let ends = Label(director | 1 << form.bits());
                assert_eq!(
                    (decompress(ends), Form::of_label(ends)),
                    (interface(number), form)
                );
            }
        }
    }
}

#[test]
fn labels_of_a_recorded_line() {
    let (to_b, b_to_c) = (Label(0x13), Label(0x15));
    let path = b_to_c.after(to_b).unwrap();
    assert_eq!(path, Label(0x153));
    assert_eq!(path.beyond(to_b), Some(b_to_c));
    assert_eq!(path.first_hop(), to_b);
    assert_eq!(Label(0x13).after(Label(0x13)), Some(Label(0x133)));
    assert!(
        path.leads_through(to_b) && path.leads_through(path) && path.leads_through(Label::SELF)
    );
    assert!(!path.leads_through(Label(0x15)) && !to_b.leads_through(path));
    assert_eq!(to_b.beyond(Label(0x15)), None);
}

#[test]
fn what_leads_nowhere_is_not_spliced() {
    assert_eq!(Label(0).after(Label(0x13)), None);
    assert_eq!(Label(0x13).after(Label(0)), None);
    let (long, short) = (Label(1 << 55), Label(1 << 4));
    assert_eq!(long.after(short), Some(Label(1 << 59)));
    assert_eq!(long.after(Label(1 << 5)), None);
    assert!(!Label(0).leads_through(Label::SELF));
    assert_eq!(
        [Label(0), Label::SELF].map(Label::first_hop),
        [Label(0), Label::SELF]
    );
}

#[test]
fn a_label_is_told_so_that_the_asker_fits() {
    let (near, far) = (peer_label(interface(2)), peer_label(interface(40)));
    assert_eq!(label_for(far, near), Some(far));
    assert_eq!(label_for(near, near), Some(near));
    let widened = label_for(near, far).unwrap();
    assert_eq!(
        (decompress(widened), Form::of_label(widened)),
        (interface(2), Form::Long)
    );
    assert_eq!(widened.bits(), 10);
    assert_eq!(label_for(Label::SELF, far), Some(Label::SELF));
    let too_long = Label(1 << 57 | 0x15);
    assert_eq!(label_for(too_long, far), None);
}

#[test]
fn text_of_labels() {
    assert_eq!(Label(0x153).to_string(), "0000.0000.0000.0153");
    assert_eq!(
        "8000.0000.0000.0015".parse(),
        Ok(Label(0x8000_0000_0000_0015))
    );
    let wrong = [
        "",
        "0000.0000.0000",
        "0000.0000.0000.0153.0000",
        "0000.0000.000.0153",
        "0000.+000.0000.0153",
    ];
    let groups = wrong.map(|text| text.parse::<Label>().unwrap_err().group);
    assert_eq!(groups, [1, 4, 5, 3, 2]);
}

#[test]
fn the_serialised_scheme_of_every_known_node() {
    let mut out = [0xff; MAX_SCHEME_OCTETS];
    let length = Scheme::V3X5X8.encode(&mut out);
    assert_eq!(out[..length], [0x61, 0x14, 0x45, 0x81, 0x00]);
    assert_eq!(Scheme::decode(&out[..length]), Ok(Scheme::V3X5X8));
}

#[test]
fn schemes_that_are_refused() {
    let form = |bits, prefix_bits, prefix| SchemeForm {
        bits,
        prefix_bits,
        prefix,
    };
    let new = |forms: &[SchemeForm]| Scheme::new(forms).map(|_| ());
    assert_eq!(new(&[]), Err(SchemeError::Length(0)));
    assert_eq!(new(&[form(0, 0, 0)]), Err(SchemeError::Form(0)));
    assert_eq!(new(&[form(32, 0, 0)]), Err(SchemeError::Form(0)));
    assert_eq!(
        new(&[form(4, 1, 1)]),
        Err(SchemeError::Form(0)),
        "an only form has no prefix"
    );
    assert_eq!(
        new(&[form(3, 1, 1), form(8, 0, 0)]),
        Err(SchemeError::Form(1))
    );
    assert_eq!(
        new(&[form(3, 1, 2), form(8, 2, 0)]),
        Err(SchemeError::Form(0)),
        "the prefix is longer than given"
    );
    assert_eq!(
        new(&[form(3, 1, 1), form(31, 29, 0)]),
        Err(SchemeError::Form(1)),
        "60 bits"
    );
    assert_eq!(
        new(&[form(3, 1, 1), form(3, 1, 0)]),
        Err(SchemeError::Order(1))
    );
    assert_eq!(
        new(&[form(3, 1, 1), form(5, 2, 3)]),
        Err(SchemeError::Ambiguous(0))
    );
    assert_eq!(new(&[form(4, 0, 0); 9]), Err(SchemeError::Forms(9)));
    assert_eq!(new(&[form(8, 0, 0)]), Ok(()));
    assert_eq!(new(&[form(4, 1, 1), form(8, 1, 0)]), Ok(()));
}

#[test]
fn serialised_schemes_that_are_refused() {
    let length = |octets: &[u8]| Err(SchemeError::Length(octets.len()));
    for octets in [
        &[][..],
        &[0x61],
        &[0x61, 0x14, 0x45, 0x81, 0x80],
        &[0x1f, 0x1f],
    ] {
        assert_eq!(Scheme::decode(octets), length(octets), "{octets:02x?}");
    }
    let with_an_empty_form = [0x61, 0x14, 0x45, 0x81, 0, 0];
    assert_eq!(
        Scheme::decode(&with_an_empty_form),
        Err(SchemeError::Form(3))
    );
}

#[test]
fn another_scheme_counts_interfaces_in_its_own_way() {
    let form = |bits, prefix_bits, prefix| SchemeForm {
        bits,
        prefix_bits,
        prefix,
    };
    let fixed = Scheme::new(&[form(8, 0, 0)]).unwrap();
    assert_eq!(fixed.interface(Label(0x105)), Some(5));
    let two = Scheme::new(&[form(4, 1, 1), form(8, 1, 0)]).unwrap();
    assert_eq!(
        [0x21, 0x23, 0x25].map(|label| two.interface(Label(label))),
        [Some(1), Some(0), Some(3)]
    );
    let gap = Scheme::new(&[form(3, 2, 1), form(8, 2, 0)]).unwrap();
    assert_eq!(gap.interface(Label(0x23)), None);
}

#[test]
fn interfaces_are_taken_lowest_first_and_the_router_stays() {
    let mut interfaces = Interfaces::new();
    let first: Vec<_> = (0..3).map(|_| interfaces.add().unwrap().number()).collect();
    assert_eq!(first, [0, 2, 3]);
    interfaces.remove(interface(2));
    interfaces.remove(Interface::ROUTER);
    assert_eq!(
        interfaces.iter().map(Interface::number).collect::<Vec<_>>(),
        [0, 1, 3]
    );
    assert_eq!(interfaces.add(), Some(interface(2)));
    while interfaces.add().is_some() {}
    assert_eq!(interfaces.iter().count(), usize::from(Interface::COUNT));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn splicing_is_undone(via in label(1..30_u32), go in label(0..30_u32)) {
        let path = go.after(via).unwrap();
        prop_assert_eq!(path.bits(), via.bits() + go.bits());
        prop_assert!(path.leads_through(via));
        prop_assert_eq!(path.beyond(via), Some(go));
    }

    #[test]
    fn any_director_is_what_the_scheme_says(bits in any::<u64>()) {
        let director = Label(bits);
        let (index, form) = Scheme::V3X5X8.form_of(director).unwrap();
        prop_assert_eq!(index, usize::from(Form::of_label(director).index()));
        prop_assert_eq!(form.length(), Form::of_label(director).bits());
        prop_assert_eq!(Scheme::V3X5X8.interface(director), Some(decompress(director).number().into()));
    }

    #[test]
    fn text_is_read_as_it_was_written(bits in any::<u64>()) {
        prop_assert_eq!(Label(bits).to_string().parse(), Ok(Label(bits)));
    }

    #[test]
    fn a_scheme_that_is_read_is_written_the_same(octets in prop::collection::vec(any::<u8>(), 0..12)) {
        if let Ok(scheme) = Scheme::decode(&octets) {
            let mut out = [0; MAX_SCHEME_OCTETS];
            let length = scheme.encode(&mut out);
            prop_assert_eq!(&out[..length], &octets[..]);
        }
    }

    #[test]
    fn any_scheme_survives(widths in prop::collection::btree_set(1..=31_u8, 2..=5)) {
        // The prefixes are 1, 10, 100 ..., with as many zeros as the form's index.
        let forms: Vec<_> = widths.iter().enumerate().map(|(index, &bits)| {
            SchemeForm { bits, prefix_bits: index as u8 + 1, prefix: 1 << index }
        }).collect();
        let scheme = Scheme::new(&forms).unwrap();
        let mut out = [0; MAX_SCHEME_OCTETS];
        let length = scheme.encode(&mut out);
        prop_assert_eq!(Scheme::decode(&out[..length]), Ok(scheme));
    }
}

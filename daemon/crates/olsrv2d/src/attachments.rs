//! Networks that programs attach while the router runs, beside those of the configuration file (RFC 7181, section 7.2).

use std::collections::BTreeMap;

use olsrv2::{Attached, Metric, Prefix};
use serde::Deserialize;

/// Largest number of networks that programs may attach. With the 256 of a configuration file a router then announces no
/// more than others store of it ([`olsrv2::Limits`], `advertised`).
const ATTACHED_MAX: usize = 768;

/// A network as a program names it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Named {
    prefix: String,
    #[serde(default = "one_hop")]
    distance: u8,
    #[serde(default = "least")]
    metric: u32,
}

fn one_hop() -> u8 {
    1
}

fn least() -> u32 {
    Metric::MIN.get()
}

/// The networks that programs have attached, by prefix. They stay when the configuration file is read again.
#[derive(Debug, Default)]
pub struct Attachments {
    by_prefix: BTreeMap<Prefix, Attached>,
}

impl Attachments {
    /// Adds networks, or changes their distance and metric: all of them or none.
    ///
    /// # Errors
    /// Names the first network that is refused, and what is allowed.
    pub fn attach(&mut self, networks: &[Named]) -> Result<(), String> {
        let checked = networks.iter().map(checked);
        let checked: Vec<Attached> = checked.collect::<Result<_, _>>()?;
        let known = |one: &&Attached| self.by_prefix.contains_key(&one.prefix);
        let added = checked.iter().filter(|one| !known(one)).count();
        if self.by_prefix.len() + added > ATTACHED_MAX {
            return Err(format!("attach: at most {ATTACHED_MAX} networks"));
        }
        let entries = checked.into_iter().map(|one| (one.prefix, one));
        self.by_prefix.extend(entries);
        Ok(())
    }

    /// Removes networks: all of them or none. One that no program has attached counts as removed, unless the file
    /// attaches it.
    ///
    /// # Errors
    /// Names the first network that is refused, and why.
    pub fn withdraw(&mut self, prefixes: &[String], configured: &[Attached]) -> Result<(), String> {
        let prefixes = prefixes.iter().map(|text| prefix("withdraw", text));
        let prefixes: Vec<Prefix> = prefixes.collect::<Result<_, _>>()?;
        for one in &prefixes {
            let in_file = configured.iter().any(|other| other.prefix == *one);
            if in_file && !self.by_prefix.contains_key(one) {
                return Err(format!(
                    "withdraw: the configuration file attaches {one}; remove it there"
                ));
            }
        }
        self.by_prefix.retain(|one, _| !prefixes.contains(one));
        Ok(())
    }

    /// Returns all networks that the router announces. What a program says about one counts more than the file.
    pub fn over(&self, configured: &[Attached]) -> Vec<Attached> {
        let of_file = configured.iter().map(|one| (one.prefix, *one));
        let mut all: BTreeMap<Prefix, Attached> = of_file.collect();
        all.extend(&self.by_prefix);
        all.into_values().collect()
    }
}

fn checked(named: &Named) -> Result<Attached, String> {
    let metric = Metric::new(named.metric).ok_or_else(|| {
        let (least, most) = (Metric::MIN.get(), Metric::MAX.get());
        let (prefix, value) = (&named.prefix, named.metric);
        format!("attach: metric = {value} of {prefix} is refused; allowed: {least} to {most}")
    })?;
    Ok(Attached {
        prefix: prefix("attach", &named.prefix)?,
        distance: named.distance,
        metric,
    })
}

fn prefix(command: &str, text: &str) -> Result<Prefix, String> {
    let parsed = text.parse::<Prefix>().ok();
    parsed
        .filter(|prefix| *prefix == prefix.canonical() && text.contains('/'))
        .ok_or_else(|| {
            format!(
                "{command}: prefix = {text:?} is refused; allowed: ADDRESS/LENGTH with all bits after LENGTH zero, \
                 such as 10.1.0.0/16 or ::/0"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(prefix: &str) -> Named {
        Named {
            prefix: prefix.into(),
            distance: 1,
            metric: 1,
        }
    }

    fn prefixes(attachments: &Attachments, configured: &[Attached]) -> Vec<String> {
        let all = attachments.over(configured);
        all.iter().map(|one| one.prefix.to_string()).collect()
    }

    fn configured(prefix: &str) -> Attached {
        checked(&named(prefix)).unwrap()
    }

    #[test]
    fn a_network_is_attached_changed_and_withdrawn() {
        let mut attachments = Attachments::default();
        attachments
            .attach(&[named("10.1.0.0/16"), named("::/0")])
            .unwrap();
        let farther = Named {
            distance: 3,
            ..named("10.1.0.0/16")
        };
        attachments.attach(&[farther]).unwrap();
        assert_eq!(prefixes(&attachments, &[]), ["10.1.0.0/16", "::/0"]);
        assert_eq!(attachments.over(&[])[0].distance, 3);
        attachments.withdraw(&["10.1.0.0/16".into()], &[]).unwrap();
        attachments.withdraw(&["10.1.0.0/16".into()], &[]).unwrap();
        assert_eq!(prefixes(&attachments, &[]), ["::/0"]);
    }

    #[test]
    fn one_bad_network_changes_nothing() {
        let mut attachments = Attachments::default();
        for bad in ["10.1.1.1/16", "10.1.0.0", "elsewhere", "10.0.0.0/33", ""] {
            let error = attachments
                .attach(&[named("::/0"), named(bad)])
                .unwrap_err();
            assert!(error.contains(&format!("{bad:?} is refused")), "{error}");
        }
        let error = attachments
            .attach(&[Named {
                metric: 0,
                ..named("::/0")
            }])
            .unwrap_err();
        assert!(error.contains("metric = 0 of ::/0 is refused"), "{error}");
        assert!(attachments.over(&[]).is_empty());
        attachments.attach(&[named("::/0")]).unwrap();
        attachments
            .withdraw(&["::/0".into(), "x".into()], &[])
            .unwrap_err();
        assert_eq!(prefixes(&attachments, &[]), ["::/0"]);
    }

    #[test]
    fn the_file_keeps_what_it_attaches() {
        let file = [configured("10.1.0.0/16")];
        let mut attachments = Attachments::default();
        let error = attachments
            .withdraw(&["10.1.0.0/16".into()], &file)
            .unwrap_err();
        assert!(
            error.contains("the configuration file attaches 10.1.0.0/16"),
            "{error}"
        );
        let nearer = Named {
            distance: 0,
            ..named("10.1.0.0/16")
        };
        attachments.attach(&[nearer]).unwrap();
        assert_eq!(attachments.over(&file)[0].distance, 0);
        attachments
            .withdraw(&["10.1.0.0/16".into()], &file)
            .unwrap();
        assert_eq!(attachments.over(&file), file);
    }

    #[test]
    fn the_number_of_networks_is_bounded() {
        let mut attachments = Attachments::default();
        let host = |number: usize| named(&format!("fd00::{number:x}/128"));
        let all: Vec<Named> = (0..ATTACHED_MAX).map(host).collect();
        attachments.attach(&all).unwrap();
        attachments.attach(&all[..1]).unwrap();
        let error = attachments.attach(&[host(ATTACHED_MAX)]).unwrap_err();
        assert!(error.contains("at most 768"), "{error}");
        assert_eq!(attachments.over(&[]).len(), ATTACHED_MAX);
    }
}

//! The configuration: which radio is where, or who hears whom.

use std::path::Path;

use airtime::{Phy, Propagation, Rate, Reach, Settings};
use daemonkit::config::{decode, load, quoted, ConfigError, Fault};
use serde::Deserialize;
use toml::Spanned;

use crate::hwsim::Mac;

/// Most stations of a medium; mac80211_hwsim itself makes no more than 100 radios at once.
const STATIONS_MAX: usize = 100;
/// Longest queue of a station. mac80211_hwsim holds 200 frames of a radio, and drops the oldest of more.
const QUEUE_MAX: usize = 150;
/// Bounds of a ratio of signal and noise, in dB.
const SNR_DB: std::ops::RangeInclusive<f64> = -50.0..=100.0;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What all stations have in common.
    pub settings: Settings,
    /// The stations; their places are their numbers in the medium.
    pub stations: Vec<Station>,
    /// Who hears whom.
    pub reach: Reach,
    /// Noise of every receiver, in dBm.
    pub noise_dbm: f64,
}

/// One radio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its name in this file.
    pub name: String,
    /// The permanent address of its radio.
    pub radio: Mac,
    /// The size above which RTS precedes its frames, whatever mac80211 asks for.
    pub rts: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    phy: Option<Spanned<String>>,
    basic: Option<Spanned<Vec<f64>>>,
    seed: Option<u64>,
    queue: Option<Spanned<usize>>,
    capture: Option<f64>,
    senses: Option<f64>,
    #[serde(default)]
    overhear: bool,
    #[serde(default)]
    propagation: RawPropagation,
    #[serde(default)]
    station: Vec<RawStation>,
    #[serde(default)]
    link: Vec<RawLink>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPropagation {
    power: Option<f64>,
    loss_1m: Option<f64>,
    exponent: Option<f64>,
    noise: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStation {
    name: Spanned<String>,
    radio: Spanned<String>,
    position: Option<Spanned<[f64; 2]>>,
    rts: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    from: Spanned<String>,
    to: Spanned<String>,
    snr: Spanned<f64>,
    #[serde(default)]
    one_way: bool,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read or is refused; the error names file, line, key, value and what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        load(path, Self::parse)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let raw: RawConfig = decode(text)?;
        let propagation = propagation(&raw.propagation);
        let settings = Settings {
            phy: phy(raw.phy.as_ref(), raw.basic.as_ref())?,
            senses_db: raw.senses.unwrap_or(Settings::default().senses_db),
            capture_db: raw.capture,
            queue: match &raw.queue {
                None => Settings::default().queue,
                Some(found) if (1..=QUEUE_MAX).contains(found.as_ref()) => *found.as_ref(),
                Some(found) => {
                    let allowed = format!("1 to {QUEUE_MAX} frames");
                    return Err(Fault::value("queue", found, found.as_ref(), allowed));
                }
            },
            aggregate: 1,
            overhear: raw.overhear,
            seed: raw.seed.unwrap_or(1),
        };
        let stations = stations(&raw.station)?;
        let reach = reach(&raw, &stations, &propagation)?;
        Ok(Self {
            settings,
            stations,
            reach,
            noise_dbm: propagation.noise_dbm,
        })
    }
}

fn phy(name: Option<&Spanned<String>>, basic: Option<&Spanned<Vec<f64>>>) -> Result<Phy, Fault> {
    let mut phy = match name.map(|name| (name, name.as_ref().as_str())) {
        None | Some((_, "g")) => Phy::g(),
        Some((_, "a")) => Phy::a(),
        Some((_, "b")) => Phy::b(),
        Some((found, _)) => {
            let allowed = "\"b\", \"g\" (also n at 2.4 GHz), \"a\" (also n at 5 GHz)";
            return Err(Fault::value("phy", found, quoted(found), allowed));
        }
    };
    if let Some(found) = basic {
        let mut rates = Vec::new();
        for mbit in found.as_ref() {
            rates.extend(Rate::legacy((mbit * 1000.0) as u32, false));
        }
        if rates.is_empty() || rates.len() != found.as_ref().len() {
            let allowed = "one or more of 1, 2, 5.5, 11, 6, 9, 12, 18, 24, 36, 48, 54 (Mbit/s)";
            let shown = format!("{:?}", found.as_ref());
            return Err(Fault::value("basic", found, shown, allowed));
        }
        rates.sort_by_key(|rate| rate.kbps());
        phy.basic = rates;
    }
    Ok(phy)
}

fn propagation(raw: &RawPropagation) -> Propagation {
    let usual = Propagation::default();
    Propagation {
        power_dbm: raw.power.unwrap_or(usual.power_dbm),
        loss_1m_db: raw.loss_1m.unwrap_or(usual.loss_1m_db),
        exponent: raw.exponent.unwrap_or(usual.exponent),
        noise_dbm: raw.noise.unwrap_or(usual.noise_dbm),
    }
}

fn stations(raw: &[RawStation]) -> Result<Vec<Station>, Fault> {
    if raw.is_empty() || raw.len() > STATIONS_MAX {
        return Err(Fault::whole(format!(
            "{} tables [[station]]; allowed: 1 to {STATIONS_MAX}",
            raw.len()
        )));
    }
    let mut stations: Vec<Station> = Vec::new();
    for one in raw {
        let name = one.name.as_ref();
        if name.is_empty() || stations.iter().any(|known| known.name == *name) {
            let allowed = "a name that no other station has";
            return Err(Fault::value("name", &one.name, quoted(&one.name), allowed));
        }
        let radio = mac(one.radio.as_ref())
            .filter(|radio| stations.iter().all(|known| known.radio != *radio));
        let Some(radio) = radio else {
            let allowed = "the address in /sys/class/ieee80211/PHY/macaddress, as \
                           \"02:00:00:00:00:00\", of no other station";
            return Err(Fault::value(
                "radio",
                &one.radio,
                quoted(&one.radio),
                allowed,
            ));
        };
        stations.push(Station {
            name: name.clone(),
            radio,
            rts: one.rts,
        });
    }
    Ok(stations)
}

/// Returns who hears whom: by position where all stations have one, then as the links say.
fn reach(raw: &RawConfig, stations: &[Station], propagation: &Propagation) -> Result<Reach, Fault> {
    let mut positions = Vec::new();
    for one in &raw.station {
        if let Some(found) = &one.position {
            let [x, y] = *found.as_ref();
            if !(x.is_finite() && y.is_finite()) {
                let shown = format!("[{x}, {y}]");
                return Err(Fault::value("position", found, shown, "two numbers, in m"));
            }
            positions.push((x, y));
        }
    }
    let mut reach = if positions.len() == stations.len() {
        Reach::positions(&positions, propagation)
    } else if positions.is_empty() {
        Reach::none(stations.len())
    } else {
        return Err(Fault::whole(format!(
            "{} of {} stations have a position; allowed: all of them, or none and [[link]] tables",
            positions.len(),
            stations.len()
        )));
    };
    for link in &raw.link {
        let number = |key, name: &Spanned<String>| {
            let known = stations.iter().position(|one| one.name == *name.as_ref());
            known.ok_or_else(|| {
                let names: Vec<&str> = stations.iter().map(|one| one.name.as_str()).collect();
                Fault::value(key, name, quoted(name), names.join(", "))
            })
        };
        let (from, to) = (number("from", &link.from)?, number("to", &link.to)?);
        let snr = *link.snr.as_ref();
        if !SNR_DB.contains(&snr) {
            let allowed = format!("{} to {} dB", SNR_DB.start(), SNR_DB.end());
            return Err(Fault::value("snr", &link.snr, snr, allowed));
        }
        if link.one_way {
            reach.path(from, to, snr);
        } else {
            reach.link(from, to, snr);
        }
    }
    Ok(reach)
}

/// Returns the address that a text has in the usual form.
fn mac(text: &str) -> Option<Mac> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut address {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
[[station]]
name = "a"
radio = "02:00:00:00:00:00"
[[station]]
name = "b"
radio = "02:00:00:00:01:00"
rts = 500
"#;

    #[test]
    fn stations_and_links_are_read() {
        let link = "[[link]]\nfrom = \"a\"\nto = \"b\"\nsnr = 30\none_way = true\n";
        let config = Config::parse(&format!("phy = \"b\"\n{TWO}{link}")).unwrap();
        assert_eq!(config.settings.phy, Phy::b());
        assert_eq!(config.stations[1].radio, [2, 0, 0, 0, 1, 0]);
        assert_eq!(config.stations[1].rts, Some(500));
        assert!((config.reach.snr_db(0, 1) - 30.0).abs() < 1e-9);
        assert_eq!(config.reach.snr_db(1, 0), f64::NEG_INFINITY);
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line_and_what_is_allowed() {
        let link = |text: &str| format!("{TWO}[[link]]\n{text}");
        for (text, line, expected) in [
            (
                format!("phy = \"ac\"\n{TWO}"),
                Some(1),
                "phy = \"ac\" is refused; allowed: \"b\"",
            ),
            (
                format!("queue = 0\n{TWO}"),
                Some(1),
                "queue = 0 is refused; allowed: 1 to 150",
            ),
            (
                format!("basic = [6, 7]\n{TWO}"),
                Some(1),
                "basic = [6.0, 7.0] is refused",
            ),
            (
                String::new(),
                None,
                "0 tables [[station]]; allowed: 1 to 100",
            ),
            (
                TWO.replace("01:00", "00:00"),
                Some(7),
                "radio = \"02:00:00:00:00:00\" is refused",
            ),
            (
                TWO.replace("02:00:00:00:01:00", "2:0:0:0:1:0"),
                Some(7),
                "radio",
            ),
            (
                TWO.replace("\"b\"", "\"a\""),
                Some(6),
                "name = \"a\" is refused",
            ),
            (
                format!("{TWO}position = [0, 0]\n"),
                None,
                "1 of 2 stations have a position",
            ),
            (
                link("from = \"a\"\nto = \"c\"\nsnr = 3\n"),
                Some(11),
                "to = \"c\" is refused; allowed: a, b",
            ),
            (
                link("from = \"a\"\nto = \"b\"\nsnr = 300\n"),
                Some(12),
                "snr = 300 is refused",
            ),
            (
                link("from = \"a\"\nto = \"b\"\nsnr = nan\n"),
                Some(12),
                "snr = NaN is refused",
            ),
            (format!("colour = 1\n{TWO}"), Some(1), "unknown field"),
        ] {
            let fault = Config::parse(&text).unwrap_err();
            assert!(fault.message.contains(expected), "{}", fault.message);
            assert_eq!(fault.line(&text), line, "{}", fault.message);
        }
    }
}

//! Reading single values of the configuration file. Each refusal names the key, the value and what is allowed.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use daemonkit::config::{quoted, Fault, SOCKET_PATH_MAX};
use olsrv2::{Metric, Prefix, Signatures};
use toml::Spanned;

use super::{is_routable, Timing};

/// Intervals that RFC 5497 can express and a mesh can use, in seconds.
const INTERVAL_SECONDS: RangeInclusive<f64> = 0.05..=3600.0;
/// Largest validity time: ten of the largest intervals, in seconds.
const VALIDITY_SECONDS_MAX: f64 = 36_000.0;
/// Validity time in intervals when none is configured. It bridges two lost messages.
const VALIDITY_INTERVALS: u32 = 3;

pub(super) fn originators(raw: &[Spanned<String>]) -> Result<Vec<IpAddr>, Fault> {
    let allowed = "at most one routable IPv4 and one routable IPv6 address";
    let mut found: Vec<IpAddr> = Vec::new();
    for text in raw {
        let refuse = || Fault::value("originators", text, quoted(text), allowed);
        let address: IpAddr = text.as_ref().parse().map_err(|_| refuse())?;
        if !is_routable(address)
            || found
                .iter()
                .any(|other| other.is_ipv4() == address.is_ipv4())
        {
            return Err(refuse());
        }
        found.push(address);
    }
    Ok(found)
}

/// Returns the longest interval and the longest validity time, or the defaults if there is no interface.
pub(super) fn longest<'a>(timings: impl Iterator<Item = &'a Timing>, default: Duration) -> Timing {
    let longer = |a: Timing, b: Timing| Timing {
        interval: a.interval.max(b.interval),
        validity: a.validity.max(b.validity),
    };
    timings.copied().reduce(longer).unwrap_or(Timing {
        interval: default,
        validity: default * VALIDITY_INTERVALS,
    })
}

pub(super) fn timing(
    [interval_key, validity_key]: [&str; 2],
    interval: Option<&Spanned<f64>>,
    validity: Option<&Spanned<f64>>,
    default: Duration,
) -> Result<Timing, Fault> {
    let interval = seconds(interval_key, interval, INTERVAL_SECONDS, default)?;
    let range = interval.as_secs_f64()..=VALIDITY_SECONDS_MAX;
    let validity = seconds(validity_key, validity, range, interval * VALIDITY_INTERVALS)?;
    Ok(Timing { interval, validity })
}

pub(super) fn seconds(
    key: &str,
    raw: Option<&Spanned<f64>>,
    range: RangeInclusive<f64>,
    default: Duration,
) -> Result<Duration, Fault> {
    let Some(raw) = raw else {
        return Ok(default);
    };
    let value = *raw.as_ref();
    if !range.contains(&value) {
        let allowed = format!("{} to {} seconds", range.start(), range.end());
        return Err(Fault::value(key, raw, value, allowed));
    }
    Ok(Duration::from_secs_f64(value))
}

pub(super) fn integer(
    key: &str,
    raw: Option<&Spanned<i64>>,
    range: RangeInclusive<i64>,
    default: i64,
) -> Result<i64, Fault> {
    let Some(raw) = raw else {
        return Ok(default);
    };
    let value = *raw.as_ref();
    if !range.contains(&value) {
        let allowed = format!("{} to {}", range.start(), range.end());
        return Err(Fault::value(key, raw, value, allowed));
    }
    Ok(value)
}

pub(super) fn metric(
    key: &str,
    raw: Option<&Spanned<i64>>,
    default: Metric,
) -> Result<Metric, Fault> {
    let range = i64::from(Metric::MIN.get())..=i64::from(Metric::MAX.get());
    let value = integer(key, raw, range, i64::from(default.get()))?;
    Ok(Metric::new(value as u32).unwrap_or(default))
}

pub(super) fn prefix(key: &str, raw: &Spanned<String>) -> Result<Prefix, Fault> {
    let allowed = "ADDRESS/LENGTH with all bits after LENGTH zero, such as 10.1.0.0/16 or ::/0";
    let parsed = raw.as_ref().parse::<Prefix>().ok();
    parsed
        .filter(|prefix| *prefix == prefix.canonical())
        .ok_or_else(|| Fault::value(key, raw, quoted(raw), allowed))
}

/// Returns the TCP address of the text interface. Off by default: every local account can connect to a TCP port.
pub(super) fn telnet(raw: Option<&Spanned<String>>) -> Result<Option<SocketAddr>, Fault> {
    let Some(raw) = raw.filter(|raw| raw.as_ref() != "off") else {
        return Ok(None);
    };
    match raw.as_ref().parse::<SocketAddr>() {
        // Only a loopback address: the text interface has no authentication, so other hosts must not reach it.
        Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
        _ => Err(Fault::value(
            "management.telnet",
            raw,
            quoted(raw),
            "\"off\", or a loopback address with a port such as 127.0.0.1:2009 or [::1]:2009",
        )),
    }
}

/// Returns how messages without a valid signature are treated.
pub(super) fn signatures(raw: Option<&Spanned<String>>) -> Result<Signatures, Fault> {
    let Some(raw) = raw else {
        return Ok(Signatures::Off);
    };
    match raw.as_ref().as_str() {
        "off" => Ok(Signatures::Off),
        "prefer" => Ok(Signatures::Prefer),
        "require" => Ok(Signatures::Require),
        _ => {
            let allowed = "\"off\", \"prefer\" or \"require\"";
            Err(Fault::value("signatures", raw, quoted(raw), allowed))
        }
    }
}

/// Returns the path of a UNIX socket; `None` if it is switched off.
pub(super) fn path(
    key: &str,
    raw: Option<&Spanned<String>>,
    default: impl FnOnce() -> PathBuf,
) -> Result<Option<PathBuf>, Fault> {
    let Some(raw) = raw else {
        return Ok(Some(default()));
    };
    match raw.as_ref().as_str() {
        "off" => Ok(None),
        path if path.starts_with('/') && path.len() <= SOCKET_PATH_MAX && !path.contains('\0') => {
            Ok(Some(PathBuf::from(path)))
        }
        _ => {
            let allowed =
                format!("\"off\", or an absolute path of at most {SOCKET_PATH_MAX} octets");
            Err(Fault::value(key, raw, quoted(raw), allowed))
        }
    }
}

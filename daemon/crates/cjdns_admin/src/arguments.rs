//! The arguments of a request, checked against the list of the function and then read with their types.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::net::{Ipv6Addr, SocketAddr};
use core::str::FromStr;
use core::time::Duration;

use cryptoauth::{Address, PublicKey};
use overlay::bencode::{Dictionary, Value};
use overlay::Contact;
use switch::Label;

use crate::router::{Page, Router};
use crate::words::own;

/// An argument that a function takes.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) kind: Kind,
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    String,
}

/// The arguments of a request. Each has the type in the function's list.
pub(crate) struct Arguments<'a> {
    fields: &'a Dictionary<'a>,
}

/// Text for people about what is wrong with a request.
pub(crate) type Wrong = String;

/// Longest time that a question may take. A longer timeout is cut to it.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a question for which none is given, as in cjdns.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of bytes of a bad value that a message repeats.
const SHOWN: usize = 80;

impl Kind {
    /// Returns its name in the protocol.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Int => "Int",
            Self::String => "String",
        }
    }

    const fn is_of(self, value: &Value<'_>) -> bool {
        matches!(
            (self, value),
            (Self::Int, Value::Integer(_)) | (Self::String, Value::String(_))
        )
    }
}

impl<'a> Arguments<'a> {
    /// Checks the arguments in `fields`. Arguments that the function does not know are ignored, as in cjdns.
    pub(crate) fn check(fields: &'a Dictionary<'a>, list: &[Argument]) -> Result<Self, Wrong> {
        for Argument {
            name,
            required,
            kind,
        } in list
        {
            let sound = match fields.get(name) {
                Some(value) => kind.is_of(value),
                None => !required,
            };
            if !sound {
                let required = if *required { "is required and " } else { "" };
                let kind = kind.name();
                return Err(format!("Entry [{name}] {required}must be of type [{kind}]"));
            }
        }
        Ok(Self { fields })
    }

    pub(crate) fn octets(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.string(name)
    }

    /// Returns a number that is in the range of its type.
    pub(crate) fn number<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>, Wrong> {
        let Some(number) = self.fields.integer(name) else {
            return Ok(None);
        };
        let wrong = |_| format!("{name} is {number}, which is out of range");
        T::try_from(number).map(Some).map_err(wrong)
    }

    /// Returns whether a number is given that is not 0.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.fields.integer(name).is_some_and(|number| number != 0)
    }

    pub(crate) fn page(&self, size: usize) -> Result<Page, Wrong> {
        let page: usize = self.number("page")?.unwrap_or(0);
        let first = page.saturating_mul(size);
        Ok(Page { first, size })
    }

    pub(crate) fn timeout(&self) -> Result<Duration, Wrong> {
        let asked = self.number("timeout")?.filter(|asked| *asked > 0);
        let timeout = asked.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        Ok(timeout.min(LONGEST_TIMEOUT))
    }

    pub(crate) fn address(&self, name: &str) -> Result<Option<Address>, Wrong> {
        let address = self.parsed::<Ipv6Addr>(name, "an IPv6 address")?;
        Ok(address.map(|address| Address::from_octets(address.octets())))
    }

    pub(crate) fn key(&self, name: &str) -> Result<Option<PublicKey>, Wrong> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let key = PublicKey::from_str(text?).map_err(|error| format!("{name}: {error}"))?;
        key.node_address()
            .map_err(|error| format!("{name}: {error}"))?;
        Ok(Some(key))
    }

    pub(crate) fn label(&self, name: &str) -> Result<Option<Label>, Wrong> {
        self.parsed(name, "a path such as 0000.0000.0000.0013")
    }

    pub(crate) fn socket(&self, name: &str) -> Result<Option<SocketAddr>, Wrong> {
        self.parsed(name, "ADDRESS:PORT, an IPv6 address in brackets")
    }

    /// Returns the address of an Ethernet interface, such as `01:02:03:04:05:06`.
    pub(crate) fn ethernet(&self, name: &str) -> Result<Option<[u8; 6]>, Wrong> {
        let address = self.parsed::<Ethernet>(name, "six octets such as 01:02:03:04:05:06")?;
        Ok(address.map(|Ethernet(octets)| octets))
    }

    /// Returns a node that is named by its path, by its address, or in full (`v22.0000.0000.0000.0013.KEY.k`).
    ///
    /// Only this router and nodes that it knows can be named by a path or an address alone.
    pub(crate) fn node(&self, name: &str, router: &dyn Router) -> Result<Contact, Wrong> {
        let text = self.text(name).unwrap_or(Ok(""))?;
        let own = own(router);
        let found = if let Ok(label) = Label::from_str(text) {
            match label {
                Label::SELF => Some(own),
                label => router.node_by(label),
            }
        } else if let Ok(address) = Ipv6Addr::from_str(text) {
            let address = Address::from_octets(address.octets());
            match address {
                address if address == own.key.address() => Some(own),
                address => router.node(address).map(|node| node.contact),
            }
        } else {
            let allowed = "a path, an address or v22.PATH.KEY.k";
            return contact(text).ok_or_else(|| not_allowed(name, text, allowed));
        };
        found.ok_or_else(|| "not_found".into())
    }

    fn text(&self, name: &str) -> Option<Result<&'a str, Wrong>> {
        let octets = self.fields.string(name)?;
        let wrong = |_| not_allowed(name, octets.escape_ascii(), "text");
        Some(core::str::from_utf8(octets).map_err(wrong))
    }

    fn parsed<T: FromStr>(&self, name: &str, allowed: &str) -> Result<Option<T>, Wrong> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let text = text?;
        let parsed = text.parse().map_err(|_| not_allowed(name, text, allowed))?;
        Ok(Some(parsed))
    }
}

struct Ethernet([u8; 6]);

impl FromStr for Ethernet {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let is_octet = |part: &&str| part.len() == 2 && !part.starts_with('+');
            let part = parts.next().filter(is_octet).ok_or(())?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        match parts.next() {
            Some(_) => Err(()),
            None => Ok(Self(octets)),
        }
    }
}

/// Parses the text form of a node in answers.
fn contact(text: &str) -> Option<Contact> {
    let (version, rest) = text.strip_prefix('v')?.split_once('.')?;
    let (path, key) = rest.split_at_checked("0000.0000.0000.0000".len())?;
    let key: PublicKey = key.strip_prefix('.')?.parse().ok()?;
    key.node_address().ok()?;
    Some(Contact {
        key,
        path: path.parse().ok()?,
        version: version.parse().ok()?,
    })
}

fn not_allowed(name: &str, value: impl fmt::Display, allowed: &str) -> Wrong {
    let value: String = format!("{value}")
        .chars()
        .filter(|character| !character.is_control())
        .take(SHOWN)
        .collect();
    format!("{name} is [{value}], allowed is {allowed}")
}

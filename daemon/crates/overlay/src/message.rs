//! DHT messages: the queries and answers of routers, bencoded, in inner sessions.
//!
//! | key | of | value |
//! |---|---|---|
//! | `p` | all | protocol version |
//! | `es`, `ei` | all | the sender's encoding scheme, and the form of its director towards the receiver |
//! | `txid` | all | chosen for the query, returned in the reply |
//! | `q` | queries | `pn`, `gp`, `fn`, `nh` |
//! | `tar` | queries | of `gp` a label or, to the node with this address, an address; of `fn` and `nh` an address |
//! | `n`, `np` | replies | nodes (public key and label, relative to the sender) and their protocol versions |

use alloc::vec::Vec;
use core::fmt;

use cryptoauth::{Address, PublicKey};
use switch::{Label, Scheme, SchemeError, MAX_SCHEME_OCTETS};

use crate::bencode::{BencodeError, Dictionary, Value};

/// Largest number of nodes in a reply of this node.
pub const NODES_PER_REPLY: usize = 8;

/// Largest number of nodes in a received reply. A cjdns node sends [`NODES_PER_REPLY`].
pub const MAX_NODES: usize = 32;

/// Largest length of a transaction identifier in octets. That of a cjdns node has 14.
pub const MAX_TXID: usize = 32;

/// Octets of a public key and a label.
const NODE_OCTETS: usize = 40;

/// A DHT message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's protocol version.
    pub version: u32,
    /// The sender's encoding scheme.
    pub scheme: Scheme,
    /// Index in `scheme` of the form in which the sender writes its first director to the receiver.
    pub form: u8,
    /// Identifies the query, in the reply too.
    pub txid: Txid,
    /// The query or the reply.
    pub body: Body,
}

/// A query or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A question.
    Query(Query),
    /// A reply. The one to [`Query::Ping`] is empty.
    Reply(Vec<Contact>),
}

/// The kinds of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// `pn`: asks whether the node is there.
    Ping,
    /// `gp`: asks for the neighbours with labels from this one on, the lowest first.
    Peers(Label),
    /// `gp` with an address: the last query of a cjdns node's search, to the node that it has found.
    ///
    /// A cjdns node answers it without nodes: the answer only confirms the path.
    Found(Address),
    /// `fn`: asks for the known nodes nearest to this address.
    Find(Address),
    /// `nh`: asks for the next node on the path to this address.
    NextHop(Address),
}

/// A node in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Its public key.
    pub key: PublicKey,
    /// The path to it, relative to the node that sent the reply.
    pub path: Label,
    /// Its protocol version.
    pub version: u32,
}

/// A transaction identifier: 1 to [`MAX_TXID`] octets, chosen by the sender of the query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Txid {
    octets: [u8; MAX_TXID],
    length: u8,
}

/// Why a message is refused. The sender is at fault: count and drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// It is not valid bencoding.
    Bencode(BencodeError),
    /// It is not a dictionary.
    NoDictionary,
    /// This key is missing, or its value has another type or range.
    Key(&'static str),
    /// The encoding scheme is invalid.
    Scheme(SchemeError),
    /// There is no such query.
    Query,
}

impl Txid {
    /// Returns the identifier, or `None` if there are no octets, or more than [`MAX_TXID`].
    #[must_use]
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mut all = [0; MAX_TXID];
        all.get_mut(..octets.len())?.copy_from_slice(octets);
        let length = octets.len() as u8;
        (length > 0).then_some(Self {
            octets: all,
            length,
        })
    }

    /// Returns the octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl fmt::Debug for Txid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.octets()
            .iter()
            .try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl Message {
    /// Decodes the payload of a frame of content type 256.
    ///
    /// # Errors
    ///
    /// Any [`MessageError`].
    pub fn decode(octets: &[u8]) -> Result<Self, MessageError> {
        let value = Value::decode(octets).map_err(MessageError::Bencode)?;
        let fields = value.as_dictionary().ok_or(MessageError::NoDictionary)?;
        let scheme = match fields.string("es") {
            Some(octets) => Scheme::decode(octets).map_err(MessageError::Scheme)?,
            None => return Err(MessageError::Key("es")),
        };
        let form = number::<u8>(fields, "ei")?;
        if usize::from(form) >= scheme.forms().len() {
            return Err(MessageError::Key("ei"));
        }
        let txid = fields
            .string("txid")
            .and_then(Txid::new)
            .ok_or(MessageError::Key("txid"))?;
        let body = match fields.get("q") {
            Some(query) => Body::Query(decode_query(query, fields)?),
            None => Body::Reply(decode_contacts(fields)?),
        };
        let version = number(fields, "p")?;
        Ok(Self {
            version,
            scheme,
            form,
            txid,
            body,
        })
    }

    /// Encodes the payload of a frame of content type 256.
    ///
    /// A reply contains at most the first [`MAX_NODES`] of its nodes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut scheme = [0; MAX_SCHEME_OCTETS];
        let length = self.scheme.encode(&mut scheme);
        let (mut nodes, mut versions) = (Vec::new(), Vec::new());
        let mut target = Vec::new();
        let mut fields = Dictionary::new();
        fields.insert(b"p", Value::Integer(self.version.into()));
        fields.insert(b"es", Value::String(&scheme[..length]));
        fields.insert(b"ei", Value::Integer(self.form.into()));
        fields.insert(b"txid", Value::String(self.txid.octets()));
        match &self.body {
            Body::Query(query) => {
                fields.insert(b"q", Value::String(query.name()));
                query.put_target(&mut target);
                if !target.is_empty() {
                    fields.insert(b"tar", Value::String(&target));
                }
            }
            Body::Reply(contacts) => {
                put_contacts(contacts, &mut nodes, &mut versions);
                if !nodes.is_empty() {
                    fields.insert(b"n", Value::String(&nodes));
                    fields.insert(b"np", Value::String(&versions));
                }
            }
        }
        let mut out = Vec::new();
        fields.encode(&mut out);
        out
    }
}

impl Query {
    const fn name(&self) -> &'static [u8] {
        match self {
            Self::Ping => b"pn",
            Self::Peers(_) | Self::Found(_) => b"gp",
            Self::Find(_) => b"fn",
            Self::NextHop(_) => b"nh",
        }
    }

    fn put_target(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ping => {}
            Self::Peers(label) => out.extend_from_slice(&label.0.to_be_bytes()),
            Self::Found(address) | Self::Find(address) | Self::NextHop(address) => {
                out.extend_from_slice(address.octets());
            }
        }
    }
}

fn number<T: TryFrom<i64>>(fields: &Dictionary, key: &'static str) -> Result<T, MessageError> {
    let value = fields
        .integer(key)
        .and_then(|value| T::try_from(value).ok());
    value.ok_or(MessageError::Key(key))
}

fn decode_query(query: &Value, fields: &Dictionary) -> Result<Query, MessageError> {
    let target = || fields.string("tar").unwrap_or_default();
    let address = || {
        target()
            .try_into()
            .map(Address::from_octets)
            .map_err(|_| MessageError::Key("tar"))
    };
    match query.as_string() {
        Some(b"pn") => Ok(Query::Ping),
        Some(b"gp") => {
            let label = target().try_into().map(u64::from_be_bytes);
            label.map_or_else(
                |_| address().map(Query::Found),
                |label| Ok(Query::Peers(Label(label))),
            )
        }
        Some(b"fn") => address().map(Query::Find),
        Some(b"nh") => address().map(Query::NextHop),
        Some(_) => Err(MessageError::Query),
        None => Err(MessageError::Key("q")),
    }
}

fn decode_contacts(fields: &Dictionary) -> Result<Vec<Contact>, MessageError> {
    let Some(nodes) = fields.get("n") else {
        return Ok(Vec::new());
    };
    let nodes = nodes.as_string().ok_or(MessageError::Key("n"))?;
    let count = nodes.len() / NODE_OCTETS;
    if nodes.len() % NODE_OCTETS != 0 || count > MAX_NODES {
        return Err(MessageError::Key("n"));
    }
    let versions = fields.string("np").unwrap_or_default();
    let versions = decode_versions(versions, count).ok_or(MessageError::Key("np"))?;
    let contacts = nodes.chunks_exact(NODE_OCTETS).zip(versions);
    contacts
        .map(|(node, version)| decode_contact(node, version))
        .collect()
}

fn decode_contact(node: &[u8], version: u32) -> Result<Contact, MessageError> {
    let (key, label) = node.split_first_chunk().ok_or(MessageError::Key("n"))?;
    let label = label.try_into().map_err(|_| MessageError::Key("n"))?;
    Ok(Contact {
        key: PublicKey::from_octets(*key),
        path: Label(u64::from_be_bytes(label)),
        version,
    })
}

/// Decodes versions: first the number of octets of each version, 1 to 4, then the versions.
fn decode_versions(octets: &[u8], count: usize) -> Option<Vec<u32>> {
    let (&width, versions) = octets.split_first()?;
    let width = usize::from(width);
    if !matches!(width, 1..=4) || versions.len() != count * width {
        return None;
    }
    let version = |octets: &[u8]| {
        octets
            .iter()
            .fold(0, |version, &octet| version << 8 | u32::from(octet))
    };
    Some(versions.chunks_exact(width).map(version).collect())
}

/// Appends nodes, and their versions in one octet each if they fit, otherwise in four.
fn put_contacts(contacts: &[Contact], nodes: &mut Vec<u8>, versions: &mut Vec<u8>) {
    let contacts = &contacts[..contacts.len().min(MAX_NODES)];
    let width = if contacts.iter().all(|contact| contact.version < 0xff) {
        1
    } else {
        4
    };
    versions.push(width);
    for contact in contacts {
        nodes.extend_from_slice(contact.key.octets());
        nodes.extend_from_slice(&contact.path.0.to_be_bytes());
        versions.extend_from_slice(&contact.version.to_be_bytes()[4 - usize::from(width)..]);
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Bencode(error) => write!(f, "DHT message: {error}"),
            Self::NoDictionary => write!(f, "DHT message: not a dictionary"),
            Self::Key(key) => write!(f, "DHT message: '{key}' is missing or invalid"),
            Self::Scheme(error) => write!(f, "DHT message: {error}"),
            Self::Query => write!(
                f,
                "DHT message: unknown query, allowed are pn, gp, fn and nh"
            ),
        }
    }
}

impl core::error::Error for MessageError {}

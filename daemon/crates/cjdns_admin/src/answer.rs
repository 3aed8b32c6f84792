//! Answers: dictionaries that own their values, and the way in which cjdns encodes them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use overlay::bencode::{Dictionary, Value};

/// cjdns pads the length of an answer's first key with zeros until the answer is a multiple of this many bytes long.
/// Its tools do not depend on this, but it makes answers identical byte for byte.
const ALIGNMENT: usize = 8;

/// A value of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Integer(i64),
    Text(Vec<u8>),
    List(Vec<Field>),
    Answer(Answer),
}

/// An answer, or a dictionary in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer(BTreeMap<&'static str, Field>);

impl Answer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Makes an answer whose `error` is `text`; `none` means success.
    pub(crate) fn error(text: impl Into<Field>) -> Self {
        Self::new().with("error", text)
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Field>) -> Self {
        self.0.insert(key, value.into());
        self
    }

    pub(crate) fn with_some(self, key: &'static str, value: Option<impl Into<Field>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Returns the bytes of the answer to the request `txid`.
    pub(crate) fn encode(&self, txid: Option<&[u8]>) -> Vec<u8> {
        let mut fields = self.fields();
        if let Some(txid) = txid {
            fields.insert(b"txid", Value::String(txid));
        }
        let mut out = Vec::new();
        fields.encode(&mut out);
        let padding = out.len().next_multiple_of(ALIGNMENT) - out.len();
        if out.len() > 2 {
            out.splice(1..1, core::iter::repeat_n(b'0', padding));
        }
        out
    }

    fn fields(&self) -> Dictionary<'_> {
        let mut fields = Dictionary::new();
        for (key, value) in &self.0 {
            fields.insert(key.as_bytes(), value.value());
        }
        fields
    }
}

impl Field {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(octets) => Value::String(octets),
            Self::List(fields) => Value::List(fields.iter().map(Self::value).collect()),
            Self::Answer(answer) => Value::Dictionary(answer.fields()),
        }
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text.into_bytes())
    }
}

impl From<Vec<u8>> for Field {
    fn from(octets: Vec<u8>) -> Self {
        Self::Text(octets)
    }
}

impl From<u32> for Field {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

/// Converts a number; one that does not fit becomes the highest number.
impl From<u64> for Field {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Field {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

/// Converts a truth value to 1 or 0, because the protocol has only numbers.
impl From<bool> for Field {
    fn from(truth: bool) -> Self {
        Self::Integer(truth.into())
    }
}

impl From<Answer> for Field {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl<T: Into<Field>> FromIterator<T> for Field {
    fn from_iter<I: IntoIterator<Item = T>>(fields: I) -> Self {
        Self::List(fields.into_iter().map(Into::into).collect())
    }
}

//! Bencoding: integers `i22e`, strings `4:txid`, lists `l..e`, dictionaries `d..e`.
//!
//! Encoding is canonical: the keys of a dictionary are sorted, and no number has leading zeros. Decoding is less
//! strict, because cjdns does not always sort keys, and pads the length of a dictionary's first key with zeros until
//! the message is a multiple of 8 octets long.

use alloc::vec::Vec;
use core::fmt;

/// Largest nesting depth of lists and dictionaries.
pub const MAX_DEPTH: usize = 8;

/// Largest number of values in a message, without keys. Bounds what is allocated.
pub const MAX_VALUES: usize = 512;

/// Largest number of digits of a number, including leading zeros and the sign.
const MAX_DIGITS: usize = 20;

/// A value. Its strings borrow the octets that were decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer.
    Integer(i64),
    /// A string of any octets.
    String(&'a [u8]),
    /// A list.
    List(Vec<Value<'a>>),
    /// A dictionary.
    Dictionary(Dictionary<'a>),
}

/// A dictionary, sorted by its keys. Each key occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary<'a> {
    entries: Vec<(&'a [u8], Value<'a>)>,
}

/// Malformed octets. The sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BencodeError {
    /// What is wrong.
    pub cause: BencodeCause,
    /// Where it is, in octets from the start.
    pub offset: usize,
}

/// The ways in which octets can be malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BencodeCause {
    /// The octets end inside a value.
    Truncated,
    /// No value starts with this octet.
    Type(u8),
    /// There is no number, or it exceeds 20 digits or 64 bits.
    Number,
    /// Lists and dictionaries are nested deeper than [`MAX_DEPTH`].
    Depth,
    /// There are more values than [`MAX_VALUES`].
    Values,
    /// A dictionary has a key twice. The offset is its end.
    Duplicate,
    /// A key is not a string, but starts with this octet.
    Key(u8),
    /// This number of octets follow the end.
    Trailing(usize),
}

impl BencodeError {
    /// Returns whether the error is an exceeded bound. The bounds keep a short message from allocating much memory.
    #[must_use]
    pub const fn is_bomb(&self) -> bool {
        matches!(self.cause, BencodeCause::Depth | BencodeCause::Values)
    }
}

impl<'a> Value<'a> {
    /// Decodes a value that consists of all the octets.
    ///
    /// # Errors
    ///
    /// Any [`BencodeError`].
    pub fn decode(octets: &'a [u8]) -> Result<Self, BencodeError> {
        let (value, length) = Self::decode_first(octets)?;
        match octets.len() - length {
            0 => Ok(value),
            rest => Err(BencodeCause::Trailing(rest).at(length)),
        }
    }

    /// Decodes the value at the start of the octets. Returns it and its number of octets.
    ///
    /// # Errors
    ///
    /// Any [`BencodeError`] except [`BencodeCause::Trailing`].
    pub fn decode_first(octets: &'a [u8]) -> Result<(Self, usize), BencodeError> {
        let mut reader = Reader {
            octets,
            position: 0,
            values: 0,
        };
        let value = reader.value(0)?;
        Ok((value, reader.position))
    }

    /// Appends the value's octets.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(number) => {
                out.push(b'i');
                put_number(*number < 0, number.unsigned_abs(), out);
                out.push(b'e');
            }
            Self::String(octets) => put_string(octets, out),
            Self::List(values) => {
                out.push(b'l');
                values.iter().for_each(|value| value.encode(out));
                out.push(b'e');
            }
            Self::Dictionary(dictionary) => dictionary.encode(out),
        }
    }

    /// Returns the integer, if the value is one.
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the string, if the value is one.
    #[must_use]
    pub const fn as_string(&self) -> Option<&'a [u8]> {
        match self {
            Self::String(octets) => Some(octets),
            _ => None,
        }
    }

    /// Returns the list, if the value is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the dictionary, if the value is one.
    #[must_use]
    pub const fn as_dictionary(&self) -> Option<&Dictionary<'a>> {
        match self {
            Self::Dictionary(dictionary) => Some(dictionary),
            _ => None,
        }
    }
}

impl<'a> Dictionary<'a> {
    /// Returns an empty dictionary.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Sets the value of a key. Returns the previous value.
    pub fn insert(&mut self, key: &'a [u8], value: Value<'a>) -> Option<Value<'a>> {
        match self.entries.binary_search_by_key(&key, |(key, _)| key) {
            Ok(index) => Some(core::mem::replace(&mut self.entries[index].1, value)),
            Err(index) => {
                self.entries.insert(index, (key, value));
                None
            }
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        let index = self
            .entries
            .binary_search_by_key(&key.as_bytes(), |(key, _)| key)
            .ok()?;
        Some(&self.entries[index].1)
    }

    /// Returns the integer of a key, or `None` if there is no such key or its value is not an integer.
    #[must_use]
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_integer()
    }

    /// Returns the string of a key, or `None` if there is no such key or its value is not a string.
    #[must_use]
    pub fn string(&self, key: &str) -> Option<&'a [u8]> {
        self.get(key)?.as_string()
    }

    /// Returns keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &Value<'a>)> {
        self.entries.iter().map(|(key, value)| (*key, value))
    }

    /// Appends the dictionary's octets.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(b'd');
        for (key, value) in &self.entries {
            put_string(key, out);
            value.encode(out);
        }
        out.push(b'e');
    }
}

fn put_string(octets: &[u8], out: &mut Vec<u8>) {
    put_number(false, octets.len() as u64, out);
    out.push(b':');
    out.extend_from_slice(octets);
}

fn put_number(negative: bool, magnitude: u64, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    let start = out.len();
    let mut rest = magnitude;
    loop {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out[start..].reverse();
}

struct Reader<'a> {
    octets: &'a [u8],
    position: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    /// Reads one value. Recursion is limited to [`MAX_DEPTH`].
    fn value(&mut self, depth: usize) -> Result<Value<'a>, BencodeError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(BencodeCause::Values.at(self.position));
        }
        let first = self.peek()?;
        if matches!(first, b'l' | b'd') && depth == MAX_DEPTH {
            return Err(BencodeCause::Depth.at(self.position));
        }
        match first {
            b'i' => self.integer().map(Value::Integer),
            b'0'..=b'9' => self.string().map(Value::String),
            b'l' => self.list(depth + 1).map(Value::List),
            b'd' => self.dictionary(depth + 1).map(Value::Dictionary),
            other => Err(BencodeCause::Type(other).at(self.position)),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value<'a>>, BencodeError> {
        self.position += 1;
        let mut values = Vec::new();
        while self.peek()? != b'e' {
            values.push(self.value(depth)?);
        }
        self.position += 1;
        Ok(values)
    }

    fn dictionary(&mut self, depth: usize) -> Result<Dictionary<'a>, BencodeError> {
        self.position += 1;
        let mut entries = Vec::new();
        loop {
            match self.peek()? {
                b'e' => break,
                b'0'..=b'9' => entries.push((self.string()?, self.value(depth)?)),
                other => return Err(BencodeCause::Key(other).at(self.position)),
            }
        }
        entries.sort_unstable_by_key(|(key, _)| *key);
        if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(BencodeCause::Duplicate.at(self.position));
        }
        self.position += 1;
        Ok(Dictionary { entries })
    }

    fn integer(&mut self) -> Result<i64, BencodeError> {
        self.position += 1;
        self.number(b'e')
    }

    fn string(&mut self) -> Result<&'a [u8], BencodeError> {
        let start = self.position;
        let length = self.number(b':')?;
        let length = usize::try_from(length).map_err(|_| BencodeCause::Number.at(start))?;
        let rest = &self.octets[self.position..];
        let string = rest
            .get(..length)
            .ok_or(BencodeCause::Truncated.at(self.octets.len()))?;
        self.position += length;
        Ok(string)
    }

    /// Reads a number and the octet `end` after it.
    fn number(&mut self, end: u8) -> Result<i64, BencodeError> {
        let start = self.position;
        let malformed = BencodeCause::Number.at(start);
        let rest = &self.octets[start..];
        let window = &rest[..rest.len().min(MAX_DIGITS + 1)];
        let length = match window.iter().position(|&octet| octet == end) {
            Some(length) => length,
            None if window
                .iter()
                .any(|octet| !octet.is_ascii_digit() && *octet != b'-') =>
            {
                return Err(malformed)
            }
            None if rest.len() <= MAX_DIGITS => {
                return Err(BencodeCause::Truncated.at(self.octets.len()))
            }
            None => return Err(malformed),
        };
        let digits = &rest[..length];
        let signed = digits.first().is_some_and(|&octet| octet != b'+');
        let text = core::str::from_utf8(digits).ok().filter(|_| signed);
        let number = text.and_then(|text| text.parse().ok()).ok_or(malformed)?;
        self.position += length + 1;
        Ok(number)
    }

    fn peek(&self) -> Result<u8, BencodeError> {
        let octet = self.octets.get(self.position).copied();
        octet.ok_or(BencodeCause::Truncated.at(self.position))
    }
}

impl BencodeCause {
    const fn at(self, offset: usize) -> BencodeError {
        BencodeError {
            cause: self,
            offset,
        }
    }
}

impl fmt::Display for BencodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "bencoding, octet {}: ", self.offset)?;
        match self.cause {
            BencodeCause::Truncated => write!(f, "ends inside a value"),
            BencodeCause::Type(octet) => {
                write!(
                    f,
                    "'{}' starts no value, allowed are i, l, d and digits",
                    octet.escape_ascii()
                )
            }
            BencodeCause::Number => {
                write!(
                    f,
                    "a number must have at most {MAX_DIGITS} digits and 64 bits"
                )
            }
            BencodeCause::Depth => write!(
                f,
                "lists and dictionaries are nested more than {MAX_DEPTH} deep"
            ),
            BencodeCause::Values => write!(f, "more than {MAX_VALUES} values"),
            BencodeCause::Duplicate => write!(f, "a repeated key"),
            BencodeCause::Key(octet) => write!(
                f,
                "'{}' starts no string, but a key must be one",
                octet.escape_ascii()
            ),
            BencodeCause::Trailing(rest) => write!(f, "{rest} octets after the end"),
        }
    }
}

impl core::error::Error for BencodeError {}

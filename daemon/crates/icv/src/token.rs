//! Tokens: they show, before a signature is verified, that a message may be worth it.
//!
//! Whoever sends false messages in a router's name can copy everything from a true one but its signature, and a
//! verification costs too much to try all of them. So each message carries a token, whose hash is the token of the
//! message before. Nobody but its sender can say the next one, and to check one costs a few hashes.
//!
//! A token proves nothing: whoever has heard it can put it into a message of his own. It only decides which messages are
//! verified although there are too many.
//!
//! Tokens come in chains of [`CHAIN`]: the last token of a chain is random, and each other one is the hash of its
//! successor. The last messages of a chain also carry the hash of the first token of the next chain.

use core::fmt;

use rfc5444::iana::message_tlv;
use rfc5444::Tlv;
use sha2::{Digest, Sha256};

/// The type extension of the TIMESTAMP message TLV that carries a token.
pub const TOKEN_EXTENSION: u8 = 253;
/// Octets of a token. To find one from its hash takes 2^64 attempts, and it is worth something for seconds.
pub const TOKEN_LENGTH: usize = 8;
/// Octets of a token's secret.
pub const SECRET_LENGTH: usize = 32;
/// How many tokens after the last known one a token is recognised: so many messages less one may be lost.
pub const REACH: usize = 8;

/// Tokens of a chain. A new token costs as many hashes at most, twice as many near its end.
const CHAIN: usize = 64;
/// The last tokens of a chain, which come with what leads to the next chain.
const LAST: usize = 2 * REACH;
/// What is hashed before a token, and before a secret.
const TOKEN_DOMAIN: &[u8] = b"meshsec OLSRv2 token 1\0";
const CHAIN_DOMAIN: &[u8] = b"meshsec OLSRv2 chain 1\0";

/// A number that only its sender knew before.
pub type Token = [u8; TOKEN_LENGTH];

/// The tokens of one stream of messages: the HELLOs of an interface, or the flooded messages.
pub struct Tokens {
    secret: [u8; SECRET_LENGTH],
    chain: u64,
    used: usize,
}

impl Tokens {
    /// Returns new tokens. No other stream may have the same secret and number.
    pub fn new(secret: &[u8; SECRET_LENGTH], number: u64) -> Self {
        let hash = Sha256::new()
            .chain_update(CHAIN_DOMAIN)
            .chain_update(secret)
            .chain_update(number.to_be_bytes());
        Self {
            secret: hash.finalize().into(),
            chain: 0,
            used: 0,
        }
    }

    /// Returns the TLV with the next token.
    pub fn next_tlv(&mut self) -> Tlv {
        let mut value = self.at(self.chain, CHAIN - 1 - self.used).to_vec();
        if self.used >= CHAIN - LAST {
            value.extend(self.at(self.chain + 1, CHAIN));
        }
        self.used += 1;
        if self.used == CHAIN {
            (self.chain, self.used) = (self.chain + 1, 0);
        }
        Tlv::new(message_tlv::TIMESTAMP, TOKEN_EXTENSION, value)
    }

    /// Returns the token of a chain that is so many hashes before its last one.
    fn at(&self, chain: u64, hashes: usize) -> Token {
        let hash = Sha256::new()
            .chain_update(CHAIN_DOMAIN)
            .chain_update(self.secret)
            .chain_update(chain.to_be_bytes());
        let last = shortened(&hash.finalize());
        (0..hashes).fold(last, |token, _| before(&token))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

/// What a message says of its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The token.
    pub token: Token,
    /// The hash of the next chain's first token, in the last messages of a chain.
    pub next_chain: Option<Token>,
}

impl Shown {
    /// Reads the token of a message; `None` when it has not exactly one, or one of another length.
    pub fn read(tlvs: &[Tlv]) -> Option<Self> {
        let is_token = |tlv: &&Tlv| tlv.is(message_tlv::TIMESTAMP, TOKEN_EXTENSION);
        let mut found = tlvs.iter().filter(is_token);
        let (Some(tlv), None) = (found.next(), found.next()) else {
            return None;
        };
        let (token, rest) = tlv.value.split_first_chunk()?;
        let next_chain = match rest {
            [] => None,
            rest => Some(rest.try_into().ok()?),
        };
        Some(Self {
            token: *token,
            next_chain,
        })
    }

    /// Returns what is known once the token has been heard, if it comes at most [`REACH`] messages after the one that
    /// shows `known`; else `None`. What the message says of the next chain, anybody can have written.
    pub fn after(&self, known: &Self) -> Option<Self> {
        let mut token = self.token;
        for _ in 0..REACH {
            token = before(&token);
            if token == known.token {
                let token = self.token;
                return Some(Self { token, ..*known });
            }
            if Some(token) == known.next_chain {
                let (token, next_chain) = (self.token, None);
                return Some(Self { token, next_chain });
            }
        }
        None
    }
}

/// Returns the token before this one.
fn before(token: &Token) -> Token {
    let hash = Sha256::new().chain_update(TOKEN_DOMAIN).chain_update(token);
    shortened(&hash.finalize())
}

fn shortened(hash: &[u8]) -> Token {
    let mut token = Token::default();
    token.copy_from_slice(&hash[..TOKEN_LENGTH]);
    token
}

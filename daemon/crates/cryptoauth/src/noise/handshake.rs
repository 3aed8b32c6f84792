//! The Noise IKpsk2 handshake (The Noise Protocol Framework, revision 34, sections 5, 7.5 and 9) in the form of
//! WireGuard.

use blake2::{Blake2s256, Digest};
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::additional::Additional;
use super::cookie::{check_mac1, put_macs, Cookie};
use super::message::{
    addressee, field, index, put_index, Addressee, Timestamp, BODY, CONTROL, FIRST_INDEX, INIT,
    INIT_EPHEMERAL, INIT_LENGTH, INIT_STATIC, INIT_TIMESTAMP, MACS, REPLY, REPLY_EMPTY,
    REPLY_EPHEMERAL, REPLY_LENGTH, REPLY_RECEIVER,
};
use super::transport::Transport;
use crate::auth::{mac, Preshared, Secret};
use crate::sealed::TAG;
use crate::{Ciphers, Local, PrivateKey, PublicKey, Refused, SealError, UserId, KEY_LENGTH};

const CONSTRUCTION: &[u8] = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";
const STATIC_LENGTH: usize = INIT_STATIC.end - INIT_STATIC.start - TAG;
const TIMESTAMP_LENGTH: usize = INIT_TIMESTAMP.end - INIT_TIMESTAMP.start - TAG;

/// The state of the handshake that both ends share.
#[derive(Clone)]
struct Symmetric {
    chain: Secret,
    hash: [u8; 32],
}

/// An INIT that this node sent, and that waits for its REPLY.
pub(super) struct Initiation {
    symmetric: Symmetric,
    ephemeral: PrivateKey,
    pub(super) index: u32,
}

/// The content of an INIT.
pub(super) struct Saying<'a> {
    pub(super) index: u32,
    pub(super) timestamp: Timestamp,
    pub(super) additional: Additional,
    pub(super) cookie: Option<&'a Cookie>,
}

/// An authentic INIT. Anybody may have created or repeated it: compare its peer with the expected one.
pub struct Request {
    ciphers: &'static dyn Ciphers,
    symmetric: Symmetric,
    ephemeral: PublicKey,
    preshared: Option<Secret>,
    pub(super) sender: u32,
    pub(super) timestamp: Timestamp,
    peer: PublicKey,
    user: Option<UserId>,
    additional: Additional,
}

impl Request {
    /// Opens an INIT. This takes two scalar multiplications, unless its length, its first MAC or its user is wrong.
    ///
    /// # Errors
    ///
    /// The reason for which the INIT is refused.
    pub fn open(local: &Local, require_auth: bool, frame: &[u8]) -> Result<Self, Refused> {
        if addressee(frame)? != Addressee::Node {
            return Err(Refused::StrayKey);
        }
        check_mac1(local.public(), frame)?;
        let mut symmetric = Symmetric::new(local.public());
        let ephemeral = PublicKey::from_octets(field(frame, INIT_EPHEMERAL.start));
        symmetric.mix_ephemeral(&ephemeral);
        let key = symmetric.mix_agreed(local.private(), &ephemeral)?;
        let peer = PublicKey::from_octets(symmetric.open(
            &key,
            &field::<{ STATIC_LENGTH + TAG }>(frame, INIT_STATIC.start),
        )?);
        if peer == *local.public() {
            return Err(Refused::OwnKey);
        }
        let key = symmetric.mix_agreed(local.private(), &peer)?;
        let timestamp = field::<{ TIMESTAMP_LENGTH + TAG }>(frame, INIT_TIMESTAMP.start);
        let timestamp = Timestamp(symmetric.open(&key, &timestamp)?);
        let additional =
            symmetric.open_additional(&key, &frame[INIT_TIMESTAMP.end..frame.len() - MACS])?;
        let mut request = Self {
            ciphers: local.ciphers(),
            symmetric,
            ephemeral,
            preshared: None,
            sender: index(frame, FIRST_INDEX),
            timestamp,
            peer,
            user: None,
            additional,
        };
        request.authenticate(local, require_auth)?;
        Ok(request)
    }

    /// Returns the public key of the sender.
    pub fn peer(&self) -> &PublicKey {
        &self.peer
    }

    /// Returns the user as which the peer wants to connect. Only its first data proves that it knows the password.
    pub fn user(&self) -> Option<UserId> {
        self.user
    }

    /// Returns the protocol version that the peer claims.
    pub fn version(&self) -> Option<u32> {
        self.additional.version
    }

    /// Returns the index of the [`Link`](super::Link) that the peer claims to continue. It is only a hint: compare the
    /// keys.
    pub fn previous(&self) -> Option<u32> {
        self.additional.previous
    }

    fn authenticate(&mut self, local: &Local, required: bool) -> Result<(), Refused> {
        let Some(lookup) = self.additional.preshared else {
            return if required {
                Err(Refused::AuthRequired)
            } else {
                Ok(())
            };
        };
        let user = local
            .users
            .find_noise(&lookup)
            .ok_or(Refused::UnknownUser(lookup[0]))?;
        let address = self.peer.address();
        if user.only.is_some_and(|only| only != address) {
            return Err(Refused::WrongAddress(address));
        }
        self.user = Some(user.id);
        self.preshared = Some(user.noise.key.clone());
        Ok(())
    }

    /// Writes the REPLY. Returns the responder's keys.
    pub(super) fn reply<R: CryptoRng + ?Sized>(
        mut self,
        rng: &mut R,
        index: u32,
        frame: &mut [u8; REPLY_LENGTH],
    ) -> Result<Transport, Refused> {
        let own = ephemeral(rng);
        let symmetric = &mut self.symmetric;
        let public = own.public();
        symmetric.mix_ephemeral(&public);
        symmetric.mix_agreed(&own, &self.ephemeral)?;
        symmetric.mix_agreed(&own, &self.peer)?;
        let key = symmetric.mix_preshared(self.preshared.as_ref());
        begin(frame, REPLY, index);
        put_index(frame, REPLY_RECEIVER, self.sender);
        frame[REPLY_EPHEMERAL].copy_from_slice(public.octets());
        symmetric.seal(&key, &mut frame[REPLY_EMPTY]);
        put_macs(&self.peer, None, frame);
        let [receive, send] = symmetric.split();
        let keys = [send, receive];
        Ok(Transport::new(self.ciphers, keys, index, self.sender))
    }
}

impl Initiation {
    /// Writes an INIT. Returns its length in octets, and what is needed to process the REPLY.
    pub(super) fn new<R: CryptoRng + ?Sized>(
        local: &Local,
        peer: &PublicKey,
        rng: &mut R,
        saying: &Saying,
        frame: &mut [u8],
    ) -> Result<(usize, Self), SealError> {
        let Saying {
            index,
            timestamp,
            cookie,
            ..
        } = *saying;
        let additional = saying.additional.encode();
        let length = INIT_LENGTH + TAG + additional.octets().len();
        let frame = frame.get_mut(..length).ok_or(SealError::Room(0, length))?;
        let own = ephemeral(rng);
        let public = own.public();
        let mut symmetric = Symmetric::new(peer);
        begin(frame, INIT, index);
        frame[INIT_EPHEMERAL].copy_from_slice(public.octets());
        symmetric.mix_ephemeral(&public);
        let key = symmetric
            .mix_agreed(&own, peer)
            .map_err(|_| SealError::NoKeys)?;
        frame[INIT_STATIC][..KEY_LENGTH].copy_from_slice(local.public().octets());
        symmetric.seal(&key, &mut frame[INIT_STATIC]);
        let key = symmetric
            .mix_agreed(local.private(), peer)
            .map_err(|_| SealError::NoKeys)?;
        frame[INIT_TIMESTAMP][..TIMESTAMP_LENGTH].copy_from_slice(&timestamp.0);
        symmetric.seal(&key, &mut frame[INIT_TIMESTAMP]);
        let sealed = &mut frame[INIT_TIMESTAMP.end..length - MACS];
        sealed[..additional.octets().len()].copy_from_slice(additional.octets());
        symmetric.clone().seal(&key, sealed);
        put_macs(peer, cookie, frame);
        Ok((
            length,
            Self {
                symmetric,
                ephemeral: own,
                index,
            },
        ))
    }

    /// Processes the REPLY to this INIT. Returns the initiator's keys.
    pub(super) fn finish(
        &self,
        local: &Local,
        preshared: Option<&Preshared>,
        frame: &[u8],
    ) -> Result<Transport, Refused> {
        check_mac1(local.public(), frame)?;
        if index(frame, REPLY_RECEIVER) != self.index {
            return Err(Refused::StrayKey);
        }
        let mut symmetric = self.symmetric.clone();
        let theirs = PublicKey::from_octets(field(frame, REPLY_EPHEMERAL.start));
        symmetric.mix_ephemeral(&theirs);
        symmetric.mix_agreed(&self.ephemeral, &theirs)?;
        symmetric.mix_agreed(local.private(), &theirs)?;
        let key = symmetric.mix_preshared(preshared.map(|preshared| &preshared.key));
        symmetric.open::<TAG, 0>(&key, &field(frame, REPLY_EMPTY.start))?;
        let [send, receive] = symmetric.split();
        Ok(Transport::new(
            local.ciphers(),
            [send, receive],
            self.index,
            index(frame, FIRST_INDEX),
        ))
    }
}

impl Symmetric {
    fn new(responder: &PublicKey) -> Self {
        let chain: [u8; 32] = Blake2s256::digest(CONSTRUCTION).into();
        let hash = hash(&[&chain, IDENTIFIER]);
        let mut symmetric = Self {
            chain: Zeroizing::new(chain),
            hash,
        };
        symmetric.mix_hash(responder.octets());
        symmetric
    }

    fn mix_hash(&mut self, data: &[u8]) {
        self.hash = hash(&[&self.hash, data]);
    }

    fn mix_ephemeral(&mut self, key: &PublicKey) {
        self.mix_hash(key.octets());
        self.chain = expand(&mac(&*self.chain, &[key.octets()]))[0].clone();
    }

    /// Mixes an X25519 secret in. Returns the resulting key.
    fn mix_agreed(&mut self, own: &PrivateKey, other: &PublicKey) -> Result<Secret, Refused> {
        let agreed = own.agree(other).ok_or(Refused::WeakKey)?;
        let [chain, key, _] = expand(&mac(&*self.chain, &[&*agreed]));
        self.chain = chain;
        Ok(key)
    }

    /// Mixes the preshared key in, or zeros if there is none. Returns the resulting key.
    fn mix_preshared(&mut self, preshared: Option<&Secret>) -> Secret {
        let none = Secret::default();
        let [chain, temporary, key] = expand(&mac(&*self.chain, &[&**preshared.unwrap_or(&none)]));
        self.chain = chain;
        self.mix_hash(&*temporary);
        key
    }

    /// Returns the key from initiator to responder, and the key back.
    fn split(&self) -> [Secret; 2] {
        let [first, second, _] = expand(&mac(&*self.chain, &[]));
        [first, second]
    }

    /// Seals the octets before the last [`TAG`] in place.
    fn seal(&mut self, key: &Secret, space: &mut [u8]) {
        let (content, tag) = space.split_at_mut(space.len() - TAG);
        let sealed =
            cipher(key).encrypt_in_place_detached(&Default::default(), &self.hash, content);
        tag.copy_from_slice(&sealed.expect("a message is shorter than 2^38 octets"));
        self.mix_hash(space);
    }

    /// Opens `N` octets that end in a tag.
    fn open<const N: usize, const M: usize>(
        &mut self,
        key: &Secret,
        sealed: &[u8; N],
    ) -> Result<[u8; M], Refused> {
        let (content, tag) = sealed.split_at(N - TAG);
        let mut opened = [0; M];
        opened.copy_from_slice(content);
        let result = cipher(key).decrypt_in_place_detached(
            &Default::default(),
            &self.hash,
            &mut opened,
            tag.into(),
        );
        result.map_err(|_| Refused::Forged)?;
        self.mix_hash(sealed);
        Ok(opened)
    }

    /// Opens the additional data, which is not part of the hash.
    fn open_additional(&self, key: &Secret, sealed: &[u8]) -> Result<Additional, Refused> {
        let Some(length) = sealed.len().checked_sub(TAG) else {
            return Ok(Additional::default());
        };
        let mut space = [0; super::additional::MAX_LENGTH];
        let opened = space.get_mut(..length).ok_or(Refused::Additional)?;
        opened.copy_from_slice(&sealed[..length]);
        let tag = (&sealed[length..]).into();
        let result =
            cipher(key).decrypt_in_place_detached(&Default::default(), &self.hash, opened, tag);
        result.map_err(|_| Refused::Forged)?;
        Additional::decode(opened)
    }
}

fn begin(frame: &mut [u8], kind: u32, index: u32) {
    frame[..BODY].copy_from_slice(&CONTROL);
    put_index(frame, BODY, kind);
    put_index(frame, FIRST_INDEX, index);
}

fn ephemeral<R: CryptoRng + ?Sized>(rng: &mut R) -> PrivateKey {
    let mut octets = Zeroizing::new([0; KEY_LENGTH]);
    rng.fill_bytes(&mut *octets);
    PrivateKey::from_octets(*octets)
}

fn cipher(key: &Secret) -> ChaCha20Poly1305 {
    ChaCha20Poly1305::new((&**key).into())
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut state = Blake2s256::new();
    parts.iter().for_each(|part| state.update(part));
    state.finalize().into()
}

/// Returns the outputs of HKDF (RFC 5869, section 2.3, over HMAC-BLAKE2s) for an extracted key.
fn expand(extracted: &Secret) -> [Secret; 3] {
    let first = mac(&**extracted, &[&[1]]);
    let second = mac(&**extracted, &[&*first, &[2]]);
    let third = mac(&**extracted, &[&*second, &[3]]);
    [first, second, third]
}

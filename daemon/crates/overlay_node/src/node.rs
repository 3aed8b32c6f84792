//! The node: what a caller sees of it.

use core::ops::Range;

use cryptoauth::{Address, Credential, DuplicateUser, Local, PublicKey, UserId};
use overlay::Store;
use rand_core::CryptoRng;
use switch::Label;

use crate::beacon::Beacon;
use crate::config::{Admission, Config};
use crate::counters::Counters;
use crate::event::{Event, PingId};
use crate::interface::{Beacons, Destination, InterfaceId, LinkAddress};
use crate::view::{PeerView, SessionView};
use crate::Time;

/// What is to be done with a part of the caller's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// To be sent to a neighbour.
    Transmit {
        /// By which interface.
        interface: InterfaceId,
        /// To which address there.
        to: LinkAddress,
        /// Where in the buffer the frame is.
        frame: Range<usize>,
    },
    /// To be given to this machine.
    Deliver {
        /// Where in the buffer the IPv6 packet is.
        packet: Range<usize>,
    },
}

/// Something that the node says by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// By which interface.
    pub interface: InterfaceId,
    /// To whom.
    pub to: Destination,
    /// Where in the buffer it is.
    pub frame: Range<usize>,
}

/// A neighbour that is configured.
#[derive(Clone)]
pub struct Connection {
    /// By which interface.
    pub interface: InterfaceId,
    /// Its address there.
    pub to: LinkAddress,
    /// Its key.
    pub key: PublicKey,
    /// What it wants to be shown.
    pub credential: Option<Credential>,
}

/// Why a neighbour cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectError {
    /// There is no such interface.
    Interface,
    /// It is this node's own key, or no node's.
    Key,
    /// Another neighbour is configured with this address.
    Address,
    /// There is no room for one more neighbour.
    Full,
}

/// A node of the overlay.
pub struct Node {
    local: Local,
    address: Address,
    config: Config,
    counters: Counters,
}

impl Node {
    /// A node without interfaces and neighbours.
    ///
    /// # Errors
    ///
    /// [`cryptoauth::KeyError::Address`], when the key's address is not a node's.
    pub fn new<R: CryptoRng + ?Sized>(
        config: Config,
        now: Time,
        rng: &mut R,
    ) -> Result<Self, cryptoauth::KeyError> {
        let local = Local::new(config.key.clone());
        let address = local.public().node_address()?;
        let _ = (now, rng);
        Ok(Self {
            local,
            address,
            config,
            counters: Counters::default(),
        })
    }

    /// This node's public key.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        self.local.public()
    }

    /// This node's address.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Opens a datagram that came from `from`, a part of `buffer` with [`HEAD_ROOM`](crate::HEAD_ROOM) before and
    /// [`TAIL_ROOM`](crate::TAIL_ROOM) after it.
    ///
    /// After it [`Node::poll_transmit`] may have something: always when it was no data, seldom when it was.
    pub fn receive<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        interface: InterfaceId,
        from: &LinkAddress,
        buffer: &mut [u8],
        frame: Range<usize>,
    ) -> Verdict {
        let _ = (now, rng, interface, from, buffer, frame);
        Verdict::Nothing
    }

    /// Takes a beacon, without the framing that marked it as one.
    pub fn receive_beacon(
        &mut self,
        now: Time,
        interface: InterfaceId,
        from: &LinkAddress,
        beacon: &[u8],
    ) {
        let _ = (now, interface, from, Beacon::decode(beacon));
    }

    /// Seals an IPv6 packet of this machine, header included: a part of `buffer` with [`HEAD_ROOM`](crate::HEAD_ROOM)
    /// before and [`TAIL_ROOM`](crate::TAIL_ROOM) after it.
    ///
    /// When there is no way or no session yet, the packet is copied and comes out of [`Node::poll_transmit`] as soon as it can.
    pub fn send_packet<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        buffer: &mut [u8],
        packet: Range<usize>,
    ) -> Verdict {
        let _ = (now, rng, buffer, packet);
        Verdict::Nothing
    }

    /// Writes the next thing that the node says by itself into `out`; `None` when there is nothing. `out` has
    /// [`TRANSMIT_ROOM`](crate::TRANSMIT_ROOM) octets, or more for longer packets that waited.
    pub fn poll_transmit<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        out: &mut [u8],
    ) -> Option<Transmission> {
        let _ = (now, rng, out);
        None
    }

    /// The next change.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// When [`Node::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        Time::MAX
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }
}

/// Management.
impl Node {
    /// Adds an interface.
    pub fn add_interface<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        beacons: Beacons,
    ) -> InterfaceId {
        let _ = (now, rng, beacons);
        InterfaceId(0)
    }

    /// Removes an interface, and all neighbours that are reached by it.
    pub fn remove_interface(&mut self, now: Time, interface: InterfaceId) {
        let _ = (now, interface);
    }

    /// Changes what an interface has to do with beacons; `false` when there is none.
    pub fn set_beacons<R: CryptoRng + ?Sized>(
        &mut self,
        now: Time,
        rng: &mut R,
        interface: InterfaceId,
        beacons: Beacons,
    ) -> bool {
        let _ = (now, rng, interface, beacons);
        false
    }

    /// Lets everybody become a neighbour who knows `password`, with `only` if his key has that address.
    ///
    /// # Errors
    ///
    /// [`DuplicateUser`]
    pub fn add_user(
        &mut self,
        login: Option<&[u8]>,
        password: &[u8],
        only: Option<Address>,
    ) -> Result<UserId, DuplicateUser> {
        self.local.users.add(login, password, only)
    }

    /// Lets a user in no more, and disconnects who came in as him; says whether there was one.
    pub fn remove_user(&mut self, now: Time, user: UserId) -> bool {
        let _ = now;
        self.local.users.remove(user)
    }

    /// Makes a node a neighbour.
    ///
    /// # Errors
    ///
    /// Any [`ConnectError`].
    pub fn connect(&mut self, now: Time, connection: Connection) -> Result<(), ConnectError> {
        let _ = (now, connection);
        Ok(())
    }

    /// Parts from a neighbour, whoever began; says whether there was one. It can come again if it knows a password.
    pub fn disconnect(&mut self, now: Time, key: &PublicKey) -> bool {
        let _ = (now, key);
        false
    }

    /// Exchanges user data with others from now on. Packets of those that are not permitted any more are dropped at once.
    pub fn admit(&mut self, admission: Admission) {
        self.config.admission = admission;
    }

    /// Asks whatever switch a label leads to, this node's own at [`Label::SELF`]; with `for_key` also for its key.
    pub fn ping_switch(&mut self, now: Time, label: Label, for_key: bool) -> PingId {
        let _ = (now, label, for_key);
        PingId(0)
    }

    /// Asks a node, in its inner session, by the best way or by `label`; looks for a way when there is none.
    pub fn ping_node(&mut self, now: Time, address: Address, label: Option<Label>) -> PingId {
        let _ = (now, address, label);
        PingId(0)
    }

    /// The neighbours, in no order.
    pub fn peers(&self) -> impl Iterator<Item = PeerView> + '_ {
        core::iter::empty()
    }

    /// The inner sessions, in the order of this node's handles.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> + '_ {
        core::iter::empty()
    }

    /// The nodes of which ways are known.
    #[must_use]
    pub fn store(&self) -> &Store {
        todo!("comes with the finder")
    }

    /// What was dropped, and what passed.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}

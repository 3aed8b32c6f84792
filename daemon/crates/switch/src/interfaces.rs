//! The interfaces of a switch: one for each neighbour, and one for this node's router.

/// The number of an interface: 0 to 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface(u16);

impl Interface {
    /// Largest possible number of interfaces.
    pub const COUNT: u16 = 257;

    /// This node's own router.
    pub const ROUTER: Self = Self(1);

    /// Returns the interface with this number, or `None` if no interface can have it.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number < Self::COUNT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Returns the interface with a number from a director, which is never out of range.
    pub(crate) const fn from_director(number: u16) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

const WORDS: usize = Interface::COUNT.div_ceil(64) as usize;

/// The set of existing interfaces. The router's always exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interfaces {
    used: [u64; WORDS],
}

impl Interfaces {
    /// Returns the interfaces of a switch without neighbours.
    #[must_use]
    pub const fn new() -> Self {
        let mut used = [0; WORDS];
        used[0] = 1 << Interface::ROUTER.0;
        Self { used }
    }

    /// Adds the lowest free interface, because low numbers have short directors. Returns `None` if all are in use.
    pub fn add(&mut self) -> Option<Interface> {
        let free = (0..Interface::COUNT)
            .map(Interface)
            .find(|&interface| !self.contains(interface))?;
        self.insert(free);
        Some(free)
    }

    /// Adds this interface. Returns whether it was free.
    pub fn insert(&mut self, interface: Interface) -> bool {
        let (word, bit) = position(interface);
        let was_free = self.used[word] & bit == 0;
        self.used[word] |= bit;
        was_free
    }

    /// Removes an interface. The router's stays.
    pub fn remove(&mut self, interface: Interface) {
        if interface != Interface::ROUTER {
            let (word, bit) = position(interface);
            self.used[word] &= !bit;
        }
    }

    /// Returns whether an interface exists.
    #[must_use]
    pub fn contains(&self, interface: Interface) -> bool {
        let (word, bit) = position(interface);
        self.used[word] & bit != 0
    }

    /// Returns the existing interfaces, ordered by number.
    pub fn iter(&self) -> impl Iterator<Item = Interface> + '_ {
        (0..Interface::COUNT)
            .map(Interface)
            .filter(|&interface| self.contains(interface))
    }
}

impl Default for Interfaces {
    fn default() -> Self {
        Self::new()
    }
}

fn position(interface: Interface) -> (usize, u64) {
    (usize::from(interface.0 / 64), 1 << (interface.0 % 64))
}

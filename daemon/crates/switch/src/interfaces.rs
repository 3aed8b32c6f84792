//! The interfaces of a switch: one for each neighbour, and one for its own router.

/// The number of an interface: 0 to 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface(u16);

impl Interface {
    /// How many there can be.
    pub const COUNT: u16 = 257;

    /// The own router.
    pub const ROUTER: Self = Self(1);

    /// `None` when there can be no interface of that number.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number < Self::COUNT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// For directors, whose values cannot be out of range.
    pub(crate) const fn from_director(number: u16) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

const WORDS: usize = Interface::COUNT.div_ceil(64) as usize;

/// Which interfaces exist. The router's always does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interfaces {
    used: [u64; WORDS],
}

impl Interfaces {
    /// A switch without neighbours.
    #[must_use]
    pub const fn new() -> Self {
        let mut used = [0; WORDS];
        used[0] = 1 << Interface::ROUTER.0;
        Self { used }
    }

    /// Takes the lowest interface that is free, because low numbers have short
    /// directors; `None` when all are taken.
    pub fn add(&mut self) -> Option<Interface> {
        let free = (0..Interface::COUNT)
            .map(Interface)
            .find(|&interface| !self.contains(interface))?;
        self.insert(free);
        Some(free)
    }

    /// Takes a certain interface; says whether it was free.
    pub fn insert(&mut self, interface: Interface) -> bool {
        let (word, bit) = position(interface);
        let was_free = self.used[word] & bit == 0;
        self.used[word] |= bit;
        was_free
    }

    /// Gives an interface back. The router's stays.
    pub fn remove(&mut self, interface: Interface) {
        if interface != Interface::ROUTER {
            let (word, bit) = position(interface);
            self.used[word] &= !bit;
        }
    }

    /// Whether there is such an interface.
    #[must_use]
    pub fn contains(&self, interface: Interface) -> bool {
        let (word, bit) = position(interface);
        self.used[word] & bit != 0
    }

    /// All that exist, in the order of their numbers.
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

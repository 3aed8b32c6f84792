//! Sets that a reader sends in several lines. One is put in force as a whole or not at all.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Largest number of addresses of a set: three for each of ten thousand routers.
const ENTRIES_MAX: usize = 32_768;

/// Which portion of a set a line has.
#[derive(Clone, Copy)]
pub struct Portion {
    /// Its number, from 0. One without a number follows the one before it, or is the first.
    pub portion: Option<u64>,
    /// More follow.
    pub more: bool,
}

type Set<V> = BTreeMap<IpAddr, V>;

/// The sets of which not all portions have arrived, by reader.
pub struct Portions<V> {
    command: &'static str,
    /// The number of the next portion with the entries so far; `None` where a portion was refused: the rest is, too.
    sets: BTreeMap<u32, Option<(u64, Set<V>)>>,
}

impl<V> Portions<V> {
    /// Returns no sets yet of this command.
    pub fn new(command: &'static str) -> Self {
        Self {
            command,
            sets: BTreeMap::new(),
        }
    }

    /// Adds a portion. Returns the set when it is whole.
    ///
    /// # Errors
    /// The portion is `refused`, does not follow the one before it, or makes the set too large. The portions after it
    /// are refused up to the last one, or until a set begins with the number 0.
    pub fn add(
        &mut self,
        reader: u32,
        portion: Portion,
        entries: Result<Vec<(IpAddr, V)>, String>,
    ) -> Result<Option<Set<V>>, String> {
        let before = self.sets.remove(&reader);
        match self.joined(before, portion.portion, entries) {
            Ok((_, set)) if !portion.more => Ok(Some(set)),
            Ok(gathered) => {
                self.sets.insert(reader, Some(gathered));
                Ok(None)
            }
            Err(reason) => {
                if portion.more {
                    self.sets.insert(reader, None);
                }
                Err(reason)
            }
        }
    }

    /// Refuses the rest of a reader's set, because a line of it cannot be read.
    pub fn break_off(&mut self, reader: u32) {
        self.sets.entry(reader).and_modify(|set| *set = None);
    }

    /// Forgets what a reader has sent.
    pub fn forget(&mut self, reader: u32) {
        self.sets.remove(&reader);
    }

    /// Forgets what all readers have sent.
    pub fn clear(&mut self) {
        self.sets.clear();
    }

    fn joined(
        &self,
        before: Option<Option<(u64, Set<V>)>>,
        number: Option<u64>,
        entries: Result<Vec<(IpAddr, V)>, String>,
    ) -> Result<(u64, Set<V>), String> {
        let (next, mut set) = match (before, number) {
            (_, Some(0)) | (None, None) => (0, Set::new()),
            (Some(Some((next, set))), found) if found.is_none_or(|found| found == next) => {
                (next, set)
            }
            _ => {
                let command = self.command;
                return Err(format!(
                    "{command}: a portion before this one is missing; send all portions again"
                ));
            }
        };
        set.extend(entries?);
        if set.len() > ENTRIES_MAX {
            let command = self.command;
            return Err(format!("{command}: at most {ENTRIES_MAX} addresses"));
        }
        Ok((next + 1, set))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const READER: u32 = 1;

    /// A portion that says these addresses, or one that is refused.
    fn add(
        portions: &mut Portions<()>,
        portion: Option<u64>,
        more: bool,
        said: Result<&[u32], &str>,
    ) -> Result<Option<Vec<u32>>, ()> {
        let entry = |number: &u32| (Ipv4Addr::from_bits(*number).into(), ());
        let entries = said.map(|numbers| numbers.iter().map(entry).collect());
        let number = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(_) => unreachable!("all are IPv4"),
        };
        let added = portions.add(
            READER,
            Portion { portion, more },
            entries.map_err(String::from),
        );
        let numbers = |set: Set<()>| set.into_keys().map(number).collect();
        added.map(|set| set.map(numbers)).map_err(|_| ())
    }

    #[test]
    fn a_set_is_whole_after_its_last_portion_with_numbers_and_without() {
        for numbers in [[None; 3], [Some(0), Some(1), Some(2)]] {
            let mut portions = Portions::new("trust");
            assert_eq!(add(&mut portions, numbers[0], true, Ok(&[1])), Ok(None));
            assert_eq!(add(&mut portions, numbers[1], true, Ok(&[2])), Ok(None));
            let all = Ok(Some(vec![1, 2, 3]));
            assert_eq!(add(&mut portions, numbers[2], false, Ok(&[3])), all);
            let next = Ok(Some(vec![4]));
            assert_eq!(add(&mut portions, None, false, Ok(&[4])), next);
        }
    }

    #[test]
    fn a_portion_after_a_refused_one_is_refused_and_not_the_whole_set() {
        for numbers in [[None; 3], [Some(0), Some(1), Some(2)]] {
            for bad in 0..3 {
                let mut portions = Portions::new("trust");
                let said = |number| {
                    if number == bad {
                        Err("bad")
                    } else {
                        Ok(&[7][..])
                    }
                };
                for (number, portion) in numbers.into_iter().enumerate() {
                    let added = add(&mut portions, portion, number < 2, said(number));
                    let expected = if number < bad { Ok(None) } else { Err(()) };
                    assert_eq!(added, expected, "{number} after {bad}");
                }
                let next = Ok(Some(vec![8]));
                assert_eq!(add(&mut portions, None, false, Ok(&[8])), next);
            }
        }
    }

    #[test]
    fn a_portion_that_is_missing_breaks_the_set_off() {
        let mut portions = Portions::new("trust");
        assert_eq!(add(&mut portions, Some(1), false, Ok(&[1])), Err(()));
        assert_eq!(add(&mut portions, Some(0), true, Ok(&[1])), Ok(None));
        assert_eq!(add(&mut portions, Some(2), true, Ok(&[3])), Err(()));
        assert_eq!(add(&mut portions, Some(3), false, Ok(&[4])), Err(()));
        assert_eq!(add(&mut portions, Some(0), true, Ok(&[1])), Ok(None));
        portions.break_off(READER);
        assert_eq!(add(&mut portions, None, true, Ok(&[2])), Err(()));
        // Who numbers its portions may begin again at once.
        assert_eq!(add(&mut portions, Some(0), true, Ok(&[5])), Ok(None));
        let all = Ok(Some(vec![5, 6]));
        assert_eq!(add(&mut portions, Some(1), false, Ok(&[6])), all);
        portions.break_off(READER);
        assert_eq!(
            add(&mut portions, None, false, Ok(&[9])),
            Ok(Some(vec![9])),
            "there was no set to break off"
        );
    }

    #[test]
    fn a_set_that_is_too_large_is_not_shortened() {
        let most: Vec<u32> = (0..ENTRIES_MAX as u32).collect();
        let mut portions = Portions::new("trust");
        assert_eq!(add(&mut portions, Some(0), true, Ok(&most)), Ok(None));
        assert_eq!(add(&mut portions, Some(1), true, Ok(&[u32::MAX])), Err(()));
        assert_eq!(add(&mut portions, Some(2), false, Ok(&[1])), Err(()));
    }
}

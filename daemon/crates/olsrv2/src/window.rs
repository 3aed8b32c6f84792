//! Which counters of a sender were taken in already.

/// How far below the newest counter an older one may still arrive, so that messages may overtake each other.
const WIDTH: u64 = u64::BITS as u64;

/// The newest counter, and which of those just below it were taken in. Older ones count as taken in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    newest: Option<u64>,
    /// Bit `n` stands for the counter that is `n` lower than the newest.
    seen: u64,
}

impl Window {
    /// Returns whether a counter may be taken in.
    pub(crate) fn is_new(&self, counter: u64) -> bool {
        match self
            .newest
            .map(|newest| (newest, newest.checked_sub(counter)))
        {
            None | Some((_, None)) => true,
            Some((_, Some(age))) => age < WIDTH && self.seen & 1 << age == 0,
        }
    }

    /// Returns the highest counter that was taken in.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Records a counter for which [`Window::is_new`] is true.
    pub(crate) fn take(&mut self, counter: u64) {
        let newest = self.newest.unwrap_or(counter);
        match newest.checked_sub(counter) {
            Some(age) => self.seen |= 1 << age,
            None => {
                let step = counter - newest;
                self.seen = if step < WIDTH { self.seen << step } else { 0 } | 1;
            }
        }
        self.newest = Some(newest.max(counter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn taken(counters: &[u64]) -> Window {
        let mut window = Window::default();
        counters.iter().for_each(|counter| window.take(*counter));
        window
    }

    #[test]
    fn each_counter_is_new_once() {
        let window = taken(&[10, 12]);
        let new: Vec<u64> = (8..15).filter(|counter| window.is_new(*counter)).collect();
        assert_eq!(new, [8, 9, 11, 13, 14]);
    }

    #[test]
    fn what_is_too_old_is_not_new() {
        let window = taken(&[1000]);
        assert!(window.is_new(1000 - 63) && !window.is_new(1000 - 64) && !window.is_new(0));
    }

    #[test]
    fn a_leap_forgets_nothing() {
        for leap in [1, 63, 64, 65, 1 << 40] {
            let window = taken(&[5, 5 + leap]);
            assert!(!window.is_new(5) && !window.is_new(5 + leap), "{leap}");
            assert!(window.is_new(5 + leap - 1) == (leap != 1), "{leap}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_counters_like_others() {
        let window = taken(&[0, u64::MAX]);
        assert!(!window.is_new(0) && !window.is_new(u64::MAX) && window.is_new(u64::MAX - 1));
        assert!(!taken(&[0]).is_new(0) && Window::default().is_new(0));
    }
}

//! Keeps the memory of a process, which contains keys, out of core dumps, out of reach of other programs of its user
//! and, if its limit allows, out of swap.

use rustix::mm::{mlockall, MlockAllFlags};
use rustix::process::{getrlimit, set_dumpable_behavior, DumpableBehavior, Resource};

/// Keeps this process's memory private. A failure is only logged, because it is no reason not to protect traffic.
pub fn keep_private() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        log::warn!("the memory of this process may be dumped: prctl: {error}");
    }
    // With a limit, an allocation beyond it would fail from now on.
    if getrlimit(Resource::Memlock).current.is_some() {
        log::debug!("memory is not locked: LimitMEMLOCK= is not infinity");
        return;
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(flags) {
        log::warn!("the memory of this process may be swapped: mlockall: {error}");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn what_keeps_its_memory_private_cannot_be_dumped() {
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        keep_private();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
}

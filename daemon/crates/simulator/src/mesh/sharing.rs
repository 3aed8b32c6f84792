//! Signatures that are verified once for all routers, so that a thousand of them can be simulated.
//!
//! Each router still counts its verification. Their number times what one takes is what all routers would take.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use icv::{Claim, Fault};
use rfc5444::covered_octets;

use super::Mesh;

/// Messages that are remembered, more than are on their way at a time.
const MOST: usize = 8192;

type Verdict = Result<(), Fault>;

#[derive(Default)]
struct Shared {
    /// By originator and covered octets. A message whose claim differs is verified itself.
    known: HashMap<(IpAddr, Vec<u8>), (Claim, Verdict)>,
    times: Vec<Duration>,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::default();
}

impl Mesh {
    /// Lets all running routers share verified signatures.
    pub fn share_verifications(&mut self) {
        let routers = self.nodes.iter_mut();
        let running = routers.filter_map(|node| node.router.as_mut());
        running.for_each(|router| router.set_verify(verify_once));
    }
}

/// Returns how long each signature took that this thread has verified for routers which share since the last call.
pub fn verifications() -> Vec<Duration> {
    SHARED.with_borrow_mut(|shared| std::mem::take(&mut shared.times))
}

fn verify_once(claim: &Claim, originator: IpAddr, message: &[u8]) -> Verdict {
    let Ok(covered) = covered_octets(message) else {
        return claim.verify(originator, message);
    };
    let key = (originator, covered);
    SHARED.with_borrow_mut(|shared| match shared.known.get(&key) {
        Some((known, verdict)) if known == claim => *verdict,
        _ => {
            if shared.known.len() >= MOST {
                shared.known.clear();
            }
            let began = Instant::now();
            let verdict = claim.verify(originator, message);
            shared.times.push(began.elapsed());
            shared.known.insert(key, (*claim, verdict));
            verdict
        }
    })
}

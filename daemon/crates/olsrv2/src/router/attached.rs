//! The networks that the router announces while it runs.

use alloc::vec::Vec;

use nhdp::Time;

use super::Router;
use crate::config::Attached;

impl Router {
    /// Replaces the local attached network set (RFC 7181, section 7.2). A TC announces the change at once, but for the
    /// shortest interval between two TCs.
    pub fn set_attached(&mut self, now: Time, attached: Vec<Attached>) {
        if self.config.attached == attached {
            return;
        }
        self.advance(now);
        self.config.attached = attached;
        let (instances, mut ctx) = self.parts(now);
        for instance in instances {
            instance.attached_changed(&mut ctx);
        }
        self.settle(now);
    }
}

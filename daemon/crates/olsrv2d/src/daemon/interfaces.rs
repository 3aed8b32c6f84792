//! The kernel's interfaces and addresses, and what they mean for the router.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use olsrv2::{HelloTiming, InterfaceId, Time};

use super::{originators, Daemon, BURST, RETRY};
use crate::links::Links;
use crate::netlink::{Notice, Received};
use crate::nl80211::Mac;

impl Daemon {
    /// Announces the hardware address in the HELLOs of wireless interfaces. Neighbours find our station by it.
    pub(super) fn announce_hardware_addresses(&mut self) {
        let Some(radio) = &self.radio else { return };
        let wireless: BTreeMap<u32, Mac> = radio.wireless().collect();
        for index in self.manet.names().keys() {
            let mac = wireless.get(index).copied();
            self.router.set_hardware_address(InterfaceId(*index), mac);
        }
    }

    pub(super) fn take_notices(&mut self, now: Time) -> io::Result<()> {
        let mut changed = false;
        for _ in 0..BURST {
            match self.monitor.receive()? {
                Received::Nothing => break,
                Received::Notices(notices) => {
                    for notice in notices {
                        changed |= self.take_notice(now, notice);
                    }
                }
                Received::Overrun => {
                    log::info!("netlink: notices were lost; all links, addresses and routes are read again");
                    self.fib.suspect(now);
                    self.reread_links(now);
                    changed = true;
                }
            }
        }
        if changed {
            self.follow_links(now);
        }
        Ok(())
    }

    /// Reads all links and addresses again. If that fails, the next attempt follows after [`RETRY`].
    pub(super) fn reread_links(&mut self, now: Time) {
        let links = self.requests.links();
        match links.and_then(|links| Ok(Links::new(links, self.requests.addresses()?))) {
            Ok(links) => {
                self.links = links;
                self.reread_due = None;
            }
            Err(error) => {
                log::error!("links cannot be listed: {error}");
                self.reread_due = Some(now + RETRY);
            }
        }
    }

    /// Processes a notice. Returns whether the links changed.
    pub(super) fn take_notice(&mut self, now: Time, notice: Notice) -> bool {
        match &notice {
            Notice::Route { routes, replaced } => self.fib.observe(now, routes, *replaced),
            Notice::LinkGone(index) => self.fib.forget_interface(now, *index),
            Notice::Link(link) if !link.admin_up => self.fib.forget_interface(now, link.index),
            _ => {}
        }
        let about_address = matches!(notice, Notice::Address(_) | Notice::AddressGone(_));
        let changed = self.links.apply(notice);
        if changed && about_address {
            // The kernel may have dropped routes with this source, and those over an interface without another address.
            self.fib.suspect(now);
        }
        changed
    }

    /// Adapts the router and the sockets to changed links or a changed configuration.
    pub(super) fn follow_links(&mut self, now: Time) {
        let connected = self.links.connected(&self.config.interfaces);
        if originators(&self.config, &self.links) != self.originators || connected != self.connected
        {
            self.reconfigure(now);
        }
        self.synchronise_interfaces(now);
    }

    /// Reconfigures the router. Readers whose greeting names old originators are disconnected.
    pub(super) fn reconfigure(&mut self, now: Time) {
        let originators = originators(&self.config, &self.links);
        let before = std::mem::replace(&mut self.originators, originators);
        self.connected = self.links.connected(&self.config.interfaces);
        let mut config = self.config.router(
            &self.originators,
            &self.connected,
            self.first_sequence_number,
        );
        // The announced networks are the router's until `announce` changes them.
        config.attached.clone_from(&self.router.config().attached);
        self.router.reconfigure(now, config);
        self.announce(now);
        if self.originators != before {
            self.log_originators();
            if let Some(changes) = &mut self.changes {
                changes.restart();
            }
        }
    }

    pub(super) fn synchronise_interfaces(&mut self, now: Time) {
        let originator = self.originator_v4();
        let result = self.manet.synchronise(
            &self.config.interfaces,
            &self.links,
            originator,
            &self.reactor,
        );
        self.sockets_due = result.incomplete.then_some(now + RETRY);
        self.time_hellos(now);
        self.watch_stations(now);
        for event in result.events {
            log::info!("{}", self.manet.describe(&event));
            self.router.handle_interface(now, event);
            self.drain(now);
        }
    }

    /// Sets the HELLO timing of each interface in the router.
    pub(super) fn time_hellos(&mut self, now: Time) {
        for (index, name) in self.manet.names() {
            let timing = self.config.hellos.get(name).map(|timing| HelloTiming {
                interval: timing.interval,
                validity: timing.validity,
            });
            self.router
                .set_hello_timing(now, InterfaceId(*index), timing);
        }
    }

    pub(super) fn originator_v4(&self) -> Option<Ipv4Addr> {
        self.originators.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
    }
}

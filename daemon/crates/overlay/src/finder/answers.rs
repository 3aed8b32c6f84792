//! Answers queries of other nodes.

use alloc::vec::Vec;

use cryptoauth::Address;
use switch::{label_for, Label, PROTOCOL_VERSION};

use super::Finder;
use crate::message::{Body, Contact, Query, Txid, NODES_PER_REPLY};

impl Finder {
    /// Returns this node's answer to a query, with labels that start here, the lowest or the nearest first.
    #[must_use]
    pub fn consult(&self, query: Query) -> Vec<Contact> {
        let mut contacts = self.contacts(query, self.itself());
        contacts.reverse();
        contacts
    }

    const fn itself(&self) -> Contact {
        Contact {
            key: self.own,
            path: Label::SELF,
            version: PROTOCOL_VERSION,
        }
    }

    pub(super) fn answer(&mut self, from: Contact, txid: Txid, query: Query) {
        let contacts = self.contacts(query, from);
        self.send(from, Some(txid), Body::Reply(contacts));
    }

    fn contacts(&self, query: Query, from: Contact) -> Vec<Contact> {
        match query {
            Query::Ping | Query::Found(_) => Vec::new(),
            Query::Peers(start) => self.peers_from(start, from),
            Query::Find(target) => self.near(target, from, NODES_PER_REPLY),
            Query::NextHop(target) => self.near(target, from, 1),
        }
    }

    /// Returns this node and the neighbours with the lowest labels not below `start`, the highest label first.
    fn peers_from(&self, start: Label, from: Contact) -> Vec<Contact> {
        let start = start.first_hop();
        let peers = self.peers.values().filter(|peer| peer.path >= start);
        let own = (start <= Label::SELF).then_some(self.itself());
        let all = own
            .into_iter()
            .chain(peers.filter_map(|peer| reported_to(from, *peer)));
        let mut contacts: Vec<_> = all.take(NODES_PER_REPLY).collect();
        contacts.reverse();
        contacts
    }

    /// Returns the proved nodes nearest to an address, the nearest last, without the asker and the nodes behind it.
    fn near(&self, target: Address, from: Contact, limit: usize) -> Vec<Contact> {
        let is_behind = |path: Label| from.path != Label::SELF && path.leads_through(from.path);
        let useful = |contact: &Contact| contact.key != from.key && !is_behind(contact.path);
        let nearest = self.store.nearest(target, limit, useful);
        let mut contacts: Vec<_> = nearest
            .into_iter()
            .filter_map(|contact| reported_to(from, contact))
            .collect();
        contacts.reverse();
        contacts
    }
}

/// Returns a node as `asker` may use it, or `None` if the asker's frames would have no space for the path back.
fn reported_to(asker: Contact, contact: Contact) -> Option<Contact> {
    let path = label_for(contact.path, asker.path)?;
    Some(Contact { path, ..contact })
}

//! Links between nodes.

use super::{Mesh, NodeId, Port, RADIO};

impl Mesh {
    /// Lets two radios hear each other.
    pub fn connect(&mut self, a: NodeId, b: NodeId) {
        self.connect_ports(
            Port {
                node: a,
                interface: RADIO,
            },
            Port {
                node: b,
                interface: RADIO,
            },
        );
    }

    /// Lets two interfaces hear each other, and takes them up if they are new.
    pub fn connect_ports(&mut self, a: Port, b: Port) {
        for (from, to) in [(a, b), (b, a)] {
            if self.nodes[from.node].interfaces.insert(from.interface) {
                self.interface_up(from);
            }
            self.connect_one_way(from, to);
        }
    }

    /// Lets `to` hear `from`.
    pub fn connect_one_way(&mut self, from: Port, to: Port) {
        self.nodes[from.node].listeners.insert((from.interface, to));
    }

    /// Cuts all connections between two nodes. Their interfaces do not notice.
    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        for (from, to) in [(a, b), (b, a)] {
            self.nodes[from]
                .listeners
                .retain(|(_, port)| port.node != to);
        }
    }

    /// Lets exactly these pairs of radios hear each other.
    pub fn set_radio_pairs(&mut self, pairs: &[(NodeId, NodeId)]) {
        self.nodes
            .iter_mut()
            .for_each(|node| node.listeners.clear());
        pairs.iter().for_each(|(a, b)| self.connect(*a, *b));
    }
}

//! Read-only views of the information bases, for management and for events.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nhdp::{Family, InterfaceId, LinkStatus, NeighbourId, Time};
use rfc5444::{Metric, Prefix};

use crate::extension::{
    link_metric_in, neighbour_metrics, symmetric_links, Neighbours, OlsrLink, OlsrNeighbour,
};

/// A local interface (RFC 6130, section 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceView {
    /// The interface.
    pub interface: InterfaceId,
    /// Its addresses as announced in HELLO messages, a borrowed one included.
    pub addresses: Vec<IpAddr>,
}

/// A link tuple (RFC 6130, section 7.1; RFC 7181, section 8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// The local interface.
    pub interface: InterfaceId,
    /// The address from which the neighbour sent its last HELLO.
    pub address: IpAddr,
    /// L_neighbor_iface_addr_list.
    pub addresses: Vec<IpAddr>,
    /// The neighbour's originator, if it has sent one.
    pub originator: Option<IpAddr>,
    /// L_status.
    pub status: LinkStatus,
    /// L_in_metric: from the neighbour to this router.
    pub metric_in: Option<Metric>,
    /// L_out_metric: from this router to the neighbour, as the neighbour says.
    pub metric_out: Option<Metric>,
    /// Whether this router selected the neighbour as flooding MPR.
    pub is_flooding_mpr: bool,
    /// L_mpr_selector: whether the neighbour selected this router as flooding MPR on this link.
    pub is_flooding_selector: bool,
    /// N_will_flooding.
    pub flooding_willingness: u8,
    /// The neighbour's hardware address, if its HELLO announces it.
    pub mac: Option<[u8; 6]>,
    /// The interval between the neighbour's HELLOs, as announced; zero if not announced.
    pub hello_interval: Duration,
    /// The validity time of the neighbour's HELLOs, as announced.
    pub hello_validity: Duration,
    /// L_HEARD_time; in the past when the link is not heard.
    pub heard_until: Time,
    /// L_SYM_time; in the past when the link is not symmetric.
    pub symmetric_until: Time,
    /// L_time: when the tuple is removed.
    pub expires: Time,
}

/// A neighbour tuple (RFC 6130, section 8.1; RFC 7181, section 9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourView {
    /// The address family.
    pub family: Family,
    /// N_orig_addr, if the neighbour has sent one.
    pub originator: Option<IpAddr>,
    /// The originator of the same router in the other family, if its HELLO announces it.
    pub other_originator: Option<IpAddr>,
    /// N_neighbor_addr_list.
    pub addresses: Vec<IpAddr>,
    /// N_symmetric.
    pub symmetric: bool,
    /// How many link tuples it has.
    pub links: usize,
    /// N_in_metric.
    pub metric_in: Option<Metric>,
    /// N_out_metric.
    pub metric_out: Option<Metric>,
    /// N_routing_mpr: whether this router selected it as routing MPR.
    pub is_routing_mpr: bool,
    /// N_flooding_mpr: whether this router selected it as flooding MPR.
    pub is_flooding_mpr: bool,
    /// N_mpr_selector: whether it selected this router as routing MPR.
    pub is_routing_selector: bool,
    /// N_will_routing.
    pub routing_willingness: u8,
    /// N_will_flooding.
    pub flooding_willingness: u8,
    /// Whether its newest HELLO was signed.
    pub signs: bool,
}

/// A 2-hop tuple (RFC 6130, section 7.2; RFC 7181, section 8.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoHopView {
    /// The local interface.
    pub interface: InterfaceId,
    /// The address of the link through which it was heard of, see [`LinkView::address`].
    pub link_address: IpAddr,
    /// The originator of the neighbour in between.
    pub neighbour_originator: Option<IpAddr>,
    /// N2_2hop_addr.
    pub address: IpAddr,
    /// N2_in_metric: from the 2-hop neighbour to the neighbour.
    pub metric_in: Option<Metric>,
    /// N2_out_metric: from the neighbour to the 2-hop neighbour.
    pub metric_out: Option<Metric>,
    /// N2_time.
    pub expires: Time,
}

/// An advertising remote router tuple (RFC 7181, section 10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// AR_orig_addr.
    pub originator: IpAddr,
    /// AR_seq_number.
    pub ansn: u16,
    /// Whether its newest TC was signed.
    pub signs: bool,
    /// AR_time.
    pub expires: Time,
}

/// A router topology tuple or a routable address topology tuple (RFC 7181, sections 10.2 and 10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeView {
    /// TR_from_orig_addr or TA_from_orig_addr.
    pub from: IpAddr,
    /// TR_to_orig_addr or TA_dest_addr.
    pub to: IpAddr,
    /// Whether `to` is an originator (a router topology tuple).
    pub to_originator: bool,
    /// TR_metric or TA_metric.
    pub metric: Metric,
    /// TR_seq_number or TA_seq_number.
    pub ansn: u16,
    /// Whether both ends have signed the link, and `to` had heard `from` lately when the last message of either was
    /// taken in. The other direction is another edge.
    pub confirmed: bool,
    /// TR_time or TA_time.
    pub expires: Time,
}

/// An attached network tuple (RFC 7181, section 10.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedView {
    /// AN_net_addr.
    pub prefix: Prefix,
    /// AN_orig_addr.
    pub originator: IpAddr,
    /// AN_dist in hops.
    pub distance: u8,
    /// AN_metric.
    pub metric: Metric,
    /// AN_seq_number.
    pub ansn: u16,
    /// AN_time.
    pub expires: Time,
}

/// A routing tuple (RFC 7181, section 10.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteView {
    /// R_dest_addr.
    pub destination: Prefix,
    /// R_next_iface_addr: the address of the neighbour's interface.
    pub next_hop: IpAddr,
    /// R_local_iface_addr as an interface.
    pub interface: InterfaceId,
    /// The source address for the destination: this router's originator.
    pub source: IpAddr,
    /// R_metric.
    pub metric: u32,
    /// R_dist in hops.
    pub hops: u8,
    /// The originator of the router that has or announces the destination.
    pub originator: IpAddr,
    /// The originator of the next router on the path.
    pub next_originator: IpAddr,
    /// The originator of the last router before `originator`; this router's own when `hops` is 1.
    pub last_originator: IpAddr,
    /// Whether both ends have signed every link of the path. Without signatures, whether no link is denied.
    pub confirmed: bool,
}

impl LinkView {
    pub(crate) fn of(link: &OlsrLink, neighbour: Option<&OlsrNeighbour>, default: Metric) -> Self {
        let ext = neighbour.map(|neighbour| &neighbour.ext);
        Self {
            interface: link.interface,
            address: link.source,
            addresses: link.addresses.iter().copied().collect(),
            originator: ext.and_then(|ext| ext.originator),
            status: link.status,
            metric_in: Some(link_metric_in(link, default))
                .filter(|_| link.status >= LinkStatus::Heard),
            metric_out: link.ext.metric_out.filter(|_| link.is_symmetric()),
            is_flooding_mpr: link.ext.flooding_mpr,
            is_flooding_selector: link.ext.selector && link.is_symmetric(),
            flooding_willingness: ext.map_or(0, |ext| ext.will_flooding),
            mac: link.ext.mac,
            hello_interval: link.hello_interval.unwrap_or_default(),
            hello_validity: link.hello_validity,
            heard_until: link.heard_until,
            symmetric_until: link.symmetric_until,
            expires: link.expires,
        }
    }

    pub(crate) fn differs_in_time_only(&self, other: &Self) -> bool {
        let timeless = |view: &Self| Self {
            heard_until: Time::ZERO,
            symmetric_until: Time::ZERO,
            expires: Time::ZERO,
            ..view.clone()
        };
        timeless(self) == timeless(other)
    }
}

impl TwoHopView {
    /// The 2-hop tuples of a link.
    pub(crate) fn of<'a>(
        link: &'a OlsrLink,
        neighbour: Option<&'a OlsrNeighbour>,
    ) -> impl Iterator<Item = Self> + 'a {
        let neighbour_originator = neighbour.and_then(|neighbour| neighbour.ext.originator);
        link.two_hops.iter().map(move |(address, two_hop)| Self {
            interface: link.interface,
            link_address: link.source,
            neighbour_originator,
            address: *address,
            metric_in: two_hop.ext.metric_in,
            metric_out: two_hop.ext.metric_out,
            expires: two_hop.expires,
        })
    }
}

impl NeighbourView {
    pub(crate) fn of(
        nhdp: &Neighbours,
        family: Family,
        id: NeighbourId,
        neighbour: &OlsrNeighbour,
        default: Metric,
    ) -> Self {
        let metrics = neighbour_metrics(nhdp, id, default);
        Self {
            family,
            originator: neighbour.ext.originator,
            other_originator: neighbour.ext.other_originator,
            addresses: neighbour.addresses.iter().copied().collect(),
            symmetric: neighbour.symmetric,
            links: nhdp
                .links()
                .filter(|(_, link)| link.neighbour == id)
                .count(),
            metric_in: metrics.metric_in,
            metric_out: metrics.metric_out,
            is_routing_mpr: neighbour.ext.routing_mpr,
            is_flooding_mpr: symmetric_links(nhdp, id).any(|link| link.ext.flooding_mpr),
            is_routing_selector: neighbour.ext.selector && neighbour.symmetric,
            routing_willingness: neighbour.ext.will_routing,
            signs: neighbour.ext.signed,
            flooding_willingness: neighbour.ext.will_flooding,
        }
    }
}

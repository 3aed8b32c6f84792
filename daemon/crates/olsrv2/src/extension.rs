//! What OLSRv2 adds to the tuples of NHDP (RFC 7181, sections 8 and 9).

use core::net::IpAddr;

use nhdp::{Extension, Link, Neighbour, NeighbourId, Neighbourhood};
use rfc5444::Metric;

use crate::signatures::Quote;

/// The tuples as OLSRv2 extends them.
#[derive(Debug)]
pub(crate) struct Olsr;

impl Extension for Olsr {
    type Link = LinkExt;
    type TwoHop = TwoHopExt;
    type Neighbour = NeighbourExt;
}

pub(crate) type OlsrLink = Link<Olsr>;
pub(crate) type OlsrNeighbour = Neighbour<Olsr>;
pub(crate) type Neighbours = Neighbourhood<Olsr>;

/// A link tuple's part (RFC 7181, section 8.1).
#[derive(Debug, Default)]
pub(crate) struct LinkExt {
    /// L_in_metric as measured; otherwise the configured metric counts.
    pub measured: Option<Metric>,
    /// L_out_metric.
    pub metric_out: Option<Metric>,
    /// L_mpr_selector.
    pub selector: bool,
    /// N_flooding_mpr of the neighbour while the link is symmetric.
    pub flooding_mpr: bool,
    /// The neighbour's hardware address, from olsrd2's private TLV.
    pub mac: Option<[u8; 6]>,
    /// The counter of the last HELLO, if it was signed.
    pub counter: Option<u64>,
}

/// A 2-hop tuple's part (RFC 7181, section 8.2).
#[derive(Debug, Default)]
pub(crate) struct TwoHopExt {
    /// N2_in_metric.
    pub metric_in: Option<Metric>,
    /// N2_out_metric.
    pub metric_out: Option<Metric>,
    /// What the neighbour quotes of the 2-hop neighbour's counter.
    pub quote: Option<Quote>,
}

/// A neighbour tuple's part (RFC 7181, section 9).
#[derive(Debug, Default)]
pub(crate) struct NeighbourExt {
    /// N_orig_addr.
    pub originator: Option<IpAddr>,
    /// The originator in the other family, from olsrd2's private TLV.
    pub other_originator: Option<IpAddr>,
    /// N_will_flooding.
    pub will_flooding: u8,
    /// N_will_routing.
    pub will_routing: u8,
    /// N_routing_mpr.
    pub routing_mpr: bool,
    /// N_mpr_selector.
    pub selector: bool,
    /// Whether its last HELLO was signed.
    pub signed: bool,
    /// Whether it is the last resort, also for what is for itself (docs/development/adr/0095).
    pub avoided: bool,
}

impl NeighbourExt {
    /// The metric of what goes to this neighbour; `metric` is that of the link.
    pub(crate) fn metric_unless_avoided(&self, metric: Metric) -> Metric {
        if self.avoided {
            Metric::MAX
        } else {
            metric
        }
    }
}

/// The metrics of a neighbour: N_in_metric and N_out_metric, the least of its symmetric links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighbourMetrics {
    pub metric_in: Option<Metric>,
    pub metric_out: Option<Metric>,
}

/// L_in_metric of a link; `default` where nothing was measured.
pub(crate) fn link_metric_in(link: &OlsrLink, default: Metric) -> Metric {
    link.ext.measured.unwrap_or(default)
}

/// The metric of sending over a link: L_out_metric, which only the neighbour can measure, but not less than what this
/// router measures itself the other way, so that no neighbour can make himself nearer than he is (docs/development/adr/0050).
pub(crate) fn link_metric_out(link: &OlsrLink, default: Metric) -> Option<Metric> {
    Some(link.ext.metric_out?.max(link_metric_in(link, default)))
}

/// N_in_metric and N_out_metric (RFC 7181, section 9). The latter is the largest metric for an avoided neighbour, so that
/// all routers calculate with the same.
pub(crate) fn neighbour_metrics(
    nhdp: &Neighbours,
    id: NeighbourId,
    default: Metric,
) -> NeighbourMetrics {
    let links = || symmetric_links(nhdp, id);
    NeighbourMetrics {
        metric_in: links().map(|link| link_metric_in(link, default)).min(),
        metric_out: links()
            .filter_map(|link| link_metric_out(link, default))
            .min()
            .map(|metric| unless_avoided(nhdp, id, metric)),
    }
}

fn unless_avoided(nhdp: &Neighbours, id: NeighbourId, metric: Metric) -> Metric {
    let neighbour = nhdp.neighbour(id);
    neighbour.map_or(metric, |neighbour| {
        neighbour.ext.metric_unless_avoided(metric)
    })
}

/// The highest counter of a neighbour's HELLOs, if it signs.
pub(crate) fn newest_counter(nhdp: &Neighbours, id: NeighbourId) -> Option<u64> {
    let links = symmetric_links(nhdp, id);
    links.filter_map(|link| link.ext.counter).max()
}

/// The symmetric links of a neighbour.
pub(crate) fn symmetric_links(
    nhdp: &Neighbours,
    id: NeighbourId,
) -> impl Iterator<Item = &OlsrLink> {
    let links = nhdp.links().map(|(_, link)| link);
    links.filter(move |link| link.neighbour == id && link.is_symmetric())
}

//! NodeStore: the nodes that the router knows.

use alloc::format;

use cryptoauth::Address;
use overlay::{distance, Contact};
use switch::{Form, Label, Scheme};

use crate::answer::{Answer, Field};
use crate::call::{Call, Called};
use crate::now::Now;
use crate::router::{Link, Node, Page, Parent};
use crate::words::{address, contact, milliseconds, own, scheme, with_more, ENTRIES};

/// Cost of the path to this node itself.
const NO_COST: u32 = 0;
/// Bucket of this node's own address; the others are below it.
const OWN_BUCKET: u32 = 127;

/// Lists the known nodes. This node is the first of the table.
pub(crate) fn dump_table<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(ENTRIES.nodes)?;
    let own = own(call.router);
    let others = Page {
        first: page.first.saturating_sub(1),
        size: page.size - usize::from(page.first == 0),
    };
    let listed = call.router.nodes(others);
    let itself = (page.first == 0).then(|| itself(&own, call.now));
    let shown = itself.iter().chain(&listed.entries);
    let table = shown.map(|node| in_table(node, own.key.address(), call.now));
    let answer = Answer::new()
        .with("routingTable", table.collect::<Field>())
        .with("count", listed.total.saturating_add(1))
        .with("deprecation", "ip,path,version will soon be removed")
        .with("peers", call.router.peers(Page { first: 0, size: 0 }).total);
    Ok(with_more(answer, page, listed.total.saturating_add(1)).into())
}

fn in_table(node: &Node, own: Address, now: Now) -> Answer {
    let of = node.contact.key.address();
    let age = now.monotonic.saturating_sub(node.heard);
    Answer::new()
        .with("addr", contact(&node.contact))
        .with("bucket", distance(own, of).leading_zeros().min(OWN_BUCKET))
        .with("ip", address(of))
        .with("link", node.cost)
        .with("path", format!("{}", node.contact.path))
        .with("time", milliseconds(age))
        .with("version", node.contact.version)
}

/// Describes a node; without an address, this node. The result is empty if the node is unknown.
pub(crate) fn node_for_address<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let own = own(call.router);
    let asked = call.arguments.address("ip")?;
    let node = match asked.filter(|asked| *asked != own.key.address()) {
        Some(other) => call.router.node(other),
        None => Some(itself(&own, call.now)),
    };
    let links = |node: &Node| call.router.links(node.contact.key.address()).len();
    let result = node.map_or_else(Answer::new, |node| details(&node, links(&node)));
    Ok(Answer::error("none").with("result", result).into())
}

fn details(node: &Node, links: usize) -> Answer {
    let parent = node.parent.map(|parent| {
        Answer::new()
            .with("ip", address(parent.address))
            .with(
                "isOneHop",
                parent.label.first_hop() == parent.label && parent.label != Label::SELF,
            )
            .with("parentChildLabel", format!("{}", parent.label))
    });
    Answer::new()
        .with_some("bestParent", parent)
        .with("cost", node.cost)
        .with("encodingScheme", scheme(&Scheme::V3X5X8))
        .with("key", format!("{}", node.contact.key))
        .with("linkCount", links)
        .with("protocolVersion", node.contact.version)
        .with("routeLabel", format!("{}", node.contact.path))
}

/// Describes a link, by its number, of the node `parent` or of this one.
pub(crate) fn link<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let own = call.router.key().address();
    let parent = call.arguments.address("parent")?.unwrap_or(own);
    let number: usize = call.arguments.number("linkNum")?.unwrap_or(0);
    let link = call.router.links(parent).get(number).copied();
    let error = link.map_or("not_found", |_| "none");
    let result = link.map_or_else(Answer::new, |link| described(&link));
    Ok(Answer::error(error).with("result", result).into())
}

/// The spelling `cannonicalLabel` is that of cjdns.
fn described(link: &Link) -> Answer {
    let is_one_hop = link.label.first_hop() == link.label && link.label != Label::SELF;
    Answer::new()
        .with("bestParent", link.is_best)
        .with("cannonicalLabel", format!("{}", link.label))
        .with("child", contact(&link.child))
        .with(
            "inverseLinkEncodingFormNumber",
            u32::from(Form::of_label(link.label).index()),
        )
        .with("isOneHop", is_one_hop)
        .with("linkCost", link.cost)
        .with("parent", contact(&link.parent))
}

pub(crate) fn route_label<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let via = call.arguments.label("pathToParent")?;
    let rest = call.arguments.label("pathParentToChild")?;
    let label = rest.zip(via).and_then(|(rest, via)| rest.after(via));
    let label = label.ok_or("the two paths are too long for one label")?;
    Ok(Answer::error("none")
        .with("result", format!("{label}"))
        .into())
}

/// Describes this node as an entry of its table.
fn itself(own: &Contact, now: Now) -> Node {
    Node {
        contact: *own,
        cost: NO_COST,
        heard: now.monotonic,
        parent: Some(Parent {
            address: own.key.address(),
            label: Label::SELF,
        }),
    }
}

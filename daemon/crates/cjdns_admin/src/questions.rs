//! RouterModule, SearchRunner and SwitchPinger: questions to other nodes.

use alloc::format;
use core::time::Duration;

use cryptoauth::Address;
use overlay::{Contact, Query};
use switch::{Label, Scheme, PROTOCOL_VERSION};

use crate::answer::Answer;
use crate::arguments::Wrong;
use crate::call::{Call, Called, Done};
use crate::outcome::Form;
use crate::router::{Ask, Control, Outcome};
use crate::search::Search;

/// Largest length of the data that a node sends back, because a control frame has little space.
const MAX_OPAQUE: usize = 64;

pub(crate) fn lookup<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let node = match call.arguments.address("address")? {
        Some(asked) if asked == call.router.key().address() => Some(Label::SELF),
        Some(asked) => call.router.node(asked).map(|node| node.contact.path),
        None => None,
    };
    let result = node.map_or("not found".into(), |label| format!("{label}"));
    Ok(Answer::error("none").with("result", result).into())
}

pub(crate) fn ping_node<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("path", call.router)?;
    query(call, to, Query::Ping, Form::Ping { of: to })
}

pub(crate) fn get_peers<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("path", call.router)?;
    let from = call.arguments.label("nearbyPath")?.unwrap_or(Label(0));
    query(call, to, Query::Peers(from), Form::Peers)
}

pub(crate) fn find_node<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("nodeToQuery", call.router)?;
    let target = target(call)?;
    query(call, to, Query::Find(target), Form::Nodes { via: to.path })
}

pub(crate) fn next_hop<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let to = call.arguments.node("nodeToQuery", call.router)?;
    let target = target(call)?;
    query(
        call,
        to,
        Query::NextHop(target),
        Form::Nodes { via: to.path },
    )
}

fn target(call: &Call<'_, '_>) -> Result<Address, Wrong> {
    let target = call.arguments.address("target")?;
    target.ok_or_else(|| "target is required".into())
}

/// Asks a node. If it is this router, the answer is immediate.
fn query<'a>(call: &Call<'a, '_>, to: Contact, query: Query, form: Form) -> Called<'a> {
    if to.key == call.router.key() {
        let outcome = Outcome::Reply {
            version: PROTOCOL_VERSION,
            scheme: Scheme::V3X5X8,
            nodes: call.router.answer(query),
        };
        return Ok(form.answer(&outcome, Duration::ZERO).into());
    }
    Ok(Done::Ask {
        ask: Ask::Query { to, query },
        timeout: call.arguments.timeout()?,
        form,
    })
}

/// Starts a search for the node `ipv6` with at most `maxRequests` questions.
pub(crate) fn search<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let target = call.arguments.address("ipv6")?;
    let target = target.ok_or("ipv6 is required")?;
    let asked = call.arguments.number("maxRequests")?;
    let known = call.router.answer(Query::Find(target));
    let own = call.router.key().address();
    Ok(Done::Search(Search::new(own, target, asked, &known)))
}

pub(crate) fn ping_switch<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let arguments = &call.arguments;
    let path = arguments.label("path")?.ok_or("path is required")?;
    let opaque = arguments.octets("data").unwrap_or_default();
    if opaque.len() > MAX_OPAQUE {
        let length = opaque.len();
        return Err(format!(
            "data has {length} octets, allowed are {MAX_OPAQUE}"
        ));
    }
    let kinds = [
        ("keyPing", Control::Key),
        ("lladdr", Control::Lower),
        ("snode", Control::Snode),
        ("rpath", Control::ReturnPath),
    ];
    let mut asked = kinds.iter().filter(|(name, _)| arguments.is_set(name));
    let control = asked.next().map_or(Control::Ping, |(_, control)| *control);
    if asked.next().is_some() {
        return Err("Can only be one of keyPing, lladdr, snode OR rpath".into());
    }
    Ok(Done::Ask {
        ask: Ask::Control {
            path,
            control,
            opaque,
        },
        timeout: arguments.timeout()?,
        form: Form::Control { path },
    })
}

//! The table of functions and their arguments, and the functions about the API and the router itself.

use alloc::format;
use alloc::vec::Vec;

use switch::{Scheme, MAX_SCHEME_OCTETS, PROTOCOL_VERSION};

use crate::answer::Answer;
use crate::arguments::{Argument, Kind};
use crate::call::{closed, open, optional, required, Call, Called, Function};
use crate::words::{address, contact, own, scheme, with_more};
use crate::{log_lines, neighbours, questions, sessions, store};

/// Number of functions on a page of `Admin_availableFunctions`, as in cjdns.
pub const FUNCTIONS_PER_PAGE: usize = 8;

const PAGE: &[Argument] = &[optional("page", Kind::Int)];
const BEACON: &[Argument] = &[
    optional("interfaceNumber", Kind::Int),
    optional("state", Kind::Int),
];
const QUERY: &[Argument] = &[
    required("nodeToQuery", Kind::String),
    required("target", Kind::String),
    optional("timeout", Kind::Int),
];

/// Every function, by name. The same functions as in cjdns need no authentication.
pub(crate) const FUNCTIONS: &[Function] = &[
    closed(
        "AdminLog_logMany",
        &[required("count", Kind::Int)],
        log_lines::log_many,
    ),
    closed(
        "AdminLog_subscribe",
        &[
            optional("file", Kind::String),
            optional("level", Kind::String),
            optional("line", Kind::Int),
        ],
        log_lines::subscribe,
    ),
    closed(
        "AdminLog_unsubscribe",
        &[required("streamId", Kind::String)],
        log_lines::unsubscribe,
    ),
    open("Admin_asyncEnabled", &[], async_enabled),
    open("Admin_availableFunctions", PAGE, available_functions),
    closed(
        "AuthorizedPasswords_add",
        &[
            optional("ipv6", Kind::String),
            required("password", Kind::String),
            optional("user", Kind::String),
        ],
        neighbours::add_user,
    ),
    closed("AuthorizedPasswords_list", PAGE, neighbours::list_users),
    closed(
        "AuthorizedPasswords_remove",
        &[required("user", Kind::String)],
        neighbours::remove_user,
    ),
    open("Core_nodeInfo", &[], node_info),
    open("Core_pid", &[], process),
    closed("ETHInterface_beacon", BEACON, neighbours::beacon),
    closed(
        "ETHInterface_beginConnection",
        &[
            optional("interfaceNumber", Kind::Int),
            optional("login", Kind::String),
            required("macAddress", Kind::String),
            optional("password", Kind::String),
            optional("peerName", Kind::String),
            required("publicKey", Kind::String),
            optional("version", Kind::Int),
        ],
        neighbours::connect_ethernet,
    ),
    closed(
        "InterfaceController_disconnectPeer",
        &[required("pubkey", Kind::String)],
        neighbours::disconnect,
    ),
    closed(
        "InterfaceController_interfaces",
        PAGE,
        neighbours::interfaces,
    ),
    open("InterfaceController_peerStats", PAGE, neighbours::peers),
    closed(
        "InterfaceController_resetPeering",
        &[optional("pubkey", Kind::String)],
        neighbours::reset_peers,
    ),
    open(
        "NodeStore_dumpTable",
        &[required("page", Kind::Int)],
        store::dump_table,
    ),
    closed(
        "NodeStore_getLink",
        &[
            required("linkNum", Kind::Int),
            optional("parent", Kind::String),
        ],
        store::link,
    ),
    closed(
        "NodeStore_getRouteLabel",
        &[
            required("pathParentToChild", Kind::String),
            required("pathToParent", Kind::String),
        ],
        store::route_label,
    ),
    open(
        "NodeStore_nodeForAddr",
        &[optional("ip", Kind::String)],
        store::node_for_address,
    ),
    closed("RouterModule_findNode", QUERY, questions::find_node),
    closed(
        "RouterModule_getPeers",
        &[
            optional("nearbyPath", Kind::String),
            required("path", Kind::String),
            optional("timeout", Kind::Int),
        ],
        questions::get_peers,
    ),
    closed(
        "RouterModule_lookup",
        &[required("address", Kind::String)],
        questions::lookup,
    ),
    closed("RouterModule_nextHop", QUERY, questions::next_hop),
    closed(
        "RouterModule_pingNode",
        &[
            required("path", Kind::String),
            optional("timeout", Kind::Int),
        ],
        questions::ping_node,
    ),
    closed(
        "SearchRunner_search",
        &[
            required("ipv6", Kind::String),
            optional("maxRequests", Kind::Int),
        ],
        questions::search,
    ),
    closed("SessionManager_getHandles", PAGE, sessions::handles),
    closed(
        "SessionManager_sessionStats",
        &[required("handle", Kind::Int)],
        sessions::session,
    ),
    closed(
        "SessionManager_sessionStatsByIP",
        &[required("ip6", Kind::String)],
        sessions::session_by_address,
    ),
    closed(
        "SwitchPinger_ping",
        &[
            optional("data", Kind::String),
            optional("keyPing", Kind::Int),
            optional("lladdr", Kind::Int),
            required("path", Kind::String),
            optional("rpath", Kind::Int),
            optional("snode", Kind::Int),
            optional("timeout", Kind::Int),
        ],
        questions::ping_switch,
    ),
    closed("UDPInterface_beacon", BEACON, neighbours::beacon),
    closed(
        "UDPInterface_beginConnection",
        &[
            required("address", Kind::String),
            optional("interfaceNumber", Kind::Int),
            optional("login", Kind::String),
            optional("password", Kind::String),
            optional("peerName", Kind::String),
            required("publicKey", Kind::String),
            optional("version", Kind::Int),
        ],
        neighbours::connect_udp,
    ),
    open("ping", &[], ping),
];

/// Returns the function of that name.
pub(crate) fn find(name: &[u8]) -> Option<&'static Function> {
    let by_name = |function: &Function| function.name.as_bytes().cmp(name);
    let index = FUNCTIONS.binary_search_by(by_name).ok()?;
    FUNCTIONS.get(index)
}

fn ping<'a>(_: &mut Call<'a, '_>) -> Called<'a> {
    Ok(Answer::new().with("q", "pong").into())
}

fn async_enabled<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    Ok(Answer::new().with("asyncEnabled", call.is_known).into())
}

fn available_functions<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(FUNCTIONS_PER_PAGE)?;
    let shown = FUNCTIONS.iter().skip(page.first).take(page.size);
    let functions = shown.fold(Answer::new(), |functions, function| {
        functions.with(function.name, described(function.arguments))
    });
    let answer = Answer::new().with("availableFunctions", functions);
    Ok(with_more(answer, page, FUNCTIONS.len()).into())
}

fn described(arguments: &[Argument]) -> Answer {
    arguments.iter().fold(Answer::new(), |described, argument| {
        let details = Answer::new()
            .with("required", argument.required)
            .with("type", argument.kind.name());
        described.with(argument.name, details)
    })
}

fn process<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    Ok(Answer::new().with("pid", call.router.process()).into())
}

fn node_info<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let own = own(call.router);
    let mut octets = [0; MAX_SCHEME_OCTETS];
    let length = Scheme::V3X5X8.encode(&mut octets);
    let compressed: Vec<u8> = octets[..length]
        .iter()
        .flat_map(|octet| format!("{octet:02x}").into_bytes())
        .collect();
    Ok(Answer::error("none")
        .with("compressedSchemeHex", compressed)
        .with("encodingScheme", scheme(&Scheme::V3X5X8))
        .with("myAddr", contact(&own))
        .with("myIp6", address(own.key.address()))
        .with("version", PROTOCOL_VERSION)
        .into())
}

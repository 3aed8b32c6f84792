"""``status``, ``plan`` and ``explain``: what meshsecd knows and why (docs/reference/schema)."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from meshsec.cli.app import DEGRADED, App, peer_names
from meshsec.cli.client import Client
from meshsec.cli.output import duration, json_option, octets, print_json, print_prose, print_table

if TYPE_CHECKING:
    from rich.text import Text

STATE_COLOURS = {
    "protected": "green",
    "held": "cyan",
    "negotiating": "yellow",
    "waiting": "yellow",
    "failed": "red",
}
_UNPROTECTED = frozenset({"waiting", "negotiating", "failed"})
"""In reach and without an SA; a peer out of reach is no fault."""
_COLUMNS = ("NAME", "STATE", "HOPS", "VIA", "PLANE", "IN", "OUT")
"""What fits 80 columns, with names of up to 15 characters."""
_VERBOSE_COLUMNS = (*_COLUMNS, "ADDRESS", "NEXT HOP", "SA AGE", "SET-UP", "READY IN")
STRANGER = "(stranger)"
"""A next hop that is no peer. No peer's name has parentheses."""


@click.command
@click.option("-v", "--verbose", is_flag=True, help="Show addresses, ages and set-up times, too: a wider table.")
@json_option
@click.pass_obj
def status(app: App, verbose: bool, as_json: bool) -> None:
    """Show this node and how each peer is protected.

    The table fits 80 columns. VIA is the neighbour through which the peer is reached; "(stranger)" is one without a
    card here, whose address -v shows.

    Exit code 3 when a peer in reach is not protected, nothing passes to one that is, a network that is announced is not
    reached, a daemon is away or a rule is not in force.
    """
    view = asked(app, "status")
    if as_json:
        print_json(view)
    else:
        _print_node(view)
        if verbose and view["levels"]:
            _print_levels(view["levels"])
        _print_peers(view["peers"], verbose=verbose)
    if is_degraded(view):
        sys.exit(DEGRADED)


@click.command
@json_option
@click.pass_obj
def plan(app: App, as_json: bool) -> None:
    """Show what meshsecd would do, and why.

    Nothing is done.
    """
    view = asked(app, "plan")
    if as_json:
        print_json(view)
    elif not view["actions"]:
        click.echo("Nothing to do: what is, is what ought to be.")
    else:
        rows = (
            (_when(action["in"]), action["action"], action["peer"], action["detail"], action["why"])
            for action in view["actions"]
        )
        print_table(("WHEN", "ACTION", "PEER", "DETAIL", "WHY"), rows)


@click.command
@click.argument("subject", metavar="[PEER|ADDRESS|NETWORK]", shell_complete=peer_names, required=False)
@click.option("--scheduling", is_flag=True, help="Explain the daemons' scheduling classes instead.")
@json_option
@click.pass_obj
def explain(app: App, subject: str | None, scheduling: bool, as_json: bool) -> None:
    """Explain the state of a peer or a network in sentences.

    Of a PEER: from trust and route over attempts and SA to what comes next. Of a NETWORK, or an ADDRESS in one: who may
    speak for it, who announces it, and through whom it is reached. With --scheduling: which class each daemon has, what
    the governor measures, decided and why.
    """
    if scheduling == (subject is not None):
        raise click.UsageError("either PEER, ADDRESS or NETWORK, or --scheduling")
    view = asked(app, "scheduling") if subject is None else asked(app, "explain", {_kind(subject): subject})
    if as_json:
        print_json(view)
        return
    for sentence in view["sentences"]:
        click.echo(sentence)


def _kind(subject: str) -> str:
    """Return as what a subject is asked for: no name of a peer has a dot, a colon or a slash."""
    return "network" if any(mark in subject for mark in ".:/") else "peer"


def is_degraded(view: Mapping[str, Any]) -> bool:
    """Return whether a status calls for somebody's attention."""
    if not view["rules_stand"] or view["problems"] or any(not daemon["up"] for _, daemon in _daemons(view)):
        return True
    if any(one["problem"] and one["announced_by"] for one in view["networks"]):
        return True
    if view["gateway"]["problems"] or any(not one["up"] or one["problems"] for one in view["links"]):
        return True
    return any(peer["state"] in _UNPROTECTED or is_lost(peer) for peer in view["peers"])


def is_lost(peer: Mapping[str, Any]) -> bool:
    """Return whether nothing passes through an SA: no user data arrives, and the peer's IKE daemon does not answer."""
    return peer["quiet"] is not None and not peer["quiet"]["answers"]


def _daemons(view: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the daemons that this node needs, with what is known of each."""
    yield "IKE daemon", view["ike_daemon"]
    yield "Routing daemon", view["routing_daemon"]
    if view["overlay"] is not None:
        yield "Overlay", view["overlay"]


def asked(app: App, method: str, params: Mapping[str, object] | None = None) -> Any:
    with Client(app.socket) as client:
        return client.call(method, params)


def _print_node(view: Mapping[str, Any]) -> None:
    node = view["node"]
    click.secho(f"{node['name']}  {node['address']}", bold=True, nl=False)
    click.echo(f"  {node['ipv4']}" if node["ipv4"] else "")
    click.echo(f"ESP: {view['esp_ground']}    fail-closed rules: ", nl=False)
    click.secho("in force" if view["rules_stand"] else "NOT IN FORCE", fg=None if view["rules_stand"] else "red")
    for title, daemon in _daemons(view):
        if not daemon["up"]:
            print_prose(f"{title} is away: {daemon['reason']}", "red")
    if view["suites"]:
        print_prose(f"Suite: {view['suites']['chosen']} ({view['suites']['why']})")
    for one in view["bypass"]:
        what = " ".join(str(one[key]) for key in ("prefix", "protocol", "port") if key in one)
        print_prose(f"In the clear by the policy: {what} ({one['reason']})", "yellow")
    if view["bench"] is not None:
        print_prose(_bench(view["bench"]), "yellow")
    for one in view["joining"]:
        print_prose(_waiting(one), "yellow")
    _print_networks(view)
    for problem in view["problems"]:
        print_prose(f"Problem: {problem}", "red")


def _print_levels(levels: Mapping[str, Any]) -> None:
    threat = levels["threat"] + (f" ({levels['why']})" if levels["why"] else "")
    print_prose(f"Levels of authentication, never below {levels['floor']}; threat: {threat}")
    for one in levels["levels"]:
        took = f"{one['recent_ms']:.1f} ms, {one['samples']} set-ups" if one["samples"] else "no set-up yet"
        print_prose(f"  {one['name']} ({took}): {one['asks']}")


def _bench(one: Mapping[str, Any]) -> str:
    """Say that a benchmark runs, and what is open in the clear meanwhile."""
    opened = one["open"]
    if opened is None:
        return f"A benchmark runs with {one['peer']}; nothing is open in the clear"
    ends = f"{opened['own']} and {opened['address']} ({one['peer']})"
    return f"In the clear for a benchmark: port {opened['port']} between {ends}, for {duration(opened['for'])} at most"


def _waiting(one: Mapping[str, Any]) -> str:
    words = " ".join(one["words"])
    if not one["fleet"]:
        sought = " ".join(one["sought"])
        return f"Looking for the fleet with the six words {sought}: nobody has answered. This node's own: {words}"
    return f"Waiting for approval by the fleet {one['fleet']}: read these six words to its operator: {words}"


def _print_networks(view: Mapping[str, Any]) -> None:
    if networks := ", ".join(view["unprotected_networks"]):
        print_prose(f"Networks in the clear by the policy: {networks}", "yellow")
    if own := ", ".join(view["own_networks"]):
        print_prose(f"Networks behind this node: {own}")
    if view["gateway"]["uplink"]:
        print_prose(_gateway(view["gateway"]))
    for problem in view["gateway"]["problems"]:
        print_prose(f"Gateway: {problem}", "red")
    for one in view["links"]:
        print_prose(_link(one), None if one["up"] else "red")
    for one in view["networks"]:
        print_prose(_network(one), "red" if one["problem"] else None)


def _gateway(one: Mapping[str, Any]) -> str:
    return f"Gateway by {one['uplink']}, which offers {', '.join(one['offers']) or 'nothing'}"


def _link(one: Mapping[str, Any]) -> str:
    ways = (
        f"{path['uplink']} with {path['remote']}{', behind a NAT' if path['behind_nat'] else ''}, "
        f"for {duration(path['up_for'])}"
        for path in one["paths"]
    )
    problems = "".join(f"; {problem}" for problem in one["problems"])
    return f"Link to {one['peer']}: {'; '.join(ways) or 'down'}{problems}"


def _network(one: Mapping[str, Any]) -> str:
    if one["problem"]:
        return f"Network {one['network']}: {one['problem']}"
    ready = f" (ready: {', '.join(one['ready'])})" if one["ready"] else ""
    by = " by traffic selectors" if one["by"] == "selectors" else ""
    limit = f", {one['limit']}" if one["limit"] else ""
    return f"Network {one['network']} through {one['peer']}{by}{ready}{limit}"


def _print_peers(peers: list[Mapping[str, Any]], *, verbose: bool) -> None:
    if not peers:
        click.echo("No peers. `meshsec peer add NAME CARD` trusts one.")
        return
    with_levels = ("LEVEL",) if any(peer["level"] for peer in peers) else ()
    columns, names = (*_VERBOSE_COLUMNS, *with_levels) if verbose else _COLUMNS, _names(peers)
    rows = (_peer_row(peer, names) for peer in peers)
    print_table(columns, ([row[column] for column in columns] for row in rows), breakable=("NAME", "VIA"))
    for peer in peers:
        if peer["state"] != "protected":
            print_prose(f"{peer['name']} is {peer['state']}: {_reason(peer)}")
        elif peer["data_plane"] not in (None, peer["mode"]):
            print_prose(f"{peer['name']} is to use the data plane {peer['mode']}: {peer['reason']}")
        if peer["quiet"]:
            print_prose(_quiet(peer), "red" if is_lost(peer) else None)


def _names(peers: list[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the names of the peers that are neighbours, by next hop and interface of the route to them."""
    direct = [peer for peer in peers if peer["hops"] == 1]
    return {(peer["next_hop"], peer["interface"]): peer["name"] for peer in reversed(direct)}


def _peer_row(peer: Mapping[str, Any], names: Mapping[tuple[str, str], str]) -> dict[str, object]:
    next_hop, interface = peer["next_hop"], peer["interface"]
    return {
        "NAME": peer["name"],
        "STATE": _state(peer["state"]),
        "HOPS": peer["hops"],
        "VIA": names.get((next_hop, interface), STRANGER) if next_hop else None,
        "PLANE": peer["data_plane"],
        "IN": octets(peer["bytes_in"]),
        "OUT": octets(peer["bytes_out"]),
        "ADDRESS": peer["address"],
        "NEXT HOP": f"{next_hop}%{interface}" if next_hop else None,
        "SA AGE": duration(peer["sa_age"]),
        "SET-UP": _setup(peer["setup_ms"]),
        "READY IN": _milliseconds(peer["route_to_protected_ms"]),
        "LEVEL": peer["level"] and _level(peer["level"]),
    }


def _level(level: Mapping[str, Any]) -> str:
    """Return the level of the SA, and the one that is asked for if that is another."""
    in_force, chosen = level["in_force"] or "none", level["chosen"]
    return in_force if in_force == chosen else f"{in_force}, asked: {chosen}"


def _quiet(peer: Mapping[str, Any]) -> str:
    found = f"nothing has come from {peer['name']} for {duration(peer['quiet']['for'])}, although user data goes there"
    if is_lost(peer):
        return f"{found}, and its IKE daemon does not answer: `meshsec explain {peer['name']}`"
    return f"{found}; its IKE daemon answers"


def _reason(peer: Mapping[str, Any]) -> str:
    failure = peer["last_failure"]
    if failure is None or peer["state"] not in _UNPROTECTED:
        return str(peer["reason"])
    return f"{peer['reason']}; the last failure means: {failure['meaning']}"


def _state(state: str) -> "Text":
    from rich.text import Text  # noqa: PLC0415

    return Text(state, style=STATE_COLOURS.get(state, ""))


def _setup(phases: Mapping[str, float | None] | None) -> str | None:
    """IKE_SA_INIT + IKE_AUTH + CHILD_SA."""
    known = [phase for phase in (phases or {}).values() if phase is not None]
    return f"{' + '.join(f'{phase:.1f}' for phase in known)} ms" if known else None


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f} ms"


def _when(seconds: float | None) -> str:
    return "now" if seconds is None or seconds <= 0 else f"in {duration(seconds)}"

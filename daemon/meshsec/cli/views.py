"""``status``, ``topology``, ``plan`` and ``explain``: what meshsecd knows and why (docs/reference/schema)."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from meshsec.cli.app import DEGRADED, App, peer_names
from meshsec.cli.client import Client
from meshsec.cli.output import duration, json_option, octets, print_json, print_table

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


@click.command
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Show this node and how each peer is protected.

    Exit code 3 when a peer in reach is not protected, nothing passes to one that is, a network that is announced is not
    reached, a daemon is away or a rule is not in force.
    """
    view = _asked(app, "status")
    if as_json:
        print_json(view)
    else:
        _print_node(view)
        _print_peers(view["peers"])
    if is_degraded(view):
        sys.exit(DEGRADED)


@click.command
@json_option
@click.pass_obj
def topology(app: App, as_json: bool) -> None:
    """Show neighbours, routes and links.

    They are shown as the routing daemon knows them; a route to a peer has the peer's name.
    """
    view = _asked(app, "topology")
    if as_json:
        print_json(view)
        return
    click.secho("Neighbours", bold=True)
    print_table(("ORIGINATOR", "LINK", "METRIC IN", "METRIC OUT", "OUR MPR", "WE ARE ITS MPR"), _neighbours(view))
    click.secho("\nRoutes", bold=True)
    print_table(("DESTINATION", "PEER", "HOPS", "NEXT HOP", "INTERFACE", "METRIC"), _routes(view))
    click.secho("\nLinks", bold=True)
    print_table(("FROM", "TO", "METRIC"), ((edge["source"], edge["target"], edge["metric"]) for edge in view["edges"]))
    if view["routes_truncated"]:
        click.echo("There are more routes than are kept.")


@click.command
@json_option
@click.pass_obj
def plan(app: App, as_json: bool) -> None:
    """Show what meshsecd would do, and why.

    Nothing is done.
    """
    view = _asked(app, "plan")
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
    view = _asked(app, "scheduling") if subject is None else _asked(app, "explain", {_kind(subject): subject})
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
    if any(not one["up"] or one["problems"] for one in view["links"]):
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


def _asked(app: App, method: str, params: Mapping[str, object] | None = None) -> Any:
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
            click.secho(f"{title} is away: {daemon['reason']}", fg="red")
    if view["suites"]:
        click.echo(f"Suite: {view['suites']['chosen']} ({view['suites']['why']})")
    for one in view["bypass"]:
        what = " ".join(str(one[key]) for key in ("prefix", "protocol", "port") if key in one)
        click.secho(f"In the clear by the policy: {what} ({one['reason']})", fg="yellow")
    _print_networks(view)
    for problem in view["problems"]:
        click.secho(f"Problem: {problem}", fg="red")


def _print_networks(view: Mapping[str, Any]) -> None:
    if networks := ", ".join(view["unprotected_networks"]):
        click.secho(f"Networks in the clear by the policy: {networks}", fg="yellow")
    if own := ", ".join(view["own_networks"]):
        click.echo(f"Networks behind this node: {own}")
    if view["gateway"]["uplink"]:
        click.echo(_gateway(view["gateway"]))
    for problem in view["gateway"]["problems"]:
        click.secho(f"Gateway: {problem}", fg="red")
    for one in view["links"]:
        click.secho(_link(one), fg=None if one["up"] else "red")
    for one in view["networks"]:
        click.secho(_network(one), fg="red" if one["problem"] else None)


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
    return f"Network {one['network']} through {one['peer']}{by}{ready}"


def _print_peers(peers: list[Mapping[str, Any]]) -> None:
    if not peers:
        click.echo("No peers. `meshsec peer add NAME CARD` trusts one.")
        return
    columns = ("PEER", "ADDRESS", "STATE", "HOPS", "VIA", "PLANE", "SA AGE", "SET-UP", "READY IN", "IN", "OUT")
    print_table(columns, map(_peer_row, peers))
    for peer in peers:
        if peer["state"] != "protected":
            click.echo(f"{peer['name']} is {peer['state']}: {_reason(peer)}")
        if peer["quiet"]:
            click.secho(_quiet(peer), fg="red" if is_lost(peer) else None)


def _peer_row(peer: Mapping[str, Any]) -> tuple[object, ...]:
    via = f"{peer['next_hop']}%{peer['interface']}" if peer["next_hop"] else None
    return (
        peer["name"],
        peer["address"],
        _state(peer["state"]),
        peer["hops"],
        via,
        _plane(peer["data_plane"], peer["mode"]),
        duration(peer["sa_age"]),
        _setup(peer["setup_ms"]),
        _milliseconds(peer["route_to_protected_ms"]),
        octets(peer["bytes_in"]),
        octets(peer["bytes_out"]),
    )


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


def _plane(carries: str | None, mode: str) -> str | None:
    """Return what carries user data, and what is to carry it when that is something else."""
    return carries if carries in (None, mode) else f"{carries} ({mode} chosen)"


def _setup(phases: Mapping[str, float | None] | None) -> str | None:
    """IKE_SA_INIT + IKE_AUTH + CHILD_SA."""
    known = [phase for phase in (phases or {}).values() if phase is not None]
    return f"{' + '.join(f'{phase:.1f}' for phase in known)} ms" if known else None


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f} ms"


def _when(seconds: float | None) -> str:
    return "now" if seconds is None or seconds <= 0 else f"in {duration(seconds)}"


def _neighbours(view: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for neighbour in view["neighbours"]:
        yield (
            neighbour["originator"],
            "symmetric" if neighbour["symmetric"] else "heard",
            neighbour["metric_in"],
            neighbour["metric_out"],
            "yes" if neighbour["is_mpr"] else None,
            "yes" if neighbour["selected_us"] else None,
        )


def _routes(view: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for route in view["routes"]:
        yield tuple(route[key] for key in ("destination", "peer", "hops", "next_hop", "interface", "metric"))

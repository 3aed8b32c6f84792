"""``leaktest``: does anything leave in the clear?"""

import asyncio
import secrets
import shlex
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from ipaddress import ip_network
from typing import Any

import click

from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.capture import Capture
from meshsec.adapters.sockets.marked import DISCARD, Marked
from meshsec.cli.app import DEGRADED, FAILED, App, peer_names
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.channels.nft_rules import TUN_DEVICE
from meshsec.core.leaktest.judge import Verdict, Watch, octets_of, source_of_ipv4, verdict
from meshsec.core.leaktest.packets import Kind
from meshsec.core.networks.networks import DEVICE
from meshsec.core.values.model import EspBackend

_MARK_OCTETS = 16
_EXAMPLES = {"0.0.0.0/0": "203.0.113.0/24", "::/0": "2001:db8::/32"}
_UNTRIED = "this node has no IPv4 address, in the mesh or in a network behind it, to send from"
_HELP_SECONDS = 60
"""Longest time for what provokes."""
_SETTLE = 0.5
"""Seconds at the end for what is still on its way."""

_KILL = ("systemctl", "kill", "--kill-whom=main", "--signal=KILL")
PROVOCATIONS: Mapping[str, Sequence[str]] = {
    "kill-meshsecd": (*_KILL, "meshsecd.service"),
    "kill-ike": _KILL,
    "kill-router": (*_KILL, "olsrv2d.service"),
    "kill-overlay": (*_KILL, "overlayd.service"),
    "restart-firewall": ("systemctl", "restart", "meshsec-firewall.service"),
    "delete-rules": ("nft", "delete", "table", "inet", "meshsec"),
    "reload": ("systemctl", "reload", "meshsecd.service"),
}
"""What may befall a node, as commands (``kill-ike``: of the node's own IKE daemon); ``_ASKED`` are meshsecd's."""
_ASKED: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "renegotiate": ("renegotiate", {}),
    "mode-overlay": ("mode", {"plane": "overlay"}),
    "mode-ipsec": ("mode", {"plane": "ipsec"}),
}


@dataclass(frozen=True)
class _Phase:
    """A part of the test: what happens at its beginning."""

    name: str
    provoke: Callable[[], None]


@click.command
@click.argument("peers", metavar="[PEER]...", nargs=-1, shell_complete=peer_names)
@click.option(
    "--seconds",
    type=click.FloatRange(0.5, 86400),
    default=10,
    show_default=True,
    help="How long to send, after each provocation again.",
)
@click.option(
    "--rate", type=click.FloatRange(1, 1000), default=50, show_default=True, help="Rounds of packets a second."
)
@click.option(
    "--provoke",
    metavar="WHAT",
    type=click.Choice([*PROVOCATIONS, *_ASKED]),
    multiple=True,
    help=f"Do this while user data flows; more than once for more: {', '.join([*PROVOCATIONS, *_ASKED])}. "
    "Root's systemd is asked, or meshsecd.",
)
@click.option("--while", "commands", metavar="COMMAND", multiple=True, help="Run this while user data flows.")
@click.option(
    "--watch",
    "watched",
    metavar="MARK",
    help="Send nothing: look for the mark of somebody else's test; SIGINT (^C) ends it before its time.",
)
@json_option
@click.pass_obj
@click.pass_context
def leaktest(  # noqa: PLR0913, PLR0917  # one for each option
    ctx: click.Context,
    app: App,
    peers: tuple[str, ...],
    seconds: float,
    rate: float,
    provoke: tuple[str, ...],
    commands: tuple[str, ...],
    watched: str | None,
    as_json: bool,
) -> None:
    """See whether user data leaves this node in the clear. Needs root.

    Sends marked datagrams and echo requests to each PEER (all peers in reach if none is named), and to an address in
    each network that is reached through one of them. Looks at every packet on every interface. Exits with 1 when one
    was in the clear, with 3 when nothing can be concluded. While it runs, others may look for the mark that it prints,
    on relays above all: meshsec leaktest --watch MARK.
    """
    mark = _mark(watched)
    _prove_detector(mark)
    with Client(app.socket) as client:
        status = client.call("status")
    chosen = [] if watched else _chosen(status, peers)
    phases = [_Phase("quiet", lambda: None)]
    phases += [_Phase(name, _provocation(app, name, chosen)) for name in provoke]
    phases += [_Phase(command, _running(shlex.split(command))) for command in commands]
    if not watched:
        click.echo(f"mark {mark.decode()}: on a relay, meshsec leaktest --watch {mark.decode()}", err=True)
    test = _Test(mark, status, chosen, app.settings.routing.interfaces)
    view = test.run(phases, rate, seconds, sends=not watched)
    print_json(view) if as_json else _show(view)
    ctx.exit({Verdict.TIGHT: 0, Verdict.LEAK: FAILED, Verdict.INCONCLUSIVE: DEGRADED}[Verdict(view["verdict"])])


def _mark(watched: str | None) -> bytes:
    """Letters and digits, so that it can be named and looked for; 64 bits of chance."""
    if watched is None:
        return secrets.token_hex(_MARK_OCTETS // 2).encode()
    if len(watched) != _MARK_OCTETS or not set(watched) <= set("0123456789abcdef"):
        raise click.BadParameter(f"{watched!r} is no mark; a mark has {_MARK_OCTETS} hexadecimal digits")
    return watched.encode()


def _chosen(status: Mapping[str, Any], names: Sequence[str]) -> list[Mapping[str, Any]]:
    known = {peer["name"]: peer for peer in status["peers"]}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{unknown[0]} is not a peer; peers are: {', '.join(known) or 'none'}")
    chosen = [known[name] for name in names] or [peer for peer in known.values() if peer["hops"]]
    if not chosen:
        raise click.ClickException("no peer is in reach: nothing can be sent to anybody")
    return chosen


def _prove_detector(mark: bytes) -> None:
    """Let the detector see the mark on loopback first: one that sees nothing would call every node tight."""
    watch = Watch(mark)
    with Capture(watch.take, loopback=True), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.sendto(mark, ("::1", DISCARD))
    if not watch.counts[Kind.CLEAR]:
        raise click.ClickException("the capture does not see a marked packet on loopback: it would see no leak either")


def _provocation(app: App, name: str, peers: Sequence[Mapping[str, Any]]) -> Callable[[], None]:
    if name in PROVOCATIONS:
        unit = [app.settings.ike.daemon.traits.unit] if name == "kill-ike" else []
        return _running([*PROVOCATIONS[name], *unit])
    method, parameters = _ASKED[name]

    def ask() -> None:
        with Client(app.socket) as client:
            for peer in peers:
                client.call(method, {**parameters, "peer": peer["name"]})

    return ask


def _running(argv: Sequence[str]) -> Callable[[], None]:
    def run() -> None:
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_HELP_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise click.ClickException(f"{shlex.join(argv)}: {error}") from error
        if done.returncode:
            raise click.ClickException(f"{shlex.join(argv)}: exit status {done.returncode}: {done.stderr.strip()}")

    return run


class _Test:
    """Sends, looks, and counts by phase."""

    def __init__(
        self, mark: bytes, status: Mapping[str, Any], peers: Sequence[Mapping[str, Any]], links: Collection[str]
    ) -> None:
        """``peers`` are those to send to, ``links`` are the mesh interfaces."""
        own = status["node"]
        self._mark, self._node, self._peers = mark, own, peers
        behind = tuple(map(ip_network, status["own_networks"]))
        source = source_of_ipv4(own["ipv4"], asyncio.run(netlink.ipv4_addresses()), behind)
        self._ipv4 = str(source) if source else None
        """The source of IPv4 packets into networks; None: nothing is sent there."""
        self._targets = [address for peer in peers for address in _reachable(own, peer)]
        self._networks = [one for one in status["networks"] if one["peer"] in {peer["name"] for peer in peers}]
        self._targets += [target for one in self._networks if (target := self._target(one["network"]))]
        self._inside = [TUN_DEVICE, DEVICE, *([status["overlay"]["device"]] if status["overlay"] else [])]
        self._watch = Watch(
            mark,
            octets_of([own["address"], own["ipv4"], self._ipv4]),
            octets_of(address for peer in peers for address in (peer["address"], peer["ipv4"])),
            judges_incoming_ipv4=status["esp_ground"] != EspBackend.KERNEL,
            links=frozenset(links),
            behind=behind,
        )

    def run(self, phases: Sequence[_Phase], rate: float, seconds: float, *, sends: bool) -> dict[str, Any]:
        """Return what is printed. ``rate``: rounds of packets a second; ``seconds``: of each phase."""
        results = []
        with Marked(self._mark, self._node["address"], self._ipv4) as marked:
            with Capture(self._watch.take, self._inside) as capture:
                for phase in phases:
                    before = Counter(self._watch.counts)
                    self._pass(phase, marked if sends else None, 1 / rate, seconds)
                    results.append({"name": phase.name, "seconds": seconds, "packets": self._since(before)})
            marked.hear()
        clear, sent = self._watch.counts[Kind.CLEAR], sum(marked.sent.values())
        seen = sum(self._watch.counts[kind] for kind in (Kind.ESP, Kind.OVERLAY))
        proofs = seen + sum(marked.answered.values())
        found, why = verdict(clear, capture.lost, sent if sends else 1, proofs)
        return {
            "schema": "meshsec-leaktest-1",
            "verdict": found,
            "reason": why,
            "mark": self._mark.decode(),
            "peers": [self._peer(peer, marked) for peer in self._peers],
            "networks": [self._network(one, marked) for one in self._networks],
            "phases": results,
            "clear": [asdict(leak) for leak in self._watch.leaks],
            "lost": capture.lost,
        }

    def _pass(self, phase: _Phase, marked: Marked | None, interval: float, seconds: float) -> None:
        """Send all along, also while it is provoked: that runs beside."""
        import threading  # noqa: PLC0415 - for this alone

        failures: list[BaseException] = []

        def provoke() -> None:
            try:
                phase.provoke()
            except Exception as error:  # noqa: BLE001 - reported by whoever waits
                failures.append(error)

        beside = threading.Thread(target=provoke, daemon=True)
        beside.start()
        end = time.monotonic() + seconds
        label = f"{phase.name:20.20}"
        may_be_ended = suppress(KeyboardInterrupt) if marked is None else nullcontext()
        with click.progressbar(length=int(seconds * 10), label=label, file=sys.stderr) as progress, may_be_ended:
            while (now := time.monotonic()) < end or beside.is_alive():
                if marked is not None:
                    marked.send(self._targets)
                    marked.hear()
                progress.update(min(int((now - end + seconds) * 10), progress.length or 0) - progress.pos)
                time.sleep(interval)
        if failures:
            raise failures[0]
        time.sleep(_SETTLE)

    def _since(self, before: Counter[Kind]) -> dict[str, int]:
        return {kind.value: self._watch.counts[kind] - before[kind] for kind in Kind}

    def _peer(self, peer: Mapping[str, Any], marked: Marked) -> dict[str, Any]:
        addresses = _reachable(self._node, peer)
        count = {name: sum(getattr(marked, name)[one] for one in addresses) for name in ("sent", "held", "answered")}
        return {"name": peer["name"], "address": peer["address"], "ipv4": peer["ipv4"], **count}

    def _target(self, prefix: str) -> str | None:
        """Return an address in a network, which need not be anybody's; None: this node has no address to send from.

        For a default route that is one of the networks for examples (RFC 5737, RFC 3849), which nobody has.
        """
        network = ip_network(_EXAMPLES.get(prefix, prefix))
        if network.version == 4 and self._ipv4 is None:
            return None
        return str(network[min(1, network.num_addresses - 1)])

    def _network(self, one: Mapping[str, Any], marked: Marked) -> dict[str, Any]:
        target = self._target(one["network"]) or ""
        count = {name: getattr(marked, name)[target] for name in ("sent", "held")}
        return {"network": one["network"], "peer": one["peer"], "target": target or None, **count}


def _reachable(node: Mapping[str, Any], peer: Mapping[str, Any]) -> list[str]:
    return [peer["address"], *([peer["ipv4"]] if peer["ipv4"] and node["ipv4"] else [])]


def _show(view: Mapping[str, Any]) -> None:
    kinds = [kind.value for kind in Kind]
    print_table(
        ("WHILE", *(kind.upper() for kind in kinds)),
        ((phase["name"], *(phase["packets"][kind] for kind in kinds)) for phase in view["phases"]),
    )
    if view["peers"]:
        click.echo()
        rows = ((peer["name"], peer["sent"], peer["held"], peer["answered"]) for peer in view["peers"])
        print_table(("PEER", "SENT", "HELD BACK", "ANSWERED"), rows)
    if view["networks"]:
        click.echo()
        columns = ("network", "peer", "target", "sent", "held")
        rows_of_networks = (tuple(one[name] for name in columns) for one in view["networks"])
        print_table(("NETWORK", "THROUGH", "TARGET", "SENT", "HELD BACK"), rows_of_networks)
    if untried := ", ".join(one["network"] for one in view["networks"] if one["target"] is None):
        click.secho(f"not tried: {untried}: {_UNTRIED}", fg="yellow")
    for leak in view["clear"]:
        way = "out by" if leak["outgoing"] else "in by"
        click.secho(f"in the clear, {way} {leak['interface']}: {leak['source']} to {leak['destination']}", fg="red")
    click.echo()
    click.secho(f"{view['verdict']}: {view['reason']}", fg="green" if view["verdict"] == Verdict.TIGHT else "red")

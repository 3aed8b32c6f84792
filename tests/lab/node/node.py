"""A node: a network namespace with the product in it, configured by the product's own commands."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, TypeVar

from tests.lab.basics import preloaded, programs
from tests.lab.basics.patience import patient
from tests.lab.basics.processes import Daemon
from tests.lab.basics.shell import checked, run
from tests.lab.basics.waiting import Source, wait_until
from tests.lab.node import capabilities, libreswan
from tests.lab.node.libreswan import Pluto
from tests.lab.observe import control
from tests.lab.observe.capture import Capture
from tests.lab.observe.charon import Charon, SaState
from tests.lab.observe.control import ControlStream
from tests.lab.observe.kernel_events import RouteEvents

T = TypeVar("T")

IPV4_MESH = "10.77.0.0/16"


PolicyValue = str | float | list[str] | Sequence[Mapping[str, str | int]]


@dataclass(frozen=True)
class Options:
    """What scenarios vary from node to node."""

    routing_daemon: str = "olsrv2d"
    ipv4: bool = False
    policy: Mapping[str, PolicyValue] = field(default_factory=dict)
    scheduling: str = "stock"
    """The scheduling profile. By default no priority is raised, because many nodes share this machine's processors."""
    overlay: bool = False
    """Whether the node has the overlay besides ESP."""
    libreswan: str = ""
    """The Debian suite whose libreswan speaks IKE (``libreswan.suites``); empty: strongSwan."""
    esp: str = "auto"
    """Where ESP is to run: the setting ``esp``."""


class Node:
    """One node. ``directory`` holds etc and var, ``run_directory`` the sockets."""

    def __init__(self, name: str, number: int, namespace: str, directory: Path, run_directory: Path) -> None:
        self.name = name
        self.number = number
        self.namespace = namespace
        self.directory = directory
        self.etc, self.var, self.logs = directory / "etc", directory / "var", directory / "log"
        self.run_directory = run_directory
        self.interfaces: list[str] = []
        self.options = Options()
        self.card = ""
        self.address = ""
        self.locator = ""
        self.ipv4 = ""
        self.fingerprint = ""
        """The fingerprint of the node's key. Of two nodes the one with the lower fingerprint initiates."""
        self.charon = Charon(run_directory / "charon.vici")
        self.looks = dict(_LOOKS)
        """Commands whose output explains a failure, by the name of its file."""
        self._daemons: dict[str, Daemon] = {}

    @property
    def announced(self) -> str:
        """Return the address that OLSRv2 announces and on which IKE runs (docs/development/architecture.md)."""
        esp = self.options.esp if self.options.esp != "auto" else capabilities.probe().esp
        return self.address if esp == "kernel" else self.locator

    @property
    def config(self) -> Path:
        """Return the path of the node's meshsec.toml."""
        return self.etc / "meshsec.toml"

    @property
    def peers(self) -> Path:
        """Return the directory of the trust store."""
        return self.etc / "peers"

    @property
    def router(self) -> Daemon:
        """Return the routing daemon."""
        return self._daemons["router"]

    @property
    def ike(self) -> Daemon:
        """Return charon."""
        return self._daemons["charon"]

    @property
    def agent(self) -> Daemon:
        """Return meshsecd."""
        return self._daemons["meshsecd"]

    @property
    def overlay(self) -> Daemon:
        """Return overlayd; only nodes with the overlay have it."""
        return self._daemons["overlayd"]

    @property
    def overlay_socket(self) -> Path:
        """Return the path of overlayd's control socket."""
        return self.run_directory / "overlayd.sock"

    def daemon(self, kind: str) -> Daemon | None:
        """Return a daemon by its kind; None where the node has none of that kind."""
        return self._daemons.get(kind)

    @property
    def daemons(self) -> Sequence[Daemon]:
        """Return the node's daemons in the order in which they are started."""
        return list(self._daemons.values())

    def set_up(self, options: Options) -> None:
        """Write the configuration, make the key and have the product write the daemons' configurations."""
        for directory in (self.etc, self.peers, self.var, self.logs, self.run_directory):
            directory.mkdir(parents=True, exist_ok=True)
        self.options = options
        self.config.write_text(self._toml(), encoding="utf-8")
        self.meshsec("init")
        self.become(options)

    def become(self, options: Options) -> None:
        """Do what ``set_up`` does, but with the present key; no daemon may run yet."""
        self.options = options
        self.config.write_text(self._toml(), encoding="utf-8")
        self._read_card()
        self._daemons = {
            **self._ike_daemon(),
            "meshsecd": self._daemon("meshsecd", self._meshsecd()),
            "router": self._routing_daemon(),
        }
        if options.overlay:
            self._daemons["overlayd"] = self._daemon(
                "overlayd", [programs.overlayd(), "--config", str(self._export("overlayd")), "--log-level", "debug"]
            )

    def reconfigure(self, options: Options) -> None:
        """Write meshsec.toml and charon's configuration again; a daemon reads them when it is restarted."""
        self.options = options
        self.config.write_text(self._toml(), encoding="utf-8")
        self._export("strongswan")

    def assign_addresses(self) -> None:
        """Assign the addresses as meshsecd does, for a node that only relays and does not run meshsecd."""
        for address in (self.address, self.locator, self.ipv4):
            if address:
                self.run("ip", "address", "add", address, "dev", "lo")

    def trust(self, peer: "Node", card: str | None = None) -> None:
        """Add a peer by its card, as a person would."""
        self.meshsec("peer", "add", peer.name, card or peer.card)

    def install_card(self, peer: "Node") -> None:
        """Put a peer's card where a provisioning tool would put it; meshsecd reads it when it starts."""
        (self.peers / f"{peer.name}.card").write_text(f"{peer.card}\n", encoding="ascii")

    def distrust(self, peer: "Node") -> None:
        """Remove a peer."""
        self.meshsec("peer", "remove", peer.name)

    def meshsec(self, *arguments: str, check: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run the command line in the node."""
        argv = [programs.meshsec(), "--config", str(self.config), *arguments]
        if not preloaded.serves(argv):
            return self.run(*argv, check=check, timeout=timeout)
        result = preloaded.run(self.namespace, argv, patient(timeout))
        return checked(result) if check else result

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Return the answer of the control socket; {} when meshsecd does not run."""
        try:
            return control.ask(self.run_directory / "control.sock", method, params)
        except (ConnectionError, FileNotFoundError):
            return {}

    def run(
        self, *argv: str, check: bool = True, stdin: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run any program in the node's namespace."""
        return run(["ip", "netns", "exec", self.namespace, *argv], check=check, stdin=stdin, timeout=timeout)

    def peer_status(self, peer: "Node") -> dict[str, Any]:
        """Return what ``status`` says about one peer; {} when it says nothing."""
        found = [entry for entry in self.ask("status").get("peers", []) if entry["name"] == peer.name]
        return found[0] if found else {}

    def sas_with(self, peer: "Node") -> list[SaState]:
        """Return the IKE_SAs that charon has with a peer, with its present or its next key (ADR 0041)."""
        return [sa for sa in self.charon.sas() if sa.peer.rstrip("~^") == peer.name]

    def routes(self) -> dict[str, str]:
        """Return the interface of each of the routing daemon's routes in the kernel, by destination."""
        found = {}
        for family in ("-4", "-6"):
            for route in json.loads(self.run("ip", "-j", family, "route", "show", "proto", "100").stdout or "[]"):
                found[route["dst"].removesuffix("/128").removesuffix("/32")] = route["dev"]
        return found

    def wait_for(self, what: str, condition: Callable[[], T | None], seconds: float) -> T:
        """Wait for a condition on this node; check it when a route changes or meshsecd reports a change."""
        with self.sources() as sources:
            return wait_until(f"{self.name}: {what}", condition, sources, seconds, last=self.summary)

    def wait_route(self, peer: "Node", seconds: float = 60.0) -> str:
        """Wait for the routing daemon's route to a peer, and return its interface."""
        return self.wait_for(
            f"route to {peer.name}", lambda: self.routes().get(peer.locator) or self.routes().get(peer.address), seconds
        )

    def wait_state(self, peer: "Node", state: str, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until meshsecd reports a peer's channel in this state; return the peer's entry of ``status``."""

        def entry() -> dict[str, Any] | None:
            status = self.peer_status(peer)
            return status if status.get("state") == state else None

        return self.wait_for(f"channel with {peer.name} {state}", entry, seconds)

    def wait_protected(self, peer: "Node", seconds: float = 60.0) -> SaState:
        """Wait until meshsecd reports a protected channel and charon has exactly one IKE_SA with a CHILD_SA.

        When two negotiations crossed, both ends may report the channel before the duplicate is closed.
        """

        def alone() -> SaState | None:
            sas = self.sas_with(peer)
            stands = len(sas) == 1 and sas[0].state == "ESTABLISHED" and sas[0].installed
            return sas[0] if stands and self.peer_status(peer).get("state") == "protected" else None

        return self.wait_for(f"one IKE_SA with {peer.name}, protected", alone, seconds)

    @contextmanager
    def sources(self) -> Iterator[list[Source]]:
        """Return the sources of events that report changes on this node."""
        with ExitStack() as stack:
            routes = RouteEvents(self.namespace)
            stack.callback(routes.close)
            found: list[Source] = [routes]
            try:
                stream = ControlStream(self.run_directory / "control.sock")
            except (ConnectionError, FileNotFoundError):
                yield found
                return
            stack.callback(stream.close)
            yield [*found, stream]

    def capture(self, label: str, interfaces: Sequence[str] = ()) -> Capture:
        """Return a capture of what crosses the node's mesh interfaces."""
        return Capture(self.namespace, interfaces or self.interfaces, self.directory / "capture" / label)

    def summary(self) -> str:
        """Return the state of every channel in a few words."""
        peers = self.ask("status").get("peers", [])
        return "; ".join(f"{peer['name']} {peer['state']} ({peer.get('reason', '')})" for peer in peers) or "no answer"

    def artifacts(self) -> Iterator[tuple[str, str]]:
        """Yield the names and texts of the files that explain a failure."""
        yield "status.json", self._last_status()
        yield "sas.txt", "\n".join(map(str, self.charon.sas()))
        for name, argv in self.looks.items():
            yield name, self.run(*argv, check=False).stdout
        for log in sorted(self.logs.glob("*.log")):
            yield log.name, log.read_text(encoding="utf-8", errors="replace")

    def _last_status(self) -> str:
        """Return what meshsecd reports, or why it does not: one that hangs must not hide the failure."""
        try:
            view = control.ask(self.run_directory / "control.sock", "status", seconds=_LAST_WORD)
        except (OSError, LookupError) as error:
            return f"no answer: {error}"
        return json.dumps(view, indent=1)

    def _toml(self) -> str:
        options = self.options
        lines = ["[node]", f'name = "{self.name}"']
        lines += [f'ipv4 = "10.77.{self.number >> 8}.{self.number & 255}"'] if options.ipv4 else []
        lines += [
            "",
            "[routing]",
            f'daemon = "{options.routing_daemon}"',
            f"interfaces = {json.dumps(self.interfaces)}",
        ]
        lines += [f'socket = "{self.run_directory}/changes.sock"']
        lines += ["", "[paths]", 'peers = "peers"', 'state = "../var"', f'run = "{self.run_directory}"']
        lines += ["", "[ike]", f'esp = "{options.esp}"', *(['daemon = "libreswan"'] if options.libreswan else [])]
        lines += [f'pluto = "{self.run_directory}/pluto.ctl"']
        lines += ["", "[scheduling]", f'profile = "{options.scheduling}"']
        mesh_prefixes = ["fc00::/7", IPV4_MESH] if options.ipv4 else ["fc00::/7"]
        if options.overlay:
            lines += ["", "[overlay]", "enabled = true", f'socket = "{self.overlay_socket}"']
        policy = {"mesh_prefixes": mesh_prefixes, **options.policy}
        lines += ["", "[policy]", *(f"{key} = {_toml(value)}" for key, value in policy.items())]
        return "\n".join(lines) + "\n"

    def _read_card(self) -> None:
        shown = json.loads(self.meshsec("key", "show", "--json").stdout)
        self.card = shown["card"]
        self.address, self.locator = shown["address"], shown["locator"]
        self.fingerprint = shown["fingerprint"]
        self.ipv4 = shown.get("ipv4") or ""
        assert IPv6Address(self.address).packed[0] == 0xFC

    def _export(self, kind: str) -> Path:
        """Have the product write the configuration of another daemon."""
        path = self.etc / f"{kind}.conf"
        path.write_text(self.meshsec("export", kind).stdout, encoding="utf-8")
        return path

    def _ike_daemon(self) -> dict[str, Daemon]:
        if suite := self.options.libreswan:
            self.etc.joinpath("ipsec").mkdir(exist_ok=True)
            self.pluto = Pluto(
                self.namespace, self.etc / "ipsec", self.run_directory, libreswan.suites()[suite], self.logs
            )
            return {"pluto": self.pluto.daemon}
        env = {"STRONGSWAN_CONF": str(self._export("strongswan"))}
        return {"charon": self._daemon("charon", [programs.charon()], env)}

    def _meshsecd(self) -> list[str]:
        argv = [programs.meshsecd(), "--config", str(self.config)]
        suite = self.options.libreswan
        return libreswan.in_place(libreswan.suites()[suite], argv) if suite else argv

    def _routing_daemon(self) -> Daemon:
        if self.options.routing_daemon == "olsrd2":
            return self._daemon("router", [programs.olsrd2(), f"--load={self._export('olsrd2')}"], notifies=False)
        return self._daemon("router", [programs.olsrv2d(), "--config", str(self._export("olsrv2d"))])

    def _daemon(
        self, name: str, argv: list[str], env: Mapping[str, str] | None = None, notifies: bool = True
    ) -> Daemon:
        logs, sockets = self.logs, self.run_directory
        return Daemon(name, self.namespace, argv, logs=logs, sockets=sockets, env=env, notifies=notifies)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


_LAST_WORD = 5.0
"""Seconds to wait for an answer after the test has already failed."""
_LOOKS = {
    "rules.txt": ["nft", "list", "ruleset"],
    "routes.txt": ["ip", "-6", "route", "show", "table", "all"],
    "routes4.txt": ["ip", "route", "show", "table", "all"],
    "policy-rules.txt": ["ip", "-6", "rule"],
    "addresses.txt": ["ip", "address"],
    "xfrm.txt": ["ip", "xfrm", "policy"],
    "counters.txt": ["ip", "-s", "link"],
}

"""A node: a network namespace with the product in it, configured by the product's own commands."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, TypeVar

from tests.lab.basics import preloaded, programs
from tests.lab.basics.patience import patient
from tests.lab.basics.shell import checked, run
from tests.lab.basics.waiting import Source, wait_until
from tests.lab.node import capabilities
from tests.lab.node.daemons import Daemons
from tests.lab.node.options import Options, configuration
from tests.lab.observe.capture import Capture
from tests.lab.observe.charon import Charon, SaState
from tests.lab.observe.control import Control
from tests.lab.observe.kernel import Kernel
from tests.lab.observe.kernel_events import RouteEvents

T = TypeVar("T")


class Node:
    """One node. ``directory`` holds etc and var, ``run_directory`` the sockets."""

    def __init__(self, name: str, number: int, namespace: str, directory: Path, run_directory: Path) -> None:
        self.name = name
        self.number = number
        self.namespace = namespace
        self.directory = directory
        self.etc, self.var, self.logs = directory / "etc", directory / "var", directory / "log"
        self.config, self.peers = self.etc / "meshsec.toml", self.etc / "peers"
        self.interfaces: list[str] = []
        self.options = Options()
        self.card = ""
        self.address = ""
        self.locator = ""
        self.ipv4 = ""
        self.fingerprint = ""
        """The fingerprint of the node's key. Of two nodes the one with the lower fingerprint initiates."""
        self.reach_at(run_directory)
        self.kernel = Kernel(namespace)
        self.daemons = Daemons(namespace, self.etc, self.logs, run_directory)
        self.looks: dict[str, list[str]] = {}
        """Further commands whose output explains a failure, by the name of its file."""

    @property
    def announced(self) -> str:
        """Return the address that OLSRv2 announces and on which IKE runs (docs/development/architecture.md)."""
        esp = self.options.esp if self.options.esp != "auto" else capabilities.probe().esp
        return self.address if esp == "kernel" else self.locator

    def reach_at(self, run_directory: Path) -> None:
        """Find the daemons' sockets in this directory from now on."""
        self.run_directory = run_directory
        self.overlay_socket = run_directory / "overlayd.sock"
        self.charon = Charon(run_directory / "charon.vici")
        self.control = Control(run_directory / "control.sock")

    def set_up(self, options: Options) -> None:
        """Write the configuration, make the key and have the product write the daemons' configurations."""
        for directory in (self.etc, self.peers, self.var, self.logs, self.run_directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._write_config(options)
        self.meshsec("init")
        self.become(options)

    def become(self, options: Options) -> None:
        """Do what ``set_up`` does, but with the present key; no daemon may run yet."""
        self._write_config(options)
        shown = json.loads(self.meshsec("key", "show", "--json").stdout)
        self.card = shown["card"]
        self.address, self.locator = shown["address"], shown["locator"]
        self.fingerprint = shown["fingerprint"]
        self.ipv4 = shown.get("ipv4") or ""
        assert IPv6Address(self.address).packed[0] == 0xFC
        self.daemons.make(options, self.config, self._export)

    def reconfigure(self, options: Options) -> None:
        """Write meshsec.toml and charon's configuration again; a daemon reads them when it is restarted."""
        self._write_config(options)
        self._export("strongswan")

    def assign_addresses(self) -> None:
        """Assign the addresses as meshsecd does, for a node that only relays and does not run meshsecd."""
        for address in (self.address, self.locator, self.ipv4):
            if address:
                self.run("ip", "address", "add", address, "dev", "lo")

    def trust(self, peer: "Node") -> None:
        """Add a peer by its card, as a person would."""
        self.meshsec("peer", "add", peer.name, peer.card)

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

    def run(
        self, *argv: str, check: bool = True, stdin: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run any program in the node's namespace."""
        return run(["ip", "netns", "exec", self.namespace, *argv], check=check, stdin=stdin, timeout=timeout)

    def wait_for(self, what: str, condition: Callable[[], T | None], seconds: float) -> T:
        """Wait for a condition on this node; check it when a route changes or meshsecd reports a change."""
        with self.sources() as sources:
            return wait_until(f"{self.name}: {what}", condition, sources, seconds, last=self.control.summary)

    def wait_route(self, peer: "Node", seconds: float = 60.0) -> str:
        """Wait for the routing daemon's route to a peer, and return its interface."""

        def interface() -> str | None:
            found = self.kernel.interfaces()
            return found.get(peer.locator) or found.get(peer.address)

        return self.wait_for(f"route to {peer.name}", interface, seconds)

    def wait_state(self, peer: "Node", state: str, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until meshsecd reports a peer's channel in this state; return the peer's entry of ``status``."""

        def entry() -> dict[str, Any] | None:
            status = self.control.peer(peer.name)
            return status if status.get("state") == state else None

        return self.wait_for(f"channel with {peer.name} {state}", entry, seconds)

    def wait_protected(self, peer: "Node", seconds: float = 60.0) -> SaState:
        """Wait until meshsecd reports a protected channel and charon has exactly one IKE_SA with a CHILD_SA.

        When two negotiations crossed, both ends may report the channel before the duplicate is closed.
        """

        def alone() -> SaState | None:
            sas = self.charon.sas_with(peer.name)
            single = len(sas) == 1 and sas[0].state == "ESTABLISHED" and sas[0].installed
            return sas[0] if single and self.control.peer(peer.name).get("state") == "protected" else None

        return self.wait_for(f"one IKE_SA with {peer.name}, protected", alone, seconds)

    @contextmanager
    def sources(self) -> Iterator[list[Source]]:
        """Return the sources of events that report changes on this node."""
        with ExitStack() as stack:
            routes = RouteEvents(self.namespace)
            stack.callback(routes.close)
            found: list[Source] = [routes]
            try:
                stream = self.control.watch()
            except (ConnectionError, FileNotFoundError):
                yield found
                return
            stack.callback(stream.close)
            yield [*found, stream]

    def capture(self, label: str, interfaces: Sequence[str] = ()) -> Capture:
        """Return a capture of what crosses the node's mesh interfaces."""
        return Capture(self.namespace, interfaces or self.interfaces, self.directory / "capture" / label)

    def _write_config(self, options: Options) -> None:
        self.options = options
        text = configuration(self.name, self.number, options, self.interfaces, self.run_directory)
        self.config.write_text(text, encoding="utf-8")

    def _export(self, kind: str) -> Path:
        """Have the product write the configuration of another daemon."""
        path = self.etc / f"{kind}.conf"
        path.write_text(self.meshsec("export", kind).stdout, encoding="utf-8")
        return path

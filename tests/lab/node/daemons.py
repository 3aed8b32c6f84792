"""The daemons of one node, started by the programs and configurations that its options ask for."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.lab.basics import programs
from tests.lab.basics.places import BUILD
from tests.lab.basics.processes import Daemon
from tests.lab.node import libreswan
from tests.lab.node.libreswan import Pluto
from tests.lab.node.options import Options

Export = Callable[[str], Path]
"""Has the product write the configuration of a daemon, and returns its path."""


class Daemons:
    """The daemons of one node, by their kind; none before the node has its configuration."""

    def __init__(self, namespace: str, etc: Path, logs: Path, sockets: Path) -> None:
        self._namespace, self._etc, self._logs, self._sockets = namespace, etc, logs, sockets
        self._by_kind: dict[str, Daemon] = {}

    @property
    def router(self) -> Daemon:
        """Return the routing daemon."""
        return self._by_kind["router"]

    @property
    def signer(self) -> Daemon:
        """Return olsrv2-signer; only nodes whose router signs have it."""
        return self._by_kind["signer"]

    @property
    def charon(self) -> Daemon:
        """Return charon; a node with libreswan has ``pluto`` instead."""
        return self._by_kind["charon"]

    @property
    def agent(self) -> Daemon:
        """Return meshsecd."""
        return self._by_kind["meshsecd"]

    @property
    def ear(self) -> Daemon:
        """Return the process that hears clients; only access nodes have it."""
        return self._by_kind["clients"]

    @property
    def page(self) -> Daemon:
        """Return the page's server; only nodes with the page have it."""
        return self._by_kind["page"]

    @property
    def overlay(self) -> Daemon:
        """Return overlayd; only nodes with the overlay have it."""
        return self._by_kind["overlayd"]

    def get(self, kind: str) -> Daemon | None:
        """Return the daemon of this kind; None where the node has none."""
        return self._by_kind.get(kind)

    def all(self) -> Sequence[Daemon]:
        """Return the daemons; the overlay's is the last one."""
        return list(self._by_kind.values())

    def make(self, options: Options, config: Path, export: Export) -> None:
        """Replace the daemons by those that the options ask for; none of the former may run."""
        self._by_kind = {
            **self._ike(options, export),
            "meshsecd": self._daemon("meshsecd", _meshsecd(options, config)),
            **self._routing(options, config, export),
        }
        if options.overlay:
            argv = [programs.overlayd(), "--config", str(export("overlayd")), "--log-level", "debug"]
            self._by_kind["overlayd"] = self._daemon("overlayd", argv)
        if options.page is not None:
            argv = [programs.meshsec_page(), "--config", str(config), "--assets", str(BUILD / "page")]
            argv += ["--map", str(config.parent / "map.pmtiles")]
            self._by_kind["page"] = self._daemon("page", argv)
        if options.access:
            self._by_kind["clients"] = self._daemon("clients", [*_meshsecd(options, config), "--hear-clients"])
            self._by_kind["dnsmasq"] = self._dnsmasq(export("dnsmasq"))
            (self._sockets / "services").mkdir(exist_ok=True)
            argv = [programs.meshsec(), "dns-sd", "--offered", str(self._sockets / "services/offered")]
            self._by_kind["dns-sd"] = self._daemon("dns-sd", [*argv, "--dnsmasq", programs.dnsmasq()])

    @property
    def beside_dnsmasq(self) -> Path:
        """Where dnsmasq keeps its leases, as in its unit."""
        return self._sockets.with_name(f"{self._sockets.name}-access")

    def _dnsmasq(self, config: Path) -> Daemon:
        """Beside its leases is the node's ``resolv.conf``, which is empty."""
        beside = self.beside_dnsmasq
        beside.mkdir(exist_ok=True)
        (beside / "resolv.conf").touch()
        for directory in ("access", "names"):
            (self._sockets / directory).mkdir(exist_ok=True)
        argv = [programs.dnsmasq(), "--keep-in-foreground", "--user=root", f"--conf-file={config}"]
        argv += [f"--resolv-file={beside / 'resolv.conf'}", "--pid-file="]
        return self._daemon("dnsmasq", argv, notifies=False)

    def _ike(self, options: Options, export: Export) -> dict[str, Daemon]:
        if suite := options.libreswan:
            directory = self._etc / "ipsec"
            directory.mkdir(exist_ok=True)
            self.pluto = Pluto(self._namespace, directory, self._sockets, libreswan.suites()[suite], self._logs)
            return {"pluto": self.pluto.daemon}
        env = {"STRONGSWAN_CONF": str(export("strongswan"))}
        return {"charon": self._daemon("charon", [programs.charon()], env)}

    def _routing(self, options: Options, config: Path, export: Export) -> dict[str, Daemon]:
        """Return the router, and its signer where the router's configuration names one."""
        if options.routing_daemon == "olsrd2":
            return {"router": self._daemon("router", [programs.olsrd2(), f"--load={export('olsrd2')}"], notifies=False)}
        exported = export("olsrv2d")
        router = self._daemon("router", [programs.olsrv2d(), "--config", str(exported)])
        socket = signer_of(exported.read_text(encoding="utf-8"))
        return {**({} if socket is None else {"signer": self._signer(config, socket)}), "router": router}

    def _signer(self, config: Path, socket: str) -> Daemon:
        """Keep the counter beside the key."""
        state = tomllib.loads(config.read_text(encoding="utf-8"))["paths"]["state"]
        key = (config.parent / state / "node.key").resolve()
        argv = [programs.olsrv2_signer(), "--key", str(key), "--counter", str(key.with_name("counter"))]
        return self._daemon("signer", [*argv, "--socket", socket])

    def _daemon(
        self, name: str, argv: list[str], env: Mapping[str, str] | None = None, notifies: bool = True
    ) -> Daemon:
        logs, sockets = self._logs, self._sockets
        return Daemon(name, self._namespace, argv, logs=logs, sockets=sockets, env=env, notifies=notifies)


def signer_of(configuration: str) -> str | None:
    """Return the socket at which a router's configuration has messages signed; None if they are not signed."""
    settings = tomllib.loads(configuration)
    socket = settings.get("signer", "off")
    return None if "off" in (socket, settings.get("signatures", "off")) else str(socket)


def _meshsecd(options: Options, config: Path) -> list[str]:
    argv = [programs.meshsecd(), "--config", str(config)]
    suite = options.libreswan
    return libreswan.in_place(libreswan.suites()[suite], argv) if suite else argv

"""The test fleet: bare Debian nodes in a line, each booted with systemd, reached by ssh over a network of their own.

Two networks: the mesh, cables as in any lab, and the management network, a bridge that joins each node's ``mgmt0`` with
the controller's namespace. That one has neither a route nor an interface to this machine's network: what a node
installs comes from two apt repositories there, an excerpt of Debian and the project's packages.

``python -m tests.lab.machines.fleet --nodes 3`` boots a fleet to play with and says how to reach it.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.basics import shell
from tests.lab.basics.places import REPOSITORY
from tests.lab.lab import Lab
from tests.lab.machines import fleet_repository, fleet_root, nspawn
from tests.lab.machines.fleet_repository import SigningKey, publish, served
from tests.lab.machines.fleet_root import SUITES, Bare
from tests.lab.net import namespaces
from tests.lab.net.links import Cables, Station
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node

PACKAGES = REPOSITORY / "build" / "deb"
"""Where ``make deb`` leaves the project's packages, in a directory for each release."""
HANDOVER = Path("build/fleet/run")
"""Link to the running fleet's directory, which has the controller's namespace and the inventory."""
INTERFACE = "mgmt0"
NETWORK = "198.18.0."  # RFC 2544, section C.2.2: for tests, routed nowhere
CONTROLLER = f"{NETWORK}254"
_MOST = 253
_PROGRAMS = ("ssh", "ssh-keygen", *fleet_repository.PROGRAMS)


def obstacle() -> str | None:
    """Return why this machine cannot have a fleet, or None."""
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        return f"not installed: {' '.join(missing)}"
    return fleet_root.obstacle() or nspawn.obstacle_to_boot()


class Managed(Cables):
    """Cables for the mesh, and a management network."""

    def __init__(self) -> None:
        self.namespace = ""
        """The controller's namespace; it is deleted with the lab."""
        self.addresses: dict[str, str] = {}

    def equip(self, station: Station) -> None:
        """Give a node its address on the management network, and undo what the lab configures in every node."""
        if not self.namespace:
            self._make(f"{station.namespace.removesuffix(station.name)}mgmt")
        self.addresses[station.name] = f"{NETWORK}{len(self.addresses) + 1}"
        port = f"m-{station.name}"
        peer = ["peer", "name", port, "netns", self.namespace]
        shell.run(["ip", "link", "add", INTERFACE, "netns", station.namespace, "type", "veth", *peer])
        shell.run(["ip", "-n", self.namespace, "link", "set", port, "master", "bridge", "up"])
        address = f"{self.addresses[station.name]}/24"
        shell.run(["ip", "-n", station.namespace, "address", "add", address, "dev", INTERFACE])
        shell.run(["ip", "-n", station.namespace, "link", "set", INTERFACE, "up"])
        off = ("net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
        shell.run(["ip", "netns", "exec", station.namespace, "sysctl", "-q", "-w", *off])

    def _make(self, namespace: str) -> None:
        namespaces.create(namespace)
        self.namespace = namespace
        shell.run(["ip", "-n", namespace, "link", "add", "bridge", "type", "bridge"])
        shell.run(["ip", "-n", namespace, "address", "add", f"{CONTROLLER}/24", "dev", "bridge"])
        shell.run(["ip", "-n", namespace, "link", "set", "bridge", "up"])


@dataclass(frozen=True)
class Keys:
    """The keys of one fleet: ssh's in a directory, and the repositories' public key."""

    directory: Path
    repository: bytes

    @property
    def client(self) -> Path:
        """Return the path of the controller's private key."""
        return self.directory / "id_ed25519"

    @property
    def hosts(self) -> Path:
        """Return the path of the nodes' public keys, so that no key is trusted on first use."""
        return self.directory / "known_hosts"

    @property
    def archive(self) -> Path:
        """Return the path of the repositories' public key as the controller gives it to a node."""
        return self.directory / "repository.asc"

    @classmethod
    def make(cls, directory: Path, repository: bytes) -> "Keys":
        """Make the controller's key."""
        directory.mkdir(mode=0o700)
        keys = cls(directory, repository)
        keys.archive.write_bytes(repository)
        keys.generate(keys.client)
        return keys

    def generate(self, path: Path) -> str:
        """Make a key pair at a path. Return its public half."""
        shell.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test fleet", "-f", str(path)])
        return path.with_suffix(".pub").read_text(encoding="ascii")

    def know(self, address: str, public: str) -> None:
        """Record the public key of an address."""
        with self.hosts.open("a", encoding="ascii") as file:
            file.write(f"{address} {' '.join(public.split()[:2])}\n")

    def options(self) -> list[str]:
        """Return ssh's options for these keys."""
        chosen = (f"UserKnownHostsFile={self.hosts}", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes")
        return [word for option in chosen for word in ("-o", option)]


def set_up(layer: Path, name: str, address: str, suite: str, keys: Keys) -> None:
    """Write what the person who set a machine up has left: keys for ssh, and Debian's mirror."""
    ssh, home = layer / "etc/ssh", layer / "root/.ssh"
    for directory in (ssh, home, layer / "etc/apt/keyrings", layer / "etc/apt/sources.list.d"):
        directory.mkdir(parents=True)
    (layer / "root").chmod(0o700)
    home.chmod(0o700)
    keys.know(address, keys.generate(ssh / "ssh_host_ed25519_key"))
    public = keys.client.with_suffix(".pub").read_text(encoding="ascii")
    (home / "authorized_keys").write_text(public, encoding="ascii")
    (layer / "etc/apt/keyrings/debian.asc").write_bytes(keys.repository)
    (layer / "etc/apt/sources.list.d/mirror.sources").write_text(source("debian", suite), encoding="ascii")
    (layer / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n", encoding="ascii")


class FleetNode(nspawn.Machine):
    """A bare node of a release."""

    def __init__(self, node: Node, bare: Bare, address: str, keys: Keys) -> None:
        super().__init__(node)
        self.suite = bare.suite
        self.address = address
        """The address on the management network."""
        self._bare = bare
        self._keys = keys

    @contextmanager
    def _base(self) -> Iterator[Path]:
        with self._bare.in_use() as root:
            yield root

    def _lent(self) -> list[str]:
        return []

    def _install(self, layer: Path) -> None:
        set_up(layer, self.node.name, self.address, self.suite, self._keys)


class Fleet:
    """Nodes in a line, whose releases alternate. Leaving the block ends them and removes their files."""

    def __init__(self, count: int, packages: Path = PACKAGES) -> None:
        """``count``: 2 to 253. ``packages``: a directory for each release, with the project's packages."""
        if not 2 <= count <= _MOST:
            raise ValueError(f"a fleet has 2 to {_MOST} nodes, not {count}")
        self._packages = packages
        self._medium = Managed()
        self.lab = Lab("fleet", line(names(count)), medium=self._medium)
        self.nodes: dict[str, FleetNode] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            bare = {suite: fleet_root.built(suite, _say) for suite in SUITES}
            stack.enter_context(self.lab)
            first = next(iter(self.lab.nodes.values()))
            self.directory, self.run_directory = first.directory.parent, first.run_directory.parent
            signing = stack.enter_context(SigningKey())
            self.keys = Keys.make(self.directory / "keys", signing.public())
            stack.enter_context(self._repositories(bare, signing))
            for number, (name, node) in enumerate(self.lab.nodes.items()):
                machine = FleetNode(node, bare[SUITES[number % len(SUITES)]], self._medium.addresses[name], self.keys)
                self.nodes[name] = stack.enter_context(machine)
            self._write_inventory()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def controller(self) -> list[str]:
        """Return the words in front of a program that is to run where the controller is."""
        return ["ip", "netns", "exec", self._medium.namespace]

    @property
    def namespace(self) -> str:
        """Return the controller's namespace."""
        return self._medium.namespace

    @property
    def inventory(self) -> Path:
        """Return the path of Ansible's inventory."""
        return self.directory / "inventory" / "hosts.json"

    def ssh(self, name: str, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a node over a new connection, as an operator does."""
        target = f"root@{self.nodes[name].address}"
        argv = [*self.controller, "ssh", "-i", str(self.keys.client), "-o", "BatchMode=yes", *self.keys.options()]
        return shell.run([*argv, target, command], check=check, timeout=180)

    def learn_cards(self) -> None:
        """Tell the lab each node's card and addresses, once the nodes have keys."""
        for name, machine in self.nodes.items():
            shown = json.loads(self.ssh(name, "meshsec key show --json").stdout)
            node = machine.node
            node.card, node.address, node.locator = shown["card"], shown["address"], shown["locator"]

    def add_source(self, name: str) -> None:
        """Add the project's packages to a node's apt sources, as an operator does by hand."""
        machine = self.nodes[name]
        machine.write("/etc/apt/keyrings/meshsec.asc", self.keys.repository.decode())
        machine.write("/etc/apt/sources.list.d/meshsec.sources", source("meshsec", machine.suite))

    def offer(self, suite: str, packages: Iterable[Path]) -> None:
        """Replace the content of the project's repository for a release."""
        publish(self._archive / "meshsec" / suite, packages, self._signing)

    def packages(self, suite: str) -> list[Path]:
        """Return the project's packages for a release and this machine's architecture."""
        return [path for kind in ("amd64", "all") for path in (self._packages / suite).glob(f"*_{kind}.deb")]

    @property
    def _archive(self) -> Path:
        return self.directory / "archive"

    @contextmanager
    def _repositories(self, bare: dict[str, Bare], signing: SigningKey) -> Iterator[None]:
        self._signing = signing
        for suite, root in bare.items():
            publish(self._archive / "debian" / suite, root.pool.glob("*.deb"), signing, index=root.pool / "Packages")
            self.offer(suite, self.packages(suite))
        with served(self._archive, self._medium.namespace, CONTROLLER, self.directory / "archive.log"):
            yield

    def _write_inventory(self) -> None:
        hosts = {
            name: {
                "ansible_host": machine.address,
                "meshsec_interfaces": machine.node.interfaces,
                "meshsec_apt_uri": uri("meshsec", machine.suite),
            }
            for name, machine in self.nodes.items()
        }
        write_inventory(self.inventory, self.keys, hosts)


def write_inventory(path: Path, keys: Keys, hosts: Mapping[str, Mapping[str, object]]) -> None:
    """Write Ansible's inventory of machines that have these keys."""
    reached = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_private_key_file": str(keys.client),
        "ansible_ssh_common_args": " ".join(keys.options()),
        "meshsec_apt_suite": "./",
        "meshsec_apt_key": str(keys.archive),
    }
    path.parent.mkdir()
    content = {"all": {"vars": reached, "children": {"mesh": {"hosts": hosts}}}}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def uri(kind: str, suite: str) -> str:
    return f"http://{CONTROLLER}/{kind}/{suite}/"


def source(kind: str, suite: str) -> str:
    """Return an apt source; its key has the repository's name."""
    return f"Types: deb\nURIs: {uri(kind, suite)}\nSuites: ./\nSigned-By: /etc/apt/keyrings/{kind}.asc\n"


def _say(text: str) -> None:
    print(f"fleet: {text}", file=sys.stderr, flush=True)


@contextmanager
def _handed_over(fleet: Fleet, at: Path) -> Iterator[None]:
    """Have a link at a fixed path lead to the fleet while the block runs."""
    (fleet.directory / "namespace").write_text(f"{fleet.namespace}\n", encoding="ascii")
    at.unlink(missing_ok=True)
    at.symlink_to(fleet.directory)
    try:
        yield
    finally:
        at.unlink(missing_ok=True)


def main() -> int:
    """Boot a fleet, and end it at SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.machines.fleet", description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help="2 to 253 (3)")
    parser.add_argument("--packages", type=Path, default=PACKAGES, metavar="DIRECTORY", help="in it RELEASE/*.deb")
    parser.add_argument("--handover", type=Path, default=HANDOVER, metavar="LINK", help="to the fleet's directory")
    arguments = parser.parse_args()
    if found := obstacle():
        _say(found)
        return 1
    where: Path = arguments.handover
    with suppress(KeyboardInterrupt), Fleet(arguments.nodes, arguments.packages) as fleet, _handed_over(fleet, where):
        _say(f"{len(fleet.nodes)} nodes are up; an inventory is {where}/inventory/hosts.json")
        _say(f"run there: ip netns exec $(cat {where}/namespace) ansible-playbook -i {where}/inventory/hosts.json ...")
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())

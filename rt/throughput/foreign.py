"""Two neighbours joined by a foreign tunnel in user space: wireguard-go and yggdrasil, each where it is on PATH."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rt.throughput.lines import READY, Line, Place, Planes, cjdroute_version
from tests.lab.basics.processes import Daemon
from tests.lab.basics.programs import find
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.node.routers import Mesh, Router

MISSING = "not on PATH"
OUTER = ("10.79.0.1", "10.79.0.2")
"""The addresses of both nodes on their link."""
_PORT = 9001
_WIREGUARD, _YGGDRASIL = "wireguard-go", "yggdrasil"
_INNER = ("fd79::1", "fd79::2")
"""The addresses inside wireguard-go's tunnel."""
_UAPI = Path("/var/run/wireguard")
"""Where wireguard-go makes its socket, by the name of the interface: it must not be that of another namespace."""


def versions() -> dict[str, str]:
    """Return the versions of all foreign programs that bench-securing knows, or that they are not there."""
    return {
        "cjdroute": cjdroute_version(),
        _WIREGUARD: _version(_WIREGUARD, "--version"),
        _YGGDRASIL: _version(_YGGDRASIL, "-version"),
    }


def planes() -> Planes:
    """Return what makes a running pair of neighbours, by program; only those on PATH."""
    made = {_WIREGUARD: wireguard, _YGGDRASIL: yggdrasil}
    return {name: make for name, make in made.items() if find(name)}


@contextmanager
def wireguard() -> Iterator[Line]:
    """Join both by WireGuard, which its interface in user space carries."""
    with _neighbours() as routers:
        keys = [X25519PrivateKey.generate() for _ in routers]
        names = [f"wg{os.getpid() % 10_000}{router.name}" for router in routers]
        daemons = [
            _daemon(_WIREGUARD, router, [str(find(_WIREGUARD)), "-f", name])
            for router, name in zip(routers, names, strict=True)
        ]
        with _running(daemons):
            for number, (router, name) in enumerate(zip(routers, names, strict=True)):
                path = _UAPI / f"{name}.sock"
                wait_until(f"{path} is there", path.exists, [], READY)
                _set(path, _peer(keys, number))
                router.ip("address", "add", f"{_INNER[number]}/64", "dev", name, "nodad")
                router.ip("link", "set", name, "up")
            yield _line(routers, _INNER, daemons)


@contextmanager
def yggdrasil() -> Iterator[Line]:
    """Join both by yggdrasil over TCP, as its peerings are."""
    with _neighbours() as routers:
        daemons, addresses = [], []
        for number, router in enumerate(routers):
            settings = json.loads(run([str(find(_YGGDRASIL)), "-genconf", "-json"]).stdout)
            settings |= {"AdminListen": "none", "MulticastInterfaces": [], "IfName": "ygg0"}
            settings |= {"Listen": [f"tcp://{OUTER[0]}:{_PORT}"]} if number == 0 else {}
            settings |= {"Peers": [f"tcp://{OUTER[0]}:{_PORT}"]} if number else {}
            path = router.directory / "yggdrasil.conf"
            path.write_text(json.dumps(settings), encoding="utf-8")
            argv = [str(find(_YGGDRASIL)), "-useconffile", str(path)]
            addresses.append(run([*argv, "-address"]).stdout.strip())
            daemons.append(_daemon(_YGGDRASIL, router, argv))
        with _running(daemons):
            yield _line(routers, addresses, daemons)


@contextmanager
def _neighbours() -> Iterator[list[Router]]:
    """Two nodes on a link with IPv4 addresses; no routing daemon runs."""
    with Mesh([("a", "b")]) as mesh:
        routers = list(mesh.routers.values())
        for router, address in zip(routers, OUTER, strict=True):
            router.ip("address", "add", f"{address}/24", "dev", router.interfaces[0])
        yield routers


def _daemon(name: str, router: Router, argv: list[str]) -> Daemon:
    where = router.directory
    return Daemon(name, router.namespace, argv, logs=where, sockets=where, notifies=False)


@contextmanager
def _running(daemons: list[Daemon]) -> Iterator[None]:
    try:
        for daemon in daemons:
            daemon.start()
        yield
    finally:
        for daemon in daemons:
            daemon.stop()


def _peer(keys: list[X25519PrivateKey], number: int) -> list[str]:
    """Return the settings of one end (https://www.wireguard.com/xplatform/, "Configuration Protocol")."""
    other = 1 - number
    return [
        f"private_key={keys[number].private_bytes_raw().hex()}",
        f"listen_port={_PORT}",
        f"public_key={keys[other].public_key().public_bytes_raw().hex()}",
        f"endpoint={OUTER[other]}:{_PORT}",
        f"allowed_ip={_INNER[other]}/128",
    ]


def _set(path: Path, settings: list[str]) -> None:
    """Give wireguard-go its settings. Raises OSError with its error number when it refuses them."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(READY)
        client.connect(str(path))
        client.sendall(("\n".join(["set=1", *settings]) + "\n\n").encode("ascii"))
        if (answer := client.recv(4096).decode("ascii").strip()) != "errno=0":
            raise OSError(f"wireguard-go refuses its settings: {answer}")


def _line(routers: list[Router], addresses: tuple[str, ...] | list[str], daemons: list[Daemon]) -> Line:
    for router, address in zip(routers, addresses, strict=True):
        wait_until(f"{router.name} has {address}", partial(_has, router, address), [], READY)
    ends = zip(routers, addresses, daemons, strict=True)
    line = Line([Place(router.namespace, address, [daemon]) for router, address, daemon in ends])
    line.wait_answer(1)
    return line


def _has(router: Router, address: str) -> bool:
    return bool(router.ip("-o", "-6", "address", "show", "to", address, "up").stdout)


def _version(program: str, argument: str) -> str:
    if not find(program):
        return MISSING
    shown = run([str(find(program)), argument], check=False)
    found = [line for line in (shown.stdout + shown.stderr).splitlines() if "ersion" in line or " v" in line]
    return found[-1].rpartition(" ")[2] if found else "unknown"

"""What `meshsec uninstall` finds on the machine. A part that cannot be looked at is named, and the others count."""

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import (
    credential,
    drop_in_files,
    hosts_file,
    key_store,
    replaced_units,
    secret_file,
    sysctl_d,
)
from meshsec.adapters.files.config_file import ConfigError
from meshsec.adapters.files.key_store import KeyStoreError
from meshsec.adapters.files.replaced_units import Was
from meshsec.adapters.kernel import leftovers
from meshsec.adapters.kernel.leftovers import LeftoversError
from meshsec.adapters.overlay import routes as overlay
from meshsec.adapters.radio import nl80211
from meshsec.adapters.systemd import State, SystemdError
from meshsec.cli import rivals
from meshsec.cli.app import App
from meshsec.core.access import shared_address
from meshsec.core.config.routing_settings import RoutingDaemon
from meshsec.core.config.settings import Paths
from meshsec.core.networks import networks
from meshsec.core.radio.observed import MESH_POINT
from meshsec.core.trust import identity
from meshsec.core.uninstall import plan
from meshsec.core.uninstall.plan import Facts, Unit
from meshsec.core.values.model import Address

_ROUTER = 100
"""Protocol number of olsrv2d's routes (docs/reference/olsrv2d.md)."""
_RADIO = "meshsec-radio@"
_FAILURES = (OSError, SystemdError, LeftoversError, files.FileError, KeyStoreError)

_NO_ADDRESSES: frozenset[Address] = frozenset()
_NO_UNITS: tuple[tuple[Unit, ...], Mapping[str, State]] = ((), {})
_NO_POLICIES: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Node:
    """What the configuration says, or what the packages do where there is none."""

    paths: Paths = field(default_factory=Paths)
    ipv4: IPv4Address | None = None
    interfaces: tuple[str, ...] = ()
    has_radios: bool = False
    has_own_router: bool = False
    """False: the routes with olsrv2d's protocol number may be those of olsrd2, which is not meshsec's."""


class Survey:
    """A look at the machine."""

    def __init__(self, app: App) -> None:
        self.problems: list[str] = []
        """What could not be looked at, and why."""
        node = self._node(app)
        self.socket = app.socket_option or Path(node.paths.control_socket)
        """Where meshsecd answers, if it runs."""
        state = Path(node.paths.state)
        protocols = (*leftovers.PROTOCOLS, overlay.PROTOCOL, *([_ROUTER] if node.has_own_router else []))
        own = self._part("the node's addresses", lambda: _own(Path(node.paths.key), node.ipv4), _NO_ADDRESSES)
        units, others = self._part("systemd's units", _units, _NO_UNITS)
        record = self._part("the record of units", lambda: _record(state), None)
        priorities, ends = self._part("XFRM", lambda: leftovers.policies_and_ends(own), _NO_POLICIES)
        self.facts = Facts(
            has_systemd=systemd.is_booted(),
            units=units,
            replaced=tuple(_before(name, was) for name, was in (record or {}).items() if name in others),
            record="" if record is None else str(replaced_units.path(state)),
            unrecorded=_unrecorded(others, record),
            radios=self._part("radios", lambda: _in_mesh(node), ()),
            has_names=self._part("names", _has_names, False),
            drop_ins=self._part("drop-ins", lambda: tuple(map(str, drop_in_files.written())), ()),
            devices=self._part("devices", lambda: leftovers.devices((networks.DEVICE, shared_address.DEVICE)), ()),
            routes=self._part("routes", lambda: leftovers.routes(protocols), ()),
            rules=self._part("rules of routing", lambda: leftovers.rules(protocols), ()),
            addresses=self._part("addresses", lambda: leftovers.addresses(own, node.interfaces), ()),
            sysctls=self._part("sysctls", lambda: sysctl_d.look(node.interfaces), ()),
            translators=self._part("translation of addresses", lambda: leftovers.translators(plan.TABLES), ()),
            priorities=priorities,
            ends=ends,
            tables=self._part("nftables", lambda: leftovers.tables(plan.TABLES), ()),
            secrets=tuple(_secrets(node.paths)),
            is_sealed=secret_file.is_sealed(Path(node.paths.key)),
        )

    def _part(self, what: str, look: Callable[[], _T], nothing: _T) -> _T:
        try:
            return look()
        except _FAILURES as error:
            self.problems.append(f"{what} could not be looked at: {error}")
            return nothing

    def _node(self, app: App) -> _Node:
        if not app.config.exists():
            return _Node()
        try:
            settings = app.settings
        except ConfigError as error:
            self.problems.append(f"{error}; the node's IPv4 address, interfaces, router and own paths are not known")
            return _Node()
        return _Node(
            settings.paths,
            settings.node.ipv4,
            tuple(settings.routing.interfaces),
            settings.radios is not None,
            settings.routing.daemon is not RoutingDaemon.OLSRD2,
        )


def _own(key: Path, ipv4: IPv4Address | None) -> frozenset[Address]:
    """Return the addresses of this node's key, of the next one and of the one before, and its IPv4 address."""
    keys = [key_store.load_public(path) for path in (key, key_store.next_path(key)) if _is_known(path)]
    if before := key_store.rotation(key):
        keys += [bytes.fromhex(before.old), bytes.fromhex(before.next)]
    found = {identity.address_of(identity.x25519_public(one)) for one in keys}
    return frozenset({*found, *map(identity.locator_of, found), *filter(None, [ipv4])})


def _is_known(key: Path) -> bool:
    """Return whether the key is there, or its public half, which `meshsec zeroize` leaves."""
    return files.exists(key) or files.exists(key.with_suffix(".pub"))


def _units() -> tuple[tuple[Unit, ...], Mapping[str, State]]:
    """Return meshsec's units that are enabled or run, and those of other IKE daemons by name."""
    if not systemd.is_booted():
        return (), {one.name: one for one in systemd.installed(rivals.UNITS)}
    radios = systemd.enabled_instances(_RADIO)
    own = {one.name: one for one in systemd.states((*plan.UNITS, f"{_RADIO}*.service", *radios))}
    others = {one.name: one for one in systemd.states(rivals.UNITS) if one.is_there}
    return tuple(
        Unit(one.name, one.is_enabled, one.is_active) for one in own.values() if one.is_enabled or one.is_active
    ), others


def _record(state: Path) -> Mapping[str, Was] | None:
    """Return which units `meshsec up` has disabled; None if it has written nothing down."""
    return replaced_units.read(state) if files.exists(replaced_units.path(state)) else None


def _before(name: str, was: Was) -> Unit:
    """Return a unit of another IKE daemon as it was. Without systemd it cannot start, only later with the machine."""
    return Unit(name, was.enabled, was.active and systemd.is_booted())


def _unrecorded(others: Mapping[str, State], record: Mapping[str, Was] | None) -> tuple[str, ...]:
    """Return other units that are disabled. Any record says that meshsec has disabled no further one."""
    return () if record else tuple(name for name, one in others.items() if not (one.is_enabled or one.is_active))


def _in_mesh(node: _Node) -> tuple[str, ...]:
    """Return the radios that meshsec-radio has put into a mesh and not taken out again."""
    return asyncio.run(_mesh_points(node.interfaces)) if node.has_radios else ()


async def _mesh_points(names: Collection[str]) -> tuple[str, ...]:
    async with nl80211.opened() as stack:
        found = await stack.interfaces() if stack else ()
    return tuple(one.name for _, one in found if one.name in names and one.type == MESH_POINT)


def _has_names() -> bool:
    return bool(hosts_file.parts(hosts_file.HOSTS).lines)


def _secrets(paths: Paths) -> Iterator[str]:
    """Yield those files with the key, the cards and the passwords that exist."""
    for path in (Path(paths.key), Path(paths.peers), *sorted(credential.STORE.glob("meshsec.*"))):
        if os.path.lexists(path):
            yield str(path)

"""What a cjdroute.conf of cjdns (22) means to overlayd: decoded with all of its problems at once.

What overlayd has no use for is no problem: it is named, with the reason.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address

from meshsec.core.config.settings import SettingsError
from meshsec.core.formats import overlay_key
from meshsec.core.formats.overlayd import Admin, Beacons, Ethernet, Neighbour, OverlayConf, Udp, User
from meshsec.core.trust.identity import is_mesh_address
from meshsec.core.values import tables
from meshsec.core.values.tables import Problem, RefusedError, Table

ENTRIES_MAX = 256
"""Most entries of each list, and most neighbours in all: a label can name no more."""
INTERFACES_MAX = 32
"""Interfaces that overlayd can have."""

_EVERYBODY_KNOWS = "NONE"
"""The password of cjdns's admin API as ``cjdroute --genconf`` writes it."""
_BEACONS = (Beacons.OFF, Beacons.ACCEPT, Beacons.SEND)
_SOCKET_RULE = "ADDRESS:PORT with a number of an address, such as '192.0.2.1:33808' or '[2001:db8::1]:33808'"
_ADDRESS_RULE = "an address in fc00::/8"
_SECRET_RULE = "a text in quotes, not empty"  # noqa: S105 - the rule, not a secret
_SOCKET = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<ipv4>[0-9.]+)):(?P<port>[0-9]{1,5})")
_HARDWARE = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")

_IDENTITY = (
    "an X25519 private key has no Ed25519 key behind it, which IKE needs: this node keeps its own key and address"
)
_PROCESS = "it is cjdroute's own process that this is about"
_UNKNOWN = "overlayd knows nothing like it"
_REASONS = {
    "security": "the service unit says what overlayd may do",
    "router.dnsSeeds": "neighbours are configured or found by beacons",
    "router.supernodes": "ways are found without supernodes",
    "router.publicPeer": "there is no supernode to inform",
    "router.ipTunnel": "overlayd has no tunnels to other networks",
    "logging": _PROCESS,
    "noBackground": _PROCESS,
    "pipe": _PROCESS,
    "corePath": _PROCESS,
}
_SILENT = {"publicKey", "ipv6", "version"}
"""Top-level keys that only repeat what follows from the private key, or the file's own version."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What was found."""

    conf: OverlayConf
    ignored: tuple[Problem, ...]
    """What was not taken over, and why."""
    key: str | None
    """The public key that cjdroute had."""


class _Reader:
    """The problems and the ignored parts of one document."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.ignored: list[Problem] = []

    def section(self, path: tuple[str | int, ...], values: object) -> Table:
        if isinstance(values, Mapping):
            return Table(path, values, self.problems)
        self.problems.append(Problem(path, "is no object in braces"))
        return Table(path, {}, [])

    def sections(self, parent: Table, key: str) -> list[Table]:
        """Return the entries of a list; cjdns takes a single one without brackets, too."""
        path = (*parent.path, key)
        value = parent.values.get(key, [])
        parent.known.append(key)
        if isinstance(value, Mapping):
            return [self.section(path, value)]
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > ENTRIES_MAX:
            self.problems.append(Problem(path, f"is no list of at most {ENTRIES_MAX} entries"))
            return []
        return [self.section((*path, index), entry) for index, entry in enumerate(value)]

    def ignore(self, path: tuple[str | int, ...], reason: str) -> None:
        self.ignored.append(Problem(path, reason))

    def ignore_the_rest(self, table: Table) -> None:
        """Note as ignored what was not read and is not empty."""
        for key, value in table.values.items():
            if key not in table.known and not _is_empty(value):
                path = (*table.path, key)
                self.ignore(path, _REASONS.get(".".join(map(str, path)), _UNKNOWN))

    def secret(self, table: Table, key: str, *, required: bool = False) -> str | None:
        """Read a password. The message of a refusal does not repeat it."""
        table.known.append(key)
        value = table.values.get(key)
        if isinstance(value, str) and value:
            return value
        if value is not None or required:
            table.problems.append(Problem((*table.path, key), f"is no password; allowed: {_SECRET_RULE}"))
        return None


def decode(document: object) -> Imported:
    """Return the settings in a decoded cjdroute.conf. Raises SettingsError."""
    reader = _Reader()
    root = reader.section((), document)
    key = root.values.get("publicKey")
    if root.values.get("privateKey"):
        reader.ignore(("privateKey",), _IDENTITY)
    root.known += [*_SILENT, "privateKey"]
    interfaces = root.table("interfaces")
    conf = OverlayConf(
        users=_users(reader, root),
        udp=tuple(_udp(reader, table) for table in reader.sections(interfaces, "UDPInterface")),
        ethernet=_ethernet(reader, interfaces),
        admin=_admin(reader, root),
        tun=_tun(reader, root.table("router")),
    )
    reader.ignore_the_rest(interfaces)
    reader.ignore_the_rest(root)
    _bound(reader, conf)
    if reader.problems:
        raise SettingsError(reader.problems)
    return Imported(conf, tuple(reader.ignored), key if isinstance(key, str) else None)


def _bound(reader: _Reader, conf: OverlayConf) -> None:
    interfaces = len(conf.udp) + len(conf.ethernet)
    for what, count, most in (("interfaces", interfaces, INTERFACES_MAX), ("neighbours", conf.neighbours, ENTRIES_MAX)):
        if count > most:
            reader.problems.append(Problem(("interfaces",), f"there are {count} {what}; allowed: at most {most}"))


def _users(reader: _Reader, root: Table) -> tuple[User, ...]:
    users: list[User] = []
    for table in reader.sections(root, "authorizedPasswords"):
        password = reader.secret(table, "password", required=True)
        user = User(password or "", table.take("user", tables.text, None), table.take("ipv6", _read_address, None))
        if password and any(one.password == password for one in users):
            reader.problems.append(
                Problem((*table.path, "password"), "another user has it; allowed: each password once")
            )
        if user.name and any(one.name == user.name for one in users):
            table.refuse(user.name, RefusedError("each user once"), "user")
        users.append(user)
        reader.ignore_the_rest(table)
    return tuple(users)


def _udp(reader: _Reader, table: Table) -> Udp:
    bind = table.take("bind", _read_socket, "", required=True)
    neighbours = _neighbours(reader, table, _read_socket)
    for one in neighbours:
        if _is_ipv6(one.address) != _is_ipv6(bind):
            table.refuse(one.address, RefusedError("an address of the family that bind has"), "connectTo", one.address)
    udp = _beacons(reader, table, Udp(bind, neighbours=neighbours))
    reader.ignore_the_rest(table)
    return udp


def _beacons(reader: _Reader, table: Table, udp: Udp) -> Udp:
    """Return the socket with its beacons, if it can have any."""
    beacon, port, devices = _beacon(table), table.take("beaconPort", tables.integer(1, 65535), None), _devices(table)
    named = tuple(device for device in devices if tables.is_interface_name(device) and not _is_address(device))
    if beacon is Beacons.OFF:
        return udp
    for index, device in enumerate(devices):
        if device not in named:
            reader.ignore((*table.path, "beaconDevices", index), "overlayd takes devices by their names, or 'all'")
    if _is_ipv6(udp.bind):
        reason = "beacons are for sockets with an IPv4 address"
    elif port is None or not named:
        reason = "it needs beaconPort, as in cjdns, and beaconDevices with a device"
    else:
        return replace(udp, beacon=beacon, beacon_port=port, beacon_devices=named)
    reader.ignore((*table.path, "beacon"), reason)
    return udp


def _ethernet(reader: _Reader, interfaces: Table) -> tuple[Ethernet, ...]:
    found: list[Ethernet] = []
    for table in reader.sections(interfaces, "ETHInterface"):
        if table.values.get("bind") == "all":
            reader.ignore((*table.path, "bind"), "overlayd takes each device by its name")
            continue
        device = table.take("bind", _read_device, "", required=True)
        found.append(Ethernet(device, _beacon(table), _neighbours(reader, table, _read_hardware)))
        reader.ignore_the_rest(table)
    return tuple(found)


def _beacon(table: Table) -> Beacons:
    return _BEACONS[table.take("beacon", tables.integer(0, len(_BEACONS) - 1), 0)]


def _devices(table: Table) -> tuple[str, ...]:
    return table.take("beaconDevices", _read_devices, ())


def _neighbours(reader: _Reader, table: Table, read: Callable[[object], str]) -> tuple[Neighbour, ...]:
    found: list[Neighbour] = []
    entries = table.table("connectTo")
    if len(entries.values) > ENTRIES_MAX:
        reader.problems.append(Problem(entries.path, f"has more than {ENTRIES_MAX} entries"))
        return ()
    for address, values in entries.values.items():
        entry = reader.section((*entries.path, address), values)
        try:
            where = read(address)
        except RefusedError as refused:
            entries.refuse(address, refused, address)
            continue
        key = entry.take("publicKey", _read_key, "", required=True)
        password = reader.secret(entry, "password")
        login, name = entry.take("login", tables.text, None), entry.take("peerName", tables.text, None)
        found.append(Neighbour(where, key, password, login, name))
        reader.ignore_the_rest(entry)
    return tuple(found)


def _admin(reader: _Reader, root: Table) -> Admin | None:
    if "admin" not in root.values:
        return None
    table = root.table("admin")
    bind = table.take("bind", _read_socket, "127.0.0.1:11234")
    password = reader.secret(table, "password")
    reader.ignore_the_rest(table)
    if not _is_loopback(bind):
        reader.ignore((*table.path, "bind"), "the admin API is for this machine alone; there is none now")
        return None
    if password == _EVERYBODY_KNOWS:
        reader.ignore(
            (*table.path, "password"),
            "everybody knows NONE; without a password there is only what needs none, such as peerStats",
        )
        password = None
    return Admin(bind, password)


def _tun(reader: _Reader, router: Table) -> str | None:
    interface = router.table("interface")
    reader.ignore_the_rest(router)
    interface.known.append("type")
    if interface.values.get("type", "TUNInterface") != "TUNInterface":
        reader.ignore((*interface.path, "type"), "overlayd has a TUN device")
        return None
    device = interface.take("tunDevice", _read_device, None)
    reader.ignore_the_rest(interface)
    return device


def _read_socket(value: object) -> str:
    match = _SOCKET.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise RefusedError(_SOCKET_RULE)
    try:
        host = f"[{IPv6Address(match['ipv6'])}]" if match["ipv6"] else str(IPv4Address(match["ipv4"]))
    except ValueError:
        raise RefusedError(_SOCKET_RULE) from None
    return f"{host}:{int(match['port'])}"


def _read_hardware(value: object) -> str:
    address = value.lower() if isinstance(value, str) else ""
    if not _HARDWARE.fullmatch(address) or int(address[1], 16) & 1:
        raise RefusedError("the address of one device, such as '02:00:5e:10:00:01'")
    return address


def _read_address(value: object) -> IPv6Address:
    try:
        address = IPv6Address(IPv6Address(tables.text(value)).packed)
    except ValueError:
        raise RefusedError(_ADDRESS_RULE) from None
    if not is_mesh_address(address):
        raise RefusedError(_ADDRESS_RULE)
    return address


def _read_key(value: object) -> str:
    try:
        return overlay_key.encode(overlay_key.decode(tables.text(value)))
    except ValueError:
        raise RefusedError(overlay_key.KEY_RULE) from None


def _read_device(value: object) -> str:
    if not isinstance(value, str) or not tables.is_interface_name(value):
        raise RefusedError(tables.INTERFACE_RULE)
    return value


def _read_devices(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise RefusedError("a list of device names, addresses, or 'all'")
    return tuple(value)


def _is_empty(value: object) -> bool:
    """Return whether a value is empty, or has only empty values in it."""
    if isinstance(value, Mapping):
        return all(map(_is_empty, value.values()))
    return all(map(_is_empty, value)) if isinstance(value, list) else not value


def _is_ipv6(socket: str) -> bool:
    return socket.startswith("[")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback(bind: str) -> bool:
    return ip_address(bind.rpartition(":")[0].strip("[]")).is_loopback

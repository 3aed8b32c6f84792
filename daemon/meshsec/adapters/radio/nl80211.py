"""Read and set radios and mesh points through nl80211: what a radio can do, what it may do, and its mesh.

pyroute2 carries the messages. Its description of nl80211 lacks some attributes, which are declared here.
"""

import errno
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, nla
from pyroute2.netlink.nl80211 import IFTYPE_VALUES, NL80211_NAMES, AsyncNL80211, nl80211cmd

from meshsec.core.config.radio_settings import Mode
from meshsec.core.radio.observed import RTS_OFF, Band, Channel, Combination, Interface, Limit, MeshParameters, Phy
from meshsec.core.radio.rts_evidence import Station
from meshsec.core.radio.steps import Join, SetMeshParameters

_CHANNEL_TYPES = {Mode.NOHT: 0, Mode.HT20: 1, Mode.HT40_MINUS: 2, Mode.HT40_PLUS: 3}
"""nl80211_channel_type."""
_TX_POWER_AUTOMATIC, _TX_POWER_FIXED = 0, 2
"""nl80211_tx_power_setting."""
_RATES_PER_MBIT = 10
_MBM = 100
"""mBm in one dBm."""
_MICROSECONDS = 1e6


class Nl80211Error(OSError):
    """The kernel refused; the text names the request and the reason. ``errno`` is the kernel's."""

    def __str__(self) -> str:
        return str(self.strerror)


class _mesh_config(nla):  # noqa: N801  (pyroute2 finds it by the name in the map)
    """nl80211_meshconf_params, as far as it is used."""

    prefix: Any = "NL80211_MESHCONF_"
    nla_map: Any = (
        (19, "NL80211_MESHCONF_FORWARDING", "uint8"),
        (20, "NL80211_MESHCONF_RSSI_THRESHOLD", "int32"),
        (28, "NL80211_MESHCONF_PLINK_TIMEOUT", "uint32"),
        (30, "NL80211_MESHCONF_NOLEARN", "uint8"),
    )


class _bands(nla):  # noqa: N801
    """nl80211_band: the bands with their numbers, which a plain array would lose."""

    prefix: Any = "NL80211_BAND_"
    nla_map: Any = tuple((number, f"NL80211_BAND_{number}", "band") for number in range(8))
    band = nl80211cmd.band


_DESCRIBED = {
    "NL80211_ATTR_BEACON_INTERVAL": "uint32",
    "NL80211_ATTR_MESH_ID": "cdata",
    "NL80211_ATTR_MESH_CONFIG": "mesh_config",
    "NL80211_ATTR_MCAST_RATE": "uint32",
    "NL80211_ATTR_WIPHY_BANDS": "bands",
    "NL80211_ATTR_WIPHY_CHANNEL_TYPE": "uint32",
    "NL80211_ATTR_WIPHY_RTS_THRESHOLD": "uint32",
    "NL80211_ATTR_WIPHY_SELF_MANAGED_REG": "flag",
    "NL80211_ATTR_SUPPORT_MESH_AUTH": "flag",
    "NL80211_ATTR_SPLIT_WIPHY_DUMP": "flag",
}


class message(nl80211cmd):  # noqa: N801
    """One message of nl80211, decoded and encoded."""

    nla_map: Any = tuple((name, _DESCRIBED.get(name, kind)) for name, kind in nl80211cmd.nla_map)
    mesh_config = _mesh_config
    bands = _bands


class Nl80211:
    """The wireless stack of the network namespace in which it was opened."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    async def phy(self, index: int) -> Phy:
        """Return one radio, with what the current regulatory rules allow."""
        return decode_phy(await self._dump("GET_WIPHY", {"WIPHY": index, "SPLIT_WIPHY_DUMP": True}))

    async def phys(self) -> tuple[Phy, ...]:
        """Return all radios of this network namespace."""
        parts: dict[int, list[Any]] = {}
        for part in await self._dump("GET_WIPHY", {"SPLIT_WIPHY_DUMP": True}):
            parts.setdefault(part.get_attr("NL80211_ATTR_WIPHY"), []).append(part)
        return tuple(map(decode_phy, parts.values()))

    async def interfaces(self) -> tuple[tuple[int, Interface], ...]:
        """Return all wireless interfaces with the numbers of their radios, without what rtnetlink knows."""
        return tuple(map(decode_interface, await self._dump("GET_INTERFACE", {})))

    async def country(self, phy: Phy | None = None) -> str:
        """Return the regulatory domain of this radio, or the one of radios without their own; 00 is the world's."""
        own = {"WIPHY": phy.index} if phy and phy.self_managed else {}
        found = await self._ask("GET_REG", own, "regulatory domain")
        return next((str(one.get_attr("NL80211_ATTR_REG_ALPHA2")) for one in found), "00")

    async def request_country(self, country: str) -> None:
        """Ask for a regulatory domain. Whether the kernel accepts it shows later."""
        await self._ask("REQ_SET_REG", {"REG_ALPHA2": country}, f"regulatory domain {country}")

    async def add_interface(self, phy: int, name: str, kind: str) -> None:
        """Make an interface on a radio. The kernel gives it a MAC address of its own."""
        attributes = {"WIPHY": phy, "IFNAME": name, "IFTYPE": _TYPES[kind]}
        await self._ask("NEW_INTERFACE", attributes, f"interface {name}")

    async def set_type(self, index: int, kind: str) -> None:
        """Change the type of an interface, which must be down."""
        await self._ask("SET_INTERFACE", {"IFINDEX": index, "IFTYPE": _TYPES[kind]}, f"type {kind}")

    async def set_rts_threshold(self, phy: int, octets: int) -> None:
        """Set the RTS threshold of a whole radio."""
        await self._ask("SET_WIPHY", {"WIPHY": phy, "WIPHY_RTS_THRESHOLD": octets}, "RTS threshold")

    async def set_tx_power(self, index: int, dbm: float | None) -> None:
        """Set the transmit power; None means as much as is allowed."""
        power: dict[str, object] = {"WIPHY_TX_POWER_SETTING": _TX_POWER_AUTOMATIC}
        if dbm is not None:
            power = {"WIPHY_TX_POWER_SETTING": _TX_POWER_FIXED, "WIPHY_TX_POWER_LEVEL": round(dbm * _MBM)}
        await self._ask("SET_WIPHY", {"IFINDEX": index, **power}, "transmit power")

    async def join(self, index: int, wish: Join) -> None:
        """Join an open mesh. The interface must be a mesh point and up."""
        channel: dict[str, object] = {"WIPHY_FREQ": wish.frequency}
        if wish.mode in _CHANNEL_TYPES:
            channel["WIPHY_CHANNEL_TYPE"] = _CHANNEL_TYPES[wish.mode]
        else:
            channel |= {"CHANNEL_WIDTH": wish.span.width, "CENTER_FREQ1": wish.span.center}
        config = {"attrs": [["NL80211_MESHCONF_FORWARDING", 0], ["NL80211_MESHCONF_NOLEARN", 1]]}
        attributes = {"IFINDEX": index, "MESH_ID": wish.mesh_id, **channel, "MESH_CONFIG": config}
        if wish.beacon_interval is not None:
            attributes["BEACON_INTERVAL"] = wish.beacon_interval
        await self._ask("JOIN_MESH", attributes, f"join on {wish.frequency} MHz {wish.mode}")

    async def leave(self, index: int) -> None:
        """Leave the mesh. If the interface has left it already, that is no error."""
        try:
            await self._ask("LEAVE_MESH", {"IFINDEX": index}, "leave")
        except Nl80211Error as error:
            if error.errno not in (errno.ENOTCONN, errno.ENETDOWN, errno.EOPNOTSUPP):
                raise

    async def mesh_parameters(self, index: int) -> MeshParameters:
        """Return the mesh parameters of a mesh point."""
        (found, *_) = await self._ask("GET_MESH_CONFIG", {"IFINDEX": index}, "mesh parameters")
        config = found.get_attr("NL80211_ATTR_MESH_CONFIG")
        return MeshParameters(
            forwarding=bool(config.get_attr("NL80211_MESHCONF_FORWARDING")),
            path_discovery=not config.get_attr("NL80211_MESHCONF_NOLEARN"),
            rssi_threshold=config.get_attr("NL80211_MESHCONF_RSSI_THRESHOLD") or 0,
            forget_seconds=config.get_attr("NL80211_MESHCONF_PLINK_TIMEOUT") or 0,
        )

    async def set_mesh_parameters(self, index: int, wanted: SetMeshParameters) -> None:
        """Change the mesh parameters of a mesh point that has joined."""
        attributes: list[list[object]] = [
            ["NL80211_MESHCONF_FORWARDING", 0],
            ["NL80211_MESHCONF_NOLEARN", 1],
            ["NL80211_MESHCONF_RSSI_THRESHOLD", wanted.rssi_threshold],
        ]
        if wanted.forget_seconds is not None:
            attributes.append(["NL80211_MESHCONF_PLINK_TIMEOUT", wanted.forget_seconds])
        config = {"attrs": attributes}
        await self._ask("SET_MESH_CONFIG", {"IFINDEX": index, "MESH_CONFIG": config}, "mesh parameters")

    async def set_mcast_rate(self, index: int, mbit: float) -> None:
        """Set the rate of multicast frames."""
        rate = round(mbit * _RATES_PER_MBIT)
        await self._ask("SET_MCAST_RATE", {"IFINDEX": index, "MCAST_RATE": rate}, f"multicast with {mbit:g} Mbit/s")

    async def signals(self, index: int) -> tuple[int, ...]:
        """Return the signal of each neighbour in dBm."""
        stations = await self._dump("GET_STATION", {"IFINDEX": index})
        signals = (one.get_nested("NL80211_ATTR_STA_INFO", "NL80211_STA_INFO_SIGNAL") for one in stations)
        return tuple(signal for signal in signals if signal is not None)

    async def stations(self, index: int) -> dict[str, Station]:
        """Return the counters of each neighbour, by its MAC address."""
        return dict(map(decode_station, await self._dump("GET_STATION", {"IFINDEX": index})))

    async def _dump(self, command: str, attributes: Mapping[str, object]) -> list[Any]:
        return await self._request(command, attributes, NLM_F_REQUEST | NLM_F_DUMP, command)

    async def _ask(self, command: str, attributes: Mapping[str, object], what: str) -> list[Any]:
        return await self._request(command, attributes, NLM_F_REQUEST | NLM_F_ACK, what)

    async def _request(self, command: str, attributes: Mapping[str, object], flags: int, what: str) -> list[Any]:
        request = message()  # type: ignore[no-untyped-call]
        request["cmd"] = NL80211_NAMES[f"NL80211_CMD_{command}"]
        request["attrs"] = [[f"NL80211_ATTR_{name}", value] for name, value in attributes.items()]
        try:
            answers = await self._socket.nlm_request(request, msg_type=self._socket.prid, msg_flags=flags)
            return [answer async for answer in answers]
        except Exception as error:  # some pyroute2 errors are no OSError
            raise _error(what, error) from error


@asynccontextmanager
async def opened() -> AsyncIterator[Nl80211 | None]:
    """Open the wireless stack; None if the kernel has none. Raises Nl80211Error."""
    socket: Any = AsyncNL80211(ext_ack=True)  # type: ignore[no-untyped-call]
    socket.module_err_level = "debug"  # a machine without wireless interfaces is no reason for a warning
    try:
        await socket.setup_endpoint()
        try:
            await socket.bind()
        except Exception as error:
            if getattr(error, "code", None) != errno.ENOENT:
                raise _error("nl80211", error) from error
            yield None
        else:
            socket.marshal.msg_map[socket.prid] = message
            yield Nl80211(socket)
    finally:
        socket.close()


def decode_phy(parts: Sequence[Any]) -> Phy:
    """Decode the radio from a split dump of many messages, several for each band. Raises Nl80211Error."""

    def first(name: str, default: Any) -> Any:
        values = (part.get_attr(f"NL80211_ATTR_{name}") for part in parts)
        return next((value for value in values if value is not None), default)

    if not parts:
        raise Nl80211Error(errno.ENODEV, "the radio is gone")
    return Phy(
        index=first("WIPHY", 0),
        name=first("WIPHY_NAME", ""),
        modes=frozenset(map(_type_name, first("SUPPORTED_IFTYPES", ()))),
        mesh_auth=first("SUPPORT_MESH_AUTH", default=False),
        self_managed=first("WIPHY_SELF_MANAGED_REG", default=False),
        rts_threshold=first("WIPHY_RTS_THRESHOLD", RTS_OFF),
        bands=_decode_bands(parts),
        combinations=tuple(map(_combination, first("INTERFACE_COMBINATIONS", ()))),
    )


def decode_interface(one: Any) -> tuple[int, Interface]:
    """Decode one interface and the number of its radio."""
    power = one.get_attr("NL80211_ATTR_WIPHY_TX_POWER_LEVEL")
    return one.get_attr("NL80211_ATTR_WIPHY"), Interface(
        index=one.get_attr("NL80211_ATTR_IFINDEX"),
        name=one.get_attr("NL80211_ATTR_IFNAME") or "",
        type=_type_name(IFTYPE_VALUES.get(one.get_attr("NL80211_ATTR_IFTYPE"), "unknown")),
        frequency=one.get_attr("NL80211_ATTR_WIPHY_FREQ"),
        width=one.get_attr("NL80211_ATTR_CHANNEL_WIDTH"),
        center=one.get_attr("NL80211_ATTR_CENTER_FREQ1"),
        tx_power=None if power is None else power / _MBM,
    )


def decode_station(one: Any) -> tuple[str, Station]:
    """Decode a neighbour's address and its counters; what the driver does not count is 0, and its airtime None.

    mac80211 gives an airtime of 0 for every driver that does not report the time of its frames.
    """

    def counted(name: str) -> Any:
        return one.get_nested("NL80211_ATTR_STA_INFO", f"NL80211_STA_INFO_{name}")

    airtime = counted("TX_DURATION")
    bitrate = counted("TX_BITRATE")
    names = ("NL80211_RATE_INFO_BITRATE32", "NL80211_RATE_INFO_BITRATE")  # the second holds 6553 Mbit/s at most
    rate = next(filter(None, map(bitrate.get_attr, names)), 0) if bitrate else 0
    return str(one.get_attr("NL80211_ATTR_MAC")), Station(
        frames=counted("TX_PACKETS") or 0,
        octets=counted("TX_BYTES64") or counted("TX_BYTES") or 0,
        retries=counted("TX_RETRIES") or 0,
        failed=counted("TX_FAILED") or 0,
        airtime=airtime / _MICROSECONDS if airtime else None,
        rate=rate / _RATES_PER_MBIT,
    )


def _decode_bands(parts: Sequence[Any]) -> tuple[Band, ...]:
    pieces: dict[str, list[Any]] = {}
    for part in parts:
        listed = part.get_attr("NL80211_ATTR_WIPHY_BANDS")
        for number, piece in listed["attrs"] if listed else ():
            pieces.setdefault(number, []).append(piece)
    return tuple(map(_band, pieces.values()))


def _band(pieces: list[Any]) -> Band:
    def every(name: str) -> Iterable[Any]:
        values = (piece.get_attr(f"NL80211_BAND_ATTR_{name}") for piece in pieces)
        return (value for value in values if value is not None)

    channels = [_channel(one) for listed in every("FREQS") for one in listed]
    rates = [one.get_attr("NL80211_BITRATE_ATTR_RATE") for listed in every("RATES") for one in listed]
    return Band(
        channels={channel.frequency: channel for channel in channels},
        rates=tuple(rate / _RATES_PER_MBIT for rate in rates),
        ht=next(iter(every("HT_CAPA")), None),
        vht=any(True for _ in every("VHT_CAPA")),
    )


def _channel(one: Any) -> Channel:
    def has(flag: str) -> bool:
        return one.get_attr(f"NL80211_FREQUENCY_ATTR_{flag}") is not None

    return Channel(
        frequency=one.get_attr("NL80211_FREQUENCY_ATTR_FREQ"),
        disabled=has("DISABLED"),
        no_ir=has("NO_IR"),
        radar=has("RADAR"),
        no_ht40_plus=has("NO_HT40_PLUS"),
        no_ht40_minus=has("NO_HT40_MINUS"),
        no_80mhz=has("NO_80MHZ"),
        power_max=(one.get_attr("NL80211_FREQUENCY_ATTR_MAX_TX_POWER") or 0) / _MBM,
    )


def _combination(one: Any) -> Combination:
    limits = one.get_attr("NL80211_IFACE_COMB_LIMITS") or ()
    return Combination(
        limits=tuple(map(_limit, limits)),
        most=one.get_attr("NL80211_IFACE_COMB_MAXNUM") or 0,
        channels=one.get_attr("NL80211_IFACE_COMB_NUM_CHANNELS") or 0,
    )


def _limit(one: Any) -> Limit:
    types = one.get_attr("NL80211_IFACE_LIMIT_TYPES")
    names = (name for name, _ in types["attrs"]) if types else ()
    return Limit(one.get_attr("NL80211_IFACE_LIMIT_MAX") or 0, frozenset(map(_type_name, names)))


def _type_name(constant: str) -> str:
    """Return iw(8)'s name of an interface type for pyroute2's constant."""
    name = constant.removeprefix("NL80211_IFTYPE_").lower()
    return {"station": "managed", "adhoc": "IBSS", "ap": "AP", "ap_vlan": "AP/VLAN"}.get(name, name.replace("_", " "))


_TYPES = {_type_name(name): number for number, name in IFTYPE_VALUES.items()}


def _error(what: str, error: Exception) -> Nl80211Error:
    code = getattr(error, "code", None) or getattr(error, "errno", None) or errno.EIO
    reason = error.args[-1] if error.args else error
    return Nl80211Error(code, f"{what}: {reason}")

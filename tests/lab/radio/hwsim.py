"""Radios of mac80211_hwsim that appear and disappear, as USB adapters do, and that can lack what some drivers lack."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from tests.lab.basics.shell import run

_PHYS = Path("/sys/class/ieee80211")
_NEW_RADIO, _DEL_RADIO = 4, 5
"""Numbers of hwsim_commands."""
STATION, AP, MESH_POINT, IBSS = 1 << 2, 1 << 3, 1 << 7, 1 << 1
"""Bits of nl80211_iftype."""


class _message(genlmsg):  # noqa: N801  # pyroute2's way to name messages
    nla_map: Any = (
        (17, "HWSIM_ATTR_RADIO_NAME", "asciiz"),
        (23, "HWSIM_ATTR_IFTYPE_SUPPORT", "uint32"),
    )


@contextmanager
def radio(name: str, interface: str, types: int | None = None) -> Iterator[str]:
    """Give a radio with one interface for the time of a ``with`` block; ``types`` limits the modes that it offers."""
    plug_in(name, interface, types)
    try:
        yield interface
    finally:
        unplug(name)


def plug_in(name: str, interface: str, types: int | None = None) -> None:
    """Make a new radio in this process's namespace."""
    _tell(_NEW_RADIO, name, [["HWSIM_ATTR_IFTYPE_SUPPORT", types]] if types else [])
    (made,) = (_PHYS / name / "device" / "net").iterdir()
    run(["ip", "link", "set", made.name, "name", interface])


def unplug(name: str) -> None:
    """Remove the radio, if it is still there."""
    _tell(_DEL_RADIO, name, [])


def _tell(command: int, name: str, more: list[list[object]]) -> None:
    message: Any = _message()  # type: ignore[no-untyped-call]
    message["cmd"] = command
    message["attrs"] = [["HWSIM_ATTR_RADIO_NAME", name], *more]
    socket: Any = GenericNetlinkSocket()  # type: ignore[no-untyped-call]
    try:
        socket.bind("MAC80211_HWSIM", _message)
        with suppress(NetlinkError):  # The kernel returns the number of a new radio in place of an error.
            tuple(socket.nlm_request(message, msg_type=socket.prid, msg_flags=NLM_F_REQUEST | NLM_F_ACK))
    finally:
        socket.close()
    assert (_PHYS / name).exists() == (command == _NEW_RADIO), f"hwsim command {command} for {name}"

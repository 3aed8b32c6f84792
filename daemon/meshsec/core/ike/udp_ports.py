"""Whose the ports of IKE are: UDP 500 and 4500 belong to the IKE daemon, which is root's (ADR 0056).

The kernel keeps ports below 1024 for root. 4500 is anybody's while no IKE daemon has it, and an IKE daemon that starts
then goes on without it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

PORTS = (500, 4500)
"""IKE, and IKE and ESP in UDP (RFC 7296, section 2; RFC 3948)."""
OWNER = 0
"""User ID of charon and pluto."""


@dataclass(frozen=True, slots=True)
class UdpSocket:
    """One UDP socket that is bound."""

    port: int
    uid: int
    inode: int


@dataclass(frozen=True, slots=True)
class PortState:
    """What was found."""

    missing: tuple[int, ...]
    """Ports without a socket of ``OWNER``."""
    held: tuple[UdpSocket, ...]
    """Sockets of other users on the ports."""


def parse(table: str) -> tuple[UdpSocket, ...]:
    """Return the sockets in the text of ``/proc/net/udp6`` (proc_pid_net(5)). Lines of another form are left out."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        try:
            found.append(UdpSocket(int(fields[1].rpartition(":")[2], 16), int(fields[7]), int(fields[9])))
        except (IndexError, ValueError):
            continue
    return tuple(found)


def judge(sockets: Iterable[UdpSocket]) -> PortState:
    """Return which ports the IKE daemon lacks, and who else has one."""
    ours = [one for one in sockets if one.port in PORTS]
    owned = {one.port for one in ours if one.uid == OWNER}
    return PortState(tuple(port for port in PORTS if port not in owned), tuple(one for one in ours if one.uid != OWNER))


def problem(state: PortState, daemon: str, *, is_up: bool) -> str:
    """Return what is wrong, for people; empty when nothing is. Without the IKE daemon only a stranger is wrong."""
    held = ", ".join(f"UDP {one.port} by user {one.uid}" for one in state.held)
    if state.missing and is_up:
        ports = " and ".join(map(str, state.missing))
        return f"{daemon} runs without UDP port {ports}" + (f", held: {held}" if held else "")
    return f"held by others than {daemon}: {held}" if held else ""

"""Judges whom the routing daemon hears: nobody, or nodes that do not hear this one."""

from meshsec.core.explain.findings import Check, Facts, Level

NAME = "neighbours"
_NAMED = 8
"""Neighbours that are named; a doctor's line is read by people."""


def neighbours(facts: Facts) -> list[Check]:
    """Judge the neighbours of this node.

    While no mesh interface works, their own checks say so, and there is nobody to be heard.
    """
    working = [name for name, mtu in facts.mtus.items() if mtu and name not in {*facts.down, *facts.no_carrier}]
    if facts.neighbours is None or not (working or facts.neighbours):
        return []
    if not facts.neighbours:
        return [Check(NAME, Level.WARN, f"no other node is heard on {', '.join(working)}", _alone(working[0]))]
    mutual = [name for name, symmetric in facts.neighbours.items() if symmetric]
    deaf = [name for name, symmetric in facts.neighbours.items() if not symmetric]
    if not mutual:
        return [Check(NAME, Level.WARN, f"heard, and not hearing this node: {_listed(deaf)}", _DEAF)]
    unheard = f"; heard, and not hearing this node: {_listed(deaf)}" if deaf else ""
    return [Check(NAME, Level.OK, f"{_listed(mutual)}{unheard}")]


_DEAF = (
    "the link is one-way: a weaker antenna or sender here, or a firewall that drops what this node sends (UDP port 269)"
)


def _alone(interface: str) -> str:
    return (
        "is another node switched on and in reach? On both compare [routing] interfaces, and for a radio mesh_id, "
        f"frequency and password (`meshsec-radio --check`); `tcpdump -n -i {interface} udp port 269` shows who is heard"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more

"""Build the list of SAs from pluto's status and counters (``pluto_status``)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv6Address

from meshsec.adapters.ike.pluto_status import Connection, State, Traffic, connections, peer_and_child, states, traffic
from meshsec.core.values.model import ChildSa, IkeSa
from meshsec.core.values.sa_states import ChildSaState, IkeSaState


def ike_sas(
    status: str, counters: str, now: float, wall_clock: float, initiators: Iterable[int] = ()
) -> dict[str, tuple[IkeSa, ...]]:
    """Return our SAs by peer, the newest IKE_SA first, from ``--status`` and ``--trafficstatus``. Raises StatusError.

    ``now`` is monotonic and ``wall_clock`` since 1970, both in seconds. ``initiators`` are the numbers of IKE_SAs that
    this node initiated. pluto does not report IKE SPIs and packet counts.
    """
    known, conns, moved = states(status), connections(status), traffic(counters)
    own = set(initiators)
    children = _children(known, conns, moved, now - wall_clock)
    found: dict[str, list[IkeSa]] = {}
    for state in sorted(known, key=lambda one: -one.serial):
        ours = peer_and_child(state.conn)
        if ours is None or not (state.is_ike_sa or state.is_half_open or state.is_leaving):
            continue
        conn = conns.get(state.conn, Connection())
        below = tuple(sorted(children.get(state.serial, ()), key=lambda child: child.name))
        sa = _ike_sa(ours[0], state, conn, now)
        found.setdefault(ours[0], []).append(replace(sa, children=below, initiator=sa.initiator or state.serial in own))
    return {peer: tuple(sas) for peer, sas in found.items()}


def fatal(states: Iterable[State], peer: str) -> frozenset[int]:
    """Return IKE_SAs of a peer at which libreswan 5.2 crashes when it removes their connection or ends its SAs (ADR
    0044).

    Such an IKE_SA is not the newest of its connection, and a CHILD_SA of that connection is older: it was rekeyed.
    """
    own = [state for state in states if (peer_and_child(state.conn) or ("",))[0] == peer]
    ike_sas = {state.serial: state for state in own if state.is_ike_sa or state.is_leaving}
    newest = {ike_sas[serial].conn: serial for serial in sorted(ike_sas)}
    families = ((child, ike_sas[child.ike]) for child in own if child.ike in ike_sas)
    rekeyed = {ike.serial for child, ike in families if child.serial < ike.serial and child.conn == ike.conn}
    return frozenset(rekeyed - set(newest.values()))


def counted(sas: Iterable[IkeSa], packets: Mapping[str, int]) -> tuple[IkeSa, ...]:
    """Return the SAs with the kernel's packet counts, by SPI."""

    def of(child: ChildSa) -> ChildSa:
        inward, outward = packets.get(child.spi_in, 0), packets.get(child.spi_out, 0)
        return replace(child, packets_in=inward, packets_out=outward)

    return tuple(replace(sa, children=tuple(map(of, sa.children))) for sa in sas)


def _ike_sa(peer: str, state: State, conn: Connection, now: float) -> IkeSa:
    """Build one IKE_SA. A half-open one has no identity yet; an established one has that of its connection."""
    is_ike = state.is_ike_sa
    age = conn.ike_lifetime - state.replace_in if is_ike and state.replace_in is not None else None
    return IkeSa(
        unique_id=str(state.serial),
        peer=peer,
        state=_ike_sa_state(state),
        initiator=state.is_initiated,
        spi_initiator="",
        spi_responder="",
        established_at=now - max(age, 0) if age is not None else None,
        remote_id=_identity(conn.remote_id) if is_ike else None,
        encryption=_encryption(conn.ike_suite) if is_ike else "",
        key_exchange=_key_exchange(conn.ike_suite) if is_ike else "",
    )


def _ike_sa_state(state: State) -> IkeSaState:
    if state.is_ike_sa:
        return IkeSaState.ESTABLISHED
    return IkeSaState.DELETING if state.is_leaving else IkeSaState.CONNECTING


def _child_sa_state(name: str, newer: Iterable[ChildSa]) -> ChildSaState:
    """Return the state of a CHILD_SA. pluto does not say which of several carries traffic: it is the newest."""
    return ChildSaState.REKEYED if any(one.name == name for one in newer) else ChildSaState.INSTALLED


def _children(
    known: Iterable[State],
    conns: Mapping[str, Connection],
    moved: Mapping[int, Traffic],
    offset: float,
) -> dict[int, list[ChildSa]]:
    """Return the CHILD_SAs by their IKE_SA: the newest of a name carries traffic, the others were rekeyed.

    ``offset`` is the difference of the two clocks of ``ike_sas``.
    """
    found: dict[int, list[ChildSa]] = {}
    for state in sorted(known, key=lambda one: -one.serial):
        ours = peer_and_child(state.conn)
        if ours is None or not state.is_child_sa:
            continue
        conn = conns.get(state.conn, Connection())
        one = moved.get(state.serial)
        siblings = found.setdefault(state.ike, [])
        child = ChildSa(
            name=ours[1],
            state=_child_sa_state(ours[1], siblings),
            mode="tunnel" if conn.is_tunnel else "transport",
            spi_in=state.spi_in,
            spi_out=state.spi_out,
            encryption=_encryption(conn.esp_suite),
            installed_at=one.added_at + offset if one else 0.0,
            bytes_in=one.bytes_in if one else 0,
            bytes_out=one.bytes_out if one else 0,
        )
        siblings.append(child)
    return found


_GROUPS = {
    **{f"DH{number}": f"MODP_{bits}" for number, bits in ((14, 2048), (15, 3072), (16, 4096), (17, 6144), (18, 8192))},
    **{f"DH{number}": f"ECP_{bits}" for number, bits in ((19, 256), (20, 384), (21, 521))},
    "DH31": "CURVE_25519",
}
"""charon's names of key exchange methods by IANA's number (Transform Type 4)."""


def _encryption(suite: str) -> str:
    """Return the cipher with its key size as charon writes it, from pluto's AES_GCM_16_256-HMAC_SHA2_256-DH31."""
    return re.sub(r"_(128|192|256)$", r"-\1", suite.partition("-")[0])


def _key_exchange(suite: str) -> str:
    last = suite.rpartition("-")[2]
    return _GROUPS.get(last, last)


def _identity(text: str) -> IPv6Address | None:
    try:
        return IPv6Address(text)
    except ValueError:
        return None

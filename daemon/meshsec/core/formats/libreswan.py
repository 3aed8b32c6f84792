"""libreswan's configuration of a node (ipsec.conf(5), ipsec.secrets(5); libreswan 4.10 and 5.2).

libreswan has no Ed25519, so a pair authenticates by its own secret (``pair_secret``). ESP is in the kernel.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

from meshsec.core.ike import libreswan_suites
from meshsec.core.ike.libreswan_suites import Refused
from meshsec.core.values.model import ChildSpec, ConnectionSpec, CopyDscp

PREFIX = "meshsec-"
"""Prefix of the connections' names; an operator's own connections have others."""

_MARGIN_PERCENT = 15
"""Part of a CHILD_SA's life before whose end it is rekeyed, and up to a fifth of that sooner."""

_ALL = {
    # Ed25519 is not among what libreswan can do; RFC 7296, section 2.15, for what a shared secret proves.
    "authby": "secret",
    "ikev2": "insist",
    # What is not protected is held while it is negotiated. Otherwise the rules are the wall: after a failure 5.2 with
    # "drop" lets no CHILD_SA of a connection be made any more whose IKE_SA it has deleted itself ("routing: unhandled
    # ESTABLISH_INBOUND, ROUTED_FAILURE"), and two IKE_SAs that cross are enough for that.
    "negotiationshunt": "hold",
    "failureshunt": "none",
    # An SA binds stable addresses: nothing to move.
    "mobike": "no",
    # Its script would set routes, which are the routing daemon's.
    "leftupdown": "%disabled",
    # A partition of the mesh may last.
    "keyingtries": "0",
}


class NothingLeftError(ValueError):
    """A policy of which libreswan can do nothing. The message names each proposal with the reason."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The text of ipsec.conf, and the proposals that are not in it."""

    conf: str
    refused: tuple[Refused, ...]


def render(specs: Mapping[str, tuple[ConnectionSpec, bool]], comment: str) -> Exported:
    """Return the connections to all peers by name, each with whether this node initiates it.

    Raises NothingLeftError.
    """
    lines = [f"# {line}" for line in comment.splitlines()]
    refused: dict[Refused, None] = {}
    for name, (spec, initiates) in specs.items():
        for child in spec.children:
            suites, left_out = _suites(spec, child)
            refused |= dict.fromkeys(left_out)
            suffix = "" if child is spec.children[0] else f"-{child.name}"
            # One end of a pair initiates: when both start at once, libreswan may lose both SAs.
            lines += [
                "",
                *_conn(f"{PREFIX}{name}{suffix}", spec, child, suites | {"auto": "start" if initiates else "add"}),
            ]
    omitted = [f"# left out: {one}" for one in refused]
    return Exported("\n".join([*lines, *(["", *omitted] if omitted else [])]) + "\n", tuple(refused))


def driven(conn: str, spec: ConnectionSpec, child: ChildSpec) -> Exported:
    """Return the connection of one CHILD_SA, which meshsecd initiates. Raises NothingLeftError."""
    suites, refused = _suites(spec, child)
    more = {
        "keyingtries": "1",
        # A peer that has lost its SAs says so to the other end, which forgets its own (RFC 7296, section 2.4).
        "initial-contact": "yes",
        # As long as charon asks: an SA that the peer has not any more is found out by that (core.silence).
        "retransmit-timeout": "12s",
        "auto": "add",
    }
    return Exported("\n".join(_conn(conn, spec, child, suites | more)) + "\n", refused)


def secrets(own: IPv6Address, pairs: Iterable[tuple[IPv6Address, bytes]], comment: str) -> str:
    """Return the text of ipsec.secrets: what ``own`` shares with each peer's address."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [f"{own} {peer} : PSK 0x{secret.hex()}" for peer, secret in pairs]
    return "\n".join(lines) + "\n"


def _suites(spec: ConnectionSpec, child: ChildSpec) -> tuple[dict[str, str], tuple[Refused, ...]]:
    ike, no_ike = libreswan_suites.all_ike(spec.ike_proposals)
    esp, no_esp = libreswan_suites.all_esp(child.esp_proposals)
    pfs = any(libreswan_suites.has_key_exchange(one) for one in child.esp_proposals)
    no_ike = tuple(Refused(f"IKE {one.proposal}", one.why) for one in no_ike)
    no_esp = tuple(Refused(f"ESP {one.proposal}", one.why) for one in no_esp)
    for kind, kept, lost in (("IKE", ike, no_ike), ("ESP", esp, no_esp)):
        if not kept:
            raise NothingLeftError(f"libreswan can do no {kind} proposal of the policy: {'; '.join(map(str, lost))}")
    return {"ike": ",".join(ike), "esp": ",".join(esp), "pfs": "yes" if pfs else "no"}, no_ike + no_esp


def _conn(conn: str, spec: ConnectionSpec, child: ChildSpec, more: Mapping[str, str]) -> Iterator[str]:
    (local,), (remote,) = child.local_ts, child.remote_ts
    yield f"conn {conn}"
    values = {
        "left": spec.local_address,
        "leftid": spec.local_id,
        "leftsubnet": local,
        "right": spec.remote_address,
        "rightid": spec.remote_id,
        "rightsubnet": remote,
        "type": child.mode,
        **_ALL,
        "ikelifetime": f"{spec.ike_rekey_time}s",
        "salifetime": f"{spec.child_rekey_time}s",
        # Before strongSwan at the other end does, whose time comes in the last tenth: where libreswan answers, it sends
        # by the new SA before the other can have it (docs/guide/libreswan.md).
        "rekeymargin": f"{spec.child_rekey_time * _MARGIN_PERCENT // 100}s",
        "rekeyfuzz": "20%",
        "replay-window": spec.replay_window,
        "decap-dscp": "yes" if spec.copy_dscp in (CopyDscp.IN, CopyDscp.YES) else "no",
        # 4.10 copies outwards and has no word against it; 5.2 has one, and does not copy whatever it says.
        **({"encap-dscp": "no"} if spec.copy_dscp in (CopyDscp.IN, CopyDscp.NO) else {}),
        **more,
    }
    yield from (f"\t{key}={value}" for key, value in values.items())

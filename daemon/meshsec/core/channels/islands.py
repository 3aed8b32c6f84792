"""What a link over the internet asks of the IKE daemon: a connection for each uplink, with a CHILD_SA for each path."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from meshsec.core.channels.desired import authentication, host
from meshsec.core.islands import paths
from meshsec.core.policy.policy import Policy
from meshsec.core.values.islands import InternetLink, Joint
from meshsec.core.values.model import (
    Address,
    Authentication,
    Card,
    ChildSpec,
    ConnectionSpec,
    EspBackend,
    Outside,
)

DPD_DELAY = 5
"""Seconds. The router leaves a silent path long before; this only ends its SA, so that another can be made."""
ANYWHERE = ("0.0.0.0/0", "::/0")
"""A linked peer may come from any address: NATs and mobile networks give it one. Its key is what it proves."""


class Ends(NamedTuple):
    """A link that both ends' cards allow."""

    link: InternetLink
    node: Card
    peer: Card
    joints: Sequence[Joint]


def connection_spec(
    ends: Ends, uplink: int, addresses: Iterable[Address], backend: EspBackend, policy: Policy
) -> ConnectionSpec:
    """Return the connection over one uplink, which has these addresses.

    Its identities are the two locators, so that its IKE_SAs are never taken for the pair's own, whose identities are
    the two addresses. The keys are the same. Each connection has the CHILD_SAs of all paths, because the peer chooses
    the path, and the IKE daemon the connection by the address to which the peer's message came.
    """
    link, node, peer, joints = ends
    return ConnectionSpec(
        name=paths.connection(link.peer, uplink),
        local_address=node.locator,
        remote_address=peer.locator,
        local_id=node.locator,
        remote_id=peer.locator,
        local_public_key=node.public_key,
        remote_public_key=peer.public_key,
        ike_proposals=policy.ike_proposals,
        children=tuple(_path(one, policy) for one in joints),
        encapsulate=backend is EspBackend.LIBIPSEC,
        ike_rekey_time=policy.ike_rekey_time,
        child_rekey_time=policy.child_rekey_time,
        replay_window=policy.replay_window,
        copy_dscp=policy.copy_dscp,
        outside=Outside(tuple(map(str, addresses)), (*filter(None, [link.address]), *ANYWHERE), DPD_DELAY),
    )


def _path(joint: Joint, policy: Policy) -> ChildSpec:
    return ChildSpec(paths.child(joint.path), "tunnel", (host(joint.own),), (host(joint.peer),), policy.esp_proposals)


def cannot(node: Card, peer: Card | None, name: str) -> str:
    """Return why there can be no link to a peer; empty if there can."""
    if peer is None:
        return f"{name} is not trusted: `meshsec peer add {name} CARD`"
    if authentication(node, peer) is Authentication.SECRET:
        return f"{name} has libreswan; links take strongSwan at both ends"
    return ""

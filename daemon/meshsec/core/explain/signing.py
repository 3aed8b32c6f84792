"""What signatures of routing messages mean here: for ``doctor`` and ``explain``."""

from collections.abc import Iterable, Iterator

from meshsec.core.config.routing_settings import Signatures
from meshsec.core.explain.findings import Check, Level
from meshsec.core.values.model import Address, Route
from meshsec.core.values.refusals import Refusal
from meshsec.core.values.topology import Topology

NAME = "routing signatures"


def signer(state: str, verified: int) -> Check:
    """Judge whether this router's messages are signed."""
    if state == "away":
        found = "olsrv2-signer is away, so olsrv2d sends nothing and no other node finds a route here"
        return Check(NAME, Level.FAIL, found, "systemctl start olsrv2-signer; `journalctl -u olsrv2-signer` says why")
    if state == "off":
        found = "olsrv2d signs nothing, although [routing] signatures of meshsec.toml is not off"
        return Check(NAME, Level.WARN, found, "systemctl restart olsrv2d")
    return Check(NAME, Level.OK, f"this node's messages are signed; {verified} of other nodes were verified")


def sentences(
    signatures: Signatures,
    topology: Topology,
    addresses: Iterable[Address],
    route: Route | None,
    refusals: Iterable[Refusal],
) -> Iterator[str]:
    """Yield why signatures keep a route to a peer from being taken, or from being good.

    ``addresses``: the peer's originators; ``route``: the route to it that is in force.
    """
    if signatures is Signatures.OFF or (route is not None and route.confirmed):
        return
    counts = {one.counter: one.count for one in refusals}
    signs = any(map(topology.signs, addresses))
    if route is not None:
        yield _explain_unconfirmed(signs=signs)
    elif signatures is Signatures.REQUIRE:
        yield from _explain_refused(counts.get("not_signed", 0), signs=signs)
    if forged := counts.get("forged", 0):
        yield (
            f"olsrv2d refused {forged} forged routing messages in the last two minutes, perhaps in this peer's name; "
            "no route was moved by them (`meshsec doctor` names the senders)."
        )


def _explain_unconfirmed(*, signs: bool) -> str:
    why = "a link on it is not signed by both ends" if signs else "the peer's router signs nothing"
    return f"The route rests on unsigned words: {why} (`meshsec topology` shows which links are confirmed)."


def _explain_refused(not_signed: int, *, signs: bool) -> Iterator[str]:
    required = '[routing] signatures is "require"'
    if signs:
        yield f"The peer's router signs, but no path of links that both ends have signed leads to it, and {required}."
    elif not_signed:
        yield (
            f"No signed message of the peer's router is known, and {required}: a router that signs nothing has no "
            f"route. {not_signed} unsigned messages were ignored in the last two minutes (`meshsec doctor` names the "
            "senders)."
        )

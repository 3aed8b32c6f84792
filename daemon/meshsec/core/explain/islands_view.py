"""Links over the internet, as people and programs are shown them, and what is wrong with them and how to fix it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from meshsec.core.channels.islands import cannot
from meshsec.core.islands.paths import device
from meshsec.core.islands.state import Carrier
from meshsec.core.values.islands import InternetLink
from meshsec.core.values.model import Address, Card

View = dict[str, Any]


class Seen(NamedTuple):
    """What is known of one link now."""

    uplinks: Mapping[str, tuple[bool, Sequence[Address]]]
    """Whether each uplink has a carrier, and its addresses."""
    up: Mapping[int, Carrier]
    """The paths that carry."""
    failed: Mapping[int, str]
    """Why the last attempt of a path failed; empty if it did not."""
    now: float


def link(asked: InternetLink, node: Card, peer: Card | None, seen: Seen) -> View:
    """Return one link."""
    return {
        "peer": asked.peer,
        "address": asked.address or None,
        "uplinks": list(asked.uplinks),
        "up": bool(seen.up),
        "paths": [_path(asked, path, carrier, seen.now) for path, carrier in sorted(seen.up.items())],
        "problems": list(dict.fromkeys(_problems(asked, node, peer, seen))),
    }


def _path(asked: InternetLink, path: int, carrier: Carrier, now: float) -> View:
    return {
        "path": path,
        "device": device(asked.peer, path),
        "uplink": carrier.uplink,
        "remote": carrier.sa.remote_end,
        "behind_nat": carrier.sa.behind_nat,
        "up_for": round(now - carrier.since, 3),
    }


def _problems(asked: InternetLink, node: Card, peer: Card | None, seen: Seen) -> Iterator[str]:
    if problem := cannot(node, peer, asked.peer):
        yield problem
        return
    for path, uplink in enumerate(asked.uplinks):
        carrier, addresses = seen.uplinks.get(uplink, (False, ()))
        if not carrier:
            yield f"{uplink} has no carrier"
        elif not addresses:
            yield f"{uplink} has no address"
        elif asked.address and path not in seen.up and seen.failed.get(path):
            yield f"{uplink}: {seen.failed[path]}"
    if not asked.address and not seen.up:
        yield f"{asked.peer} has not called yet; one of the two ends must have the other's address"


def planned(peer: str, uplink: str, seconds: float) -> View:
    """Return a negotiation that this end begins in so many seconds, as ``plan`` shows actions."""
    return {
        "action": "initiate",
        "peer": peer,
        "detail": f"link over {uplink}",
        "why": "the link has no SA over this uplink",
        "in": seconds,
    }


def sentences(view: View) -> list[str]:
    """Return a link in words, for ``explain``."""
    ways = [
        f"over {one['uplink']} with {one['remote']}{', behind a NAT' if one['behind_nat'] else ''}"
        for one in view["paths"]
    ]
    carried = (
        f"A link over the internet joins the two: {'; '.join(ways)}." if ways else "Its link over the internet is down."
    )
    return [carried, *(f"The link: {problem}." for problem in view["problems"])]


def faults(views: Sequence[View]) -> list[str]:
    """Return what doctor reports: the problems of all links."""
    return [f"{one['peer']}: {problem}" for one in views for problem in one["problems"]]

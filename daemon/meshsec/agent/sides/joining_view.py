"""What people are shown of joining: who asks this node's fleets, and what this node waits for itself (ADR 0070)."""

import asyncio
from typing import Any

from mnemonic import Mnemonic

from meshsec.agent.sides.joining import JoiningSide
from meshsec.core.explain.findings import Check, Level
from meshsec.core.trust import card as cards
from meshsec.core.trust import fingerprint_words
from meshsec.core.trust.joining import Standing
from meshsec.core.values.model import Card


def requests(side: JoiningSide) -> list[dict[str, Any]]:
    """Return the requests for the operator: this node's own, then those that have waited longest."""
    now = asyncio.get_running_loop().time()
    side.requests.expire(now)
    own = [_request(side, one.fleet.public_key, side.offered()) for one in side.waiting()]
    kept = sorted(side.requests, key=lambda one: one.first_at)
    return own + [
        _request(side, one.fleet, one.card)
        | {"via": str(one.via), "waiting": round(now - one.first_at), "seen": round(now - one.last_at)}
        for one in kept
    ]


def _request(side: JoiningSide, fleet: bytes, card: Card) -> dict[str, Any]:
    return {
        "fleet": side.trust.joined.memberships[fleet].fleet.name,
        "fleet_key": fleet.hex(),
        "name": card.name,
        "address": str(card.address),
        "card": cards.render(card),
        "fingerprint": card.fingerprint.hex(),
        "words": _words(card),
        "networks": [str(one) for one in card.networks],
        "via": None,
        "waiting": 0,
        "seen": 0,
        "namesake": namesake(side, card),
    }


def namesake(side: JoiningSide, card: Card) -> str | None:
    """Return the address of another node that has the name on the card: this node, a peer, or a member of a fleet."""
    joined = side.trust.joined
    revoked = joined.revoked()
    members = [one.card for one in joined.members.values() if one.card.fingerprint.hex() not in revoked]
    names = [(side.own, side.own.name), *((one, one.name) for one in members)]
    for peer in side.trust.peers.values():
        names += [(peer.card, peer.name), (peer.card, peer.card.name)]
    found = (one.address for one, name in names if name == card.name and one.address != card.address)
    return next(map(str, found), None)


def standing(side: JoiningSide) -> list[dict[str, Any]]:
    """Return what this node waits for, for status."""
    said = list(side.asking.standings(asyncio.get_running_loop().time()))
    searched = [{"fleet": "", "sought": _spoken(sought)}] if (sought := side.trust.joined.sought) else []
    return [one | {"words": _words(side.own), "kept_by": 0, "refused_by": 0} for one in searched] + [
        {
            "fleet": one.fleet.name,
            "words": _words(side.own),
            "kept_by": said.count(Standing.WAITING),
            "refused_by": said.count(Standing.REFUSED),
        }
        for one in side.waiting()
    ]


def checks(side: JoiningSide) -> list[Check]:
    """Return doctor's checks: what this node waits for, and who waits for its operator."""
    found = [_check(one) for one in standing(side)]
    if waiting := sorted(one.card.name for one in side.requests):
        found.append(Check("join requests", Level.OK, f"{len(waiting)} wait: {', '.join(waiting)}", _APPROVE))
    return found


def _check(one: dict[str, Any]) -> Check:
    if one["fleet"]:
        return Check(f"joining {one['fleet']}", Level.WARN, _told(one), _READ_WORDS)
    return Check("joining by words", Level.WARN, _told(one), _COMPARE_WORDS)


def _words(card: Card) -> list[str]:
    return _spoken(card.fingerprint)


def _spoken(fingerprint: bytes) -> list[str]:
    return list(fingerprint_words.spoken(fingerprint, Mnemonic("english").wordlist))


def _told(one: dict[str, Any]) -> str:
    if not one["fleet"]:
        return (
            f"this node looks for the fleet with the six words {' '.join(one['sought'])}, and no member of it in reach "
            "has answered"
        )
    refused = f" ({one['refused_by']} of its members say that it was refused)" if one["refused_by"] else ""
    return (
        f"this node waits for approval by the fleet {one['fleet']}{refused}; members in reach that have its request: "
        f"{one['kept_by']}; its six words: {' '.join(one['words'])}"
    )


_READ_WORDS = "read the six words to the fleet's operator, for `meshsec fleet approve`"
_COMPARE_WORDS = (
    "compare them with `meshsec fleet show` of the fleet's operator; `meshsec status` says whether a route leads to a "
    "member. On the operator's own node: `meshsec fleet join FLEET` with the fleet's card"
)
_APPROVE = "`meshsec fleet requests` shows them, `meshsec fleet approve` lets one join, `meshsec fleet refuse` none"

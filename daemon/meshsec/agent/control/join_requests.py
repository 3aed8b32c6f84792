"""Answer the methods about nodes that ask to join a fleet (ADR 0070)."""

import re
from collections.abc import Mapping
from typing import Any

from meshsec.adapters.files import trust_store
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.params import Method, Params, text
from meshsec.agent.control.sides import Sides
from meshsec.agent.sides import joining_view
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import FleetError
from meshsec.core.values.model import Card

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class JoinMethods:
    """The methods ``join_*``."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self.methods: Mapping[str, Method] = {
            "join_requests": self._list,
            "join_check": self._check,
            "join_approve": self._approve,
            "join_refuse": self._refuse,
        }

    async def _list(self, _params: Params) -> Mapping[str, Any]:
        return {"schema": "meshsec-join-requests-1", "requests": joining_view.requests(self._sides.joining)}

    async def _check(self, params: Params) -> Mapping[str, Any]:
        try:
            card = cards.parse(text(params, "card"))
        except cards.CardError as error:
            raise ControlError("refused", str(error)) from error
        self._refuse_namesake(card)
        return {"address": str(card.address)}

    def _refuse_namesake(self, card: Card) -> None:
        """Raise ControlError if another node has the name: the fleet would take the card for that node's next key."""
        other = joining_view.namesake(self._sides.joining, card)
        if other is not None:
            raise ControlError(
                "refused",
                f"{card.name} ({card.address}) has the name of another node, {other}, and another key; "
                "give the new node a name of its own (`name` in its meshsec.toml, then `meshsec up`), "
                f"or, if {card.name} itself has a changed key, sign it with `meshsec fleet sign`",
            )

    async def _approve(self, params: Params) -> Mapping[str, Any]:
        try:
            signed = fleets.parse_card(text(params, "signed"), self._sides.trust.joined.keys)
            self._refuse_namesake(signed.card)
            await self._sides.joining.approve(signed)
        except (FleetError, trust_store.TrustStoreError) as error:
            raise ControlError("refused", str(error)) from error
        return {"address": str(signed.card.address)}

    async def _refuse(self, params: Params) -> Mapping[str, Any]:
        fingerprint = text(params, "fingerprint")
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise ControlError("bad_params", f"fingerprint: {fingerprint!r}; allowed: 64 hexadecimal digits")
        self._sides.joining.requests.refuse(bytes.fromhex(fingerprint))
        return {"fingerprint": fingerprint}

"""Answer the methods that change whom this node trusts."""

from collections.abc import Mapping
from typing import Any

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.mode_store import ModeStoreError
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.params import Method, Params, text
from meshsec.agent.control.sides import Sides
from meshsec.core.trust import card as cards
from meshsec.core.trust import roster as rosters

RULES_SECONDS = 10.0
"""Seconds that a command waits until its rules are in force: nft takes well below a second, on a busy machine
longer."""


class PeerRequests:
    """The methods ``peer_*``."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self.methods: Mapping[str, Method] = {
            "peer_add": self._add,
            "peer_remove": self._remove,
            "peer_next": self._next,
            "peer_end": self._end,
            "peer_revoke": self._revoke,
            "peer_unrevoke": self._unrevoke,
        }

    async def _add(self, params: Params) -> Mapping[str, Any]:
        name = text(params, "name")
        try:
            card = cards.parse(text(params, "card"))
            await self._sides.trust.add(name, card)
        except (cards.CardError, trust_store.TrustStoreError) as error:
            raise ControlError("refused", str(error)) from error
        namesakes = rosters.namesakes(self._sides.trust.peers.values(), name, card)
        return {"name": name, "address": str(card.address), "namesakes": list(namesakes)}

    async def _next(self, params: Params) -> Mapping[str, Any]:
        name = text(params, "name")
        try:
            card = cards.parse(text(params, "card"))
            await self._sides.trust.add_next(name, card)
        except (cards.CardError, trust_store.TrustStoreError) as error:
            raise ControlError("refused", str(error)) from error
        return {"name": name, "address": str(card.address)}

    async def _end(self, params: Params) -> Mapping[str, Any]:
        name = text(params, "name")
        try:
            await self._sides.trust.end(name)
        except trust_store.TrustStoreError as error:
            raise ControlError("refused", str(error)) from error
        await self._wait_closed(name)
        return {"name": name}

    async def _remove(self, params: Params) -> Mapping[str, Any]:
        name = text(params, "name")
        channel = self._sides.driver.engine.known.shown_as(name)
        card = channel.card if channel else None
        try:
            await self._sides.trust.remove(name)
            if card is not None:
                await self._sides.modes.choose(card.address, None)
        except (trust_store.TrustStoreError, ModeStoreError) as error:
            raise ControlError("refused", str(error)) from error
        await self._wait_closed(name)
        still = self._sides.trust.peers.get(name)
        return {"name": name, "fleet": still.fleet if still else ""}

    async def _revoke(self, params: Params) -> Mapping[str, Any]:
        reason = text(params, "reason") if params.get("reason") else ""
        target = text(params, "target")
        try:
            revoked = list(await self._sides.trust.revoke(target, reason))
        except trust_store.TrustStoreError as error:
            raise ControlError("refused", str(error)) from error
        await self._wait_closed(target)
        return {"fingerprints": revoked}

    async def _wait_closed(self, name: str) -> None:
        """Answer only when the rules in force close the peer, because the caller relies on that."""
        if not await self._sides.driver.rules_in_force(RULES_SECONDS):
            raise ControlError(
                "refused",
                f"{name} has lost its trust, but the rules that close it are not in force after "
                f"{RULES_SECONDS:g} s; `meshsec doctor` says why",
            )

    async def _unrevoke(self, params: Params) -> Mapping[str, Any]:
        fingerprint = text(params, "fingerprint")
        try:
            await self._sides.trust.unrevoke(fingerprint)
        except trust_store.TrustStoreError as error:
            raise ControlError("refused", str(error)) from error
        return {"fingerprint": fingerprint}

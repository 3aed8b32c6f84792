"""A login of the page approves a node while the command that has the fleet's key runs, and never else (ADR 0081)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_network
from typing import Any

import pytest

from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control import page_approvals
from meshsec.agent.control.page_requests import PageRequests
from meshsec.core.page.logins import SESSION_SECONDS, TOKEN_SECONDS
from meshsec.core.trust import card as cards
from meshsec.core.trust.identity import generate, make_card, public_key_of
from meshsec.core.values.model import Card

RESCUE, OTHER = "11" * 32, "22" * 32


def _card(name: str, number: int, *networks: str) -> Card:
    seeds = (number.to_bytes(4, "big") + counter.to_bytes(28, "big") for counter in range(100_000))
    return make_card(name, public_key_of(generate(lambda: next(seeds))), networks=map(ip_network, networks))


PLACE: dict[str, object] = {"addresses": ["::1"], "port": 8269}
BOAT, HOUSE, FOREIGN, UNKNOWN = _card("boat", 1), _card("house", 2, "0.0.0.0/0"), _card("far", 3), _card("no", 4)


class Node:
    """meshsecd with three requests, of which one is for another fleet."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        self.refusals: dict[str, str] = {}
        """By method."""
        self.approving = 0.0
        """Seconds that `join_approve` takes."""
        self.now = 0.0
        self.page = PageRequests(self.answer, lambda: self.now, lambda: {("::1", 8269)})

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method in self.refusals:
            raise ControlError("refused", self.refusals[method])
        if method == "join_requests":
            asking = ((RESCUE, BOAT), (RESCUE, HOUSE), (OTHER, FOREIGN))
            return {"requests": [_request(fleet, card) for fleet, card in asking]}
        if method == "join_approve":
            await asyncio.sleep(self.approving)
        self.told.append((method, params))
        return {"address": "fc00::1"}

    async def command(self) -> tuple[str, str]:
        """Begin as the command does. Return its secret, and the session of whoever logs in."""
        made = await self.page.methods["page_login"](PLACE | {"fleet": RESCUE})
        return str(made["signer"]), await self.log_in(made["token"])

    async def log_in(self, token: str) -> str:
        return str((await self.page.answer("login", {"token": token}))["session"])

    async def wanted(self, signer: str, **said: str) -> Mapping[str, Any]:
        return await self.page.methods["page_wanted"]({"signer": signer, **said})

    async def change(self, session: str, method: str, **params: str) -> Mapping[str, Any]:
        return await self.page.answer("change", {"session": session, "method": method, "params": params})

    async def approve(self, session: str, card: Card = BOAT) -> Mapping[str, Any]:
        return await self.change(session, "join_approve", fingerprint=card.fingerprint.hex())

    async def sign(self, signer: str) -> Mapping[str, Any]:
        """Sign the next card, and return what is said to that."""
        wanted = await self.wanted(signer)
        return await self.wanted(signer, card=wanted["card"], signed=f"signed {wanted['card']}")


def _request(fleet: str, card: Card) -> dict[str, Any]:
    return {"fleet_key": fleet, "fingerprint": card.fingerprint.hex(), "card": cards.render(card)}


def run(work: Callable[[Node], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(page_approvals, "WANT_SECONDS", 0.2)
    monkeypatch.setattr(page_approvals, "SIGN_SECONDS", 0.5)
    node = Node()

    async def limited() -> None:
        async with asyncio.timeout(30):
            await work(node)

    asyncio.run(limited())
    return node


def test_what_is_approved_is_signed_and_handed_to_meshsecd(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        approved, said = await asyncio.gather(node.approve(session), node.sign(signer))
        assert approved == {"address": "fc00::1"}
        assert said == {"card": None, "ended": False, "failure": ""}

    text = cards.render(BOAT)
    node = run(work, monkeypatch)
    assert node.told == [("join_check", {"card": text}), ("join_approve", {"signed": f"signed {text}"})]


def test_networks_on_a_card_are_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        await asyncio.gather(node.approve(session, HOUSE), node.sign(signer))

    (_, checked), (_, approved) = run(work, monkeypatch).told
    assert approved == {"signed": f"signed {checked['card']}"}
    assert cards.parse(checked["card"]).networks == ()
    assert cards.parse(checked["card"]).public_key == HOUSE.public_key


@pytest.mark.parametrize("card", [FOREIGN, UNKNOWN], ids=["of another fleet", "who does not ask"])
def test_only_who_asks_this_fleet_is_approved(monkeypatch: pytest.MonkeyPatch, card: Card) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        with pytest.raises(ControlError, match="no node with this key asks"):
            await node.approve(session, card)
        assert (await node.wanted(signer))["card"] is None

    assert run(work, monkeypatch).told == []


def test_a_login_without_a_command_approves_nothing_even_while_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, _ = await node.command()
        plain = await node.log_in((await node.page.methods["page_login"](PLACE))["token"])
        with pytest.raises(ControlError, match="may not approve; `meshsec page login --approve`"):
            await node.approve(plain)
        assert (await node.wanted(signer))["card"] is None

    assert run(work, monkeypatch).told == []


def test_a_login_says_for_which_fleet_it_approves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        for params, fleet in (({"fleet": RESCUE}, RESCUE), ({}, None)):
            token = (await node.page.methods["page_login"](PLACE | params))["token"]
            assert (await node.page.answer("login", {"token": token}))["approves"] == fleet

    run(work, monkeypatch)


def test_nothing_is_approved_once_the_command_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        with pytest.raises(ControlError, match="nobody signs"):
            await node.approve(session)
        assert (await node.wanted(signer))["card"] is None, "nobody waits for it any more"
        node.now += 60
        started = asyncio.get_running_loop().time()
        with pytest.raises(ControlError, match="nobody signs"):
            await node.approve(session)
        assert asyncio.get_running_loop().time() - started < page_approvals.SIGN_SECONDS

    assert [method for method, _ in run(work, monkeypatch).told] == ["join_check"]


def test_what_is_signed_too_late_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        late = asyncio.create_task(node.approve(session))
        card = str((await node.wanted(signer))["card"])
        with pytest.raises(ControlError, match="nobody signs"):
            await late
        assert "too late" in (await node.wanted(signer, card=card, signed="x"))["failure"]
        other = asyncio.create_task(node.approve(session, HOUSE))
        await asyncio.sleep(0)
        assert "too late" in (await node.wanted(signer, card=card, signed="x"))["failure"]
        await node.sign(signer)
        await other

    assert [method for method, _ in run(work, monkeypatch).told] == ["join_check", "join_check", "join_approve"]


@pytest.mark.parametrize("method", ["join_check", "join_approve"])
def test_who_is_refused_is_told_why(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        node.refusals[method] = "has the name of another node"
        signing = asyncio.create_task(node.sign(signer)) if method == "join_approve" else None
        with pytest.raises(ControlError, match="has the name of another node"):
            await node.approve(session)
        if signing:
            assert (await signing)["failure"] == "has the name of another node"

    run(work, monkeypatch)


def test_a_command_may_refuse_to_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        approving = asyncio.create_task(node.approve(session))
        wanted = await node.wanted(signer)
        said = await node.wanted(signer, card=wanted["card"], refusal="that key is revoked")
        assert said["failure"] == "that key is revoked"
        with pytest.raises(ControlError, match="that key is revoked"):
            await approving

    assert [method for method, _ in run(work, monkeypatch).told] == ["join_check"]


def test_the_command_ends_with_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        node.now += SESSION_SECONDS - 1
        assert not (await node.wanted(signer))["ended"]
        await node.page.answer("logout", {"session": session})
        assert (await node.wanted(signer))["ended"]
        assert (await node.wanted(signer))["ended"]

    run(work, monkeypatch)


def test_the_command_ends_when_nobody_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer = (await node.page.methods["page_login"](PLACE | {"fleet": RESCUE}))["signer"]
        node.now += TOKEN_SECONDS - 1
        assert not (await node.wanted(signer))["ended"]
        node.now += 1
        assert (await node.wanted(signer))["ended"]

    run(work, monkeypatch)


def test_what_is_signed_in_time_is_approved_however_long_meshsecd_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        node.approving = 2 * page_approvals.SIGN_SECONDS
        signer, session = await node.command()
        approved, said = await asyncio.gather(node.approve(session), node.sign(signer))
        assert approved == {"address": "fc00::1"}
        assert said["failure"] == ""

    assert [method for method, _ in run(work, monkeypatch).told] == ["join_check", "join_approve"]


def test_a_command_that_ends_while_its_signature_is_carried_out_keeps_no_browser_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(node: Node) -> None:
        node.approving = 60.0
        signer, session = await node.command()
        waiting = asyncio.create_task(node.approve(session))
        card = str((await node.wanted(signer))["card"])
        signing = asyncio.create_task(node.wanted(signer, card=card, signed="x"))
        await asyncio.sleep(0.01)
        signing.cancel()
        with pytest.raises(ControlError, match="it is not known whether"):
            await waiting

    run(work, monkeypatch)


def test_who_only_looks_cannot_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, _ = await node.command()
        with pytest.raises(ControlError, match="none for those who only look"):
            await node.page.answer("page_wanted", {"signer": signer})
        assert (await node.wanted("guessed"))["ended"]

    run(work, monkeypatch)


def test_approvals_at_one_time_are_signed_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        signer, session = await node.command()
        approving = asyncio.gather(node.approve(session), node.approve(session, HOUSE))
        wanted = await node.wanted(signer)
        for _ in range(2):
            wanted = await node.wanted(signer, card=wanted["card"], signed=f"signed {wanted['card']}")
        await approving

    told = run(work, monkeypatch).told
    signed = [params["signed"].split()[1] for method, params in told if method == "join_approve"]
    assert sorted(cards.parse(one).name for one in signed) == ["boat", "house"]


def test_the_card_in_a_photo_is_read_and_known_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(node: Node) -> None:
        _, session = await node.command()
        for card, asks in ((BOAT, True), (UNKNOWN, False)):
            found = await node.change(session, "card_read", card=cards.render(card).upper())
            assert (found["name"], found["asks"]) == (card.name, asks)
            assert found["fingerprint"] == card.fingerprint.hex()
            assert len(found["words"]) == 6
        for hostile in ("<script>", "meshsec1" + "q" * 5000, "\udcff", cards.render(BOAT)[:-1] + "b"):
            with pytest.raises(ControlError):
                await node.change(session, "card_read", card=hostile)
        with pytest.raises(ControlError, match="nobody is logged in"):
            await node.change("none", "card_read", card=cards.render(BOAT))

    assert run(work, monkeypatch).told == []

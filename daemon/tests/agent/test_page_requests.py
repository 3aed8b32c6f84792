"""What meshsecd lets the page's process do: look at everything, and change nothing without an operator's login."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.page_requests import CHANGES, READING, READING_WITHOUT_PARAMETERS, PageRequests
from meshsec.core.trust import card as cards

CARDS = Path(__file__).parents[3] / "tests/vectors/cards/valid.json"


class Node:
    """Keeps what reaches the control socket's own methods."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.now = 0.0
        self.page = PageRequests(self.answer, lambda: self.now)

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((method, params))
        return {"answer": method}

    def look(self, method: str, /, **params: object) -> Mapping[str, Any]:
        """Ask as the page's process does."""
        return asyncio.run(self.page.answer(method, params))

    def command(self, method: str) -> Mapping[str, Any]:
        """Ask as the command line does."""

        async def asked() -> Mapping[str, Any]:
            return await self.page.methods[method]({})

        return asyncio.run(asked())

    def log_in(self) -> str:
        return str(self.look("login", token=self.command("page_login")["token"])["session"])


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.mark.parametrize("method", sorted(READING | READING_WITHOUT_PARAMETERS))
def test_what_only_reports_is_answered(node: Node, method: str) -> None:
    assert node.look(method) == {"answer": method}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("mode", {"plane": "overlay"}),
        ("gateway", {"uplink": "eth0"}),
        ("peer_add", {"name": "x", "card": "y"}),
        ("peer_remove", {"name": "x"}),
        ("peer_next", {}),
        ("peer_end", {}),
        ("peer_revoke", {"target": "x"}),
        ("peer_unrevoke", {}),
        ("renegotiate", {"peer": "x"}),
        ("reload", {}),
        ("stream_report", {}),
        ("drift", {}),
        ("page_login", {}),
        ("page_logout", {}),
        ("page_wanted", {"signer": "x"}),
        ("join_approve", {"signed": "x"}),
        ("join_refuse", {"fingerprint": "x"}),
        ("join_requests", {"x": "y"}),
        ("card_read", {"card": "x"}),
        ("nonsense", {}),
    ],
)
def test_whatever_changes_something_is_refused(node: Node, method: str, params: Mapping[str, Any]) -> None:
    with pytest.raises(ControlError) as refused:
        node.look(method, **params)
    assert refused.value.code == "unknown_method"
    assert node.asked == []


@pytest.mark.parametrize("method", sorted(CHANGES))
def test_a_login_may_make_these_changes(node: Node, method: str) -> None:
    session = node.log_in()
    node.look("change", session=session, method=method, params={"name": "boat", "card": "x"})
    assert node.asked == [(method, {"name": "boat", "card": "x"})]


@pytest.mark.parametrize("method", ["mode", "peer_revoke", "gateway", "reload", "page_login", "page_wanted", "change"])
def test_a_login_may_make_no_other_change(node: Node, method: str) -> None:
    session = node.log_in()
    with pytest.raises(ControlError, match="cannot be done here"):
        node.look("change", session=session, method=method, params={})
    assert node.asked == []


@pytest.mark.parametrize("session", ["x", "", None, 5, ["x"]])
def test_a_change_without_a_login_is_refused(node: Node, session: object) -> None:
    node.log_in()
    with pytest.raises(ControlError):
        node.look("change", session=session, method="peer_remove", params={"name": "boat"})
    assert node.asked == []


def test_a_card_that_asks_for_networks_is_left_to_the_command_line(node: Node) -> None:
    card = cards.parse(json.loads(CARDS.read_text())[4]["card"])
    asking = cards.render(replace(card, networks=(ip_network("10.9.0.0/16"),)))
    session = node.log_in()
    with pytest.raises(ControlError, match=r"asks to speak for 10\.9\.0\.0/16: `meshsec peer add"):
        node.look("change", session=session, method="peer_add", params={"name": "boat", "card": asking})
    assert node.asked == []
    plain = {"name": "boat", "card": cards.render(card)}
    node.look("change", session=session, method="peer_add", params=plain)
    assert node.asked == [("peer_add", plain)]


def test_a_change_with_strange_parameters_is_refused(node: Node) -> None:
    with pytest.raises(ControlError, match="allowed: an object"):
        node.look("change", session=node.log_in(), method="peer_add", params=["boat"])
    assert node.asked == []


def test_a_token_logs_in_once_and_the_refusal_names_the_command(node: Node) -> None:
    token = node.command("page_login")["token"]
    node.look("login", token=token)
    with pytest.raises(ControlError, match="meshsec page login"):
        node.look("login", token=token)


def test_a_session_ends_with_its_logout_and_all_with_the_operators(node: Node) -> None:
    first, second = node.log_in(), node.log_in()
    node.look("logout", session=first)
    for session, ended in ((first, True), (second, False)):
        if ended:
            with pytest.raises(ControlError, match="nobody is logged in"):
                node.look("change", session=session, method="peer_remove", params={"name": "x"})
        else:
            node.look("change", session=session, method="peer_remove", params={"name": "x"})
    assert node.command("page_logout") == {"ended": 1}
    with pytest.raises(ControlError, match="nobody is logged in"):
        node.look("change", session=second, method="peer_remove", params={"name": "x"})


def test_tokens_and_sessions_are_long_and_never_the_same(node: Node) -> None:
    secrets = [node.command("page_login")["token"] for _ in range(5)] + [node.log_in() for _ in range(5)]
    assert len(set(secrets)) == len(secrets)
    assert min(map(len, secrets)) >= 32

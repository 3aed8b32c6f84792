"""What meshsecd lets the page's process do: look at everything, and change nothing without an operator's login."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_network
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.page_requests import CHANGES, READING, READING_WITHOUT_PARAMETERS, PageRequests
from meshsec.core.page.logins import SESSION_SECONDS
from meshsec.core.trust import card as cards

CARDS = Path(__file__).parents[3] / "tests/vectors/cards/valid.json"


class Node:
    """Keeps what reaches the control socket's own methods."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.now = 0.0
        self.places = {("127.0.0.1", 8269), ("fc00::1", 8269)}
        self.page = PageRequests(self.answer, lambda: self.now, lambda: self.places)

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((method, params))
        return {"answer": method}

    def look(self, method: str, /, **params: object) -> Mapping[str, Any]:
        """Ask as the page's process does."""
        return asyncio.run(self.page.answer(method, params))

    def command(self, method: str, **params: object) -> Mapping[str, Any]:
        """Ask as the command line does."""

        async def asked() -> Mapping[str, Any]:
            given = {"addresses": ["127.0.0.1", "fc00:0::1"], "port": 8269} | params
            return await self.page.methods[method](given)

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


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"addresses": ["127.0.0.1", "::1"]}, "::1 port 8269"),
        ({"port": 8270}, "127.0.0.1, fc00::1 port 8270"),
        ({"port": None}, "127.0.0.1, fc00::1"),
    ],
)
def test_no_login_is_made_where_somebody_else_may_listen(node: Node, params: dict[str, object], named: str) -> None:
    with pytest.raises(ControlError, match="systemctl restart meshsec-page") as refused:
        node.command("page_login", **params)
    assert refused.value.code == "refused"
    assert named in str(refused.value)
    assert "ss -ltnp" in str(refused.value)


@pytest.mark.parametrize("addresses", [None, [], "127.0.0.1", ["localhost"], [{}]])
def test_where_the_page_is_to_be_must_be_said(node: Node, addresses: object) -> None:
    with pytest.raises(ControlError) as refused:
        node.command("page_login", addresses=addresses)
    assert refused.value.code == "bad_params"


def test_when_the_ports_are_given_up_all_logins_end(node: Node) -> None:
    session, token = node.log_in(), node.command("page_login")["token"]
    assert node.page.end_all() == 1
    with pytest.raises(ControlError, match="nobody is logged in"):
        node.look("change", session=session, method="peer_remove", params={"name": "boat"})
    with pytest.raises(ControlError, match="too old"):
        node.look("login", token=token)


def test_positions_are_for_a_session_that_holds_and_looking_does_not_prolong_it(node: Node) -> None:
    assert node.look("positions") == {"answer": "positions"}, "of this machine"
    session = node.log_in()
    for node.now in (0.0, SESSION_SECONDS / 2, SESSION_SECONDS - 1):
        assert node.look("positions", session=session) == {"answer": "positions"}
        assert node.look("session", session=session) == {}
    asked = list(node.asked)
    node.now = SESSION_SECONDS
    for bad, method in product((session, "", "x", 5, None), ("positions", "session")):
        with pytest.raises(ControlError) as refused:
            node.look(method, session=bad)
        assert refused.value.code in {"not_logged_in", "bad_params"}
    assert node.asked == asked
    node.look("positions", node="other")
    assert node.asked[-1] == ("positions", {}), "nothing else is passed on"

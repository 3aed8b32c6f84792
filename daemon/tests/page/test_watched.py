"""What the page's server answers to Prometheus and to readers of NetJSON."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from meshsec.adapters.sockets.control import ControlError
from meshsec.core.monitoring import metrics, netjson
from meshsec.page import feed, watched
from page.served import RECORDED, Answer, Served, serve
from page.test_web import assert_confined

COUNTERS = {"rules": {"clear_out": 5}, "guard": {}, "router": {"tcs_sent": 7}, "overlay": None}


def values(answer: Answer) -> dict[str, float]:
    """Return the samples without labels as Prometheus reads them."""
    assert answer.status == 200
    assert answer.headers["content-type"] == metrics.CONTENT_TYPE
    families = text_string_to_metric_families(answer.body.decode())
    return {one.name: one.value for family in families for one in family.samples if not one.labels}


def test_the_metrics_are_what_meshsecd_knows(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        served.meshsecd.answers["counters"] = COUNTERS
        answer = await served.ask("/metrics", accept_encoding="")
        found = values(answer)
        assert (found["meshsec_up"], found["olsrv2d_tcs_sent_total"]) == (1, 7)
        assert_confined(answer)

    serve(tmp_path, scenario)


def test_a_node_whose_meshsecd_is_away_is_down(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.control.close()
        assert values(await served.ask("/metrics")) == {"meshsec_up": 0}
        assert (await served.ask("/netjson")).status == 503

    serve(tmp_path, scenario)


def test_a_part_that_meshsecd_cannot_find_out_is_left_out(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        served.meshsecd.answers["doctor"] = ControlError("failed", "this node cannot be examined")
        served.meshsecd.answers["counters"] = COUNTERS
        answer = await served.ask("/metrics")
        assert values(answer)["meshsec_up"] == 1
        assert b"olsrv2d_tcs_sent_total" in answer.body
        assert b"meshsec_doctor_checks" not in answer.body

    serve(tmp_path, scenario)


def test_however_many_ask_meshsecd_is_asked_once_in_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        served.meshsecd.answers["counters"] = COUNTERS

        def times() -> int:
            return sum(method == "counters" for method, _ in served.meshsecd.asked)

        await asyncio.gather(*(served.ask("/metrics") for _ in range(8)))
        assert times() == 1
        monkeypatch.setattr(watched, "KEPT_SECONDS", 0.0)
        await served.ask("/metrics")
        assert times() == 2

    serve(tmp_path, scenario)


@pytest.mark.parametrize("away", [False, True], ids=["refused", "absent"])
@pytest.mark.parametrize("path", ["/netjson", "/metrics"])
def test_a_failure_is_kept_as_long_as_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, away: bool
) -> None:
    async def scenario(served: Served) -> None:
        served.meshsecd.answers |= {"status": ControlError("failed", "for the test"), "counters": COUNTERS}
        asked: list[str] = []
        ask = feed.Feed.ask

        async def counted(self: feed.Feed, method: str, params: Mapping[str, object]) -> dict[str, Any]:
            asked.append(method)
            return await ask(self, method, params)

        monkeypatch.setattr(feed.Feed, "ask", counted)
        if away:
            await served.control.close()
        answers = await asyncio.gather(*(served.ask(path) for _ in range(8)))
        first = [*asked]
        assert len(set(first)) == len(first) > 0, "each method was asked once"
        statuses = {answer.status for answer in answers}
        assert statuses == ({200} if path == "/metrics" else {503 if away else 502})
        monkeypatch.setattr(watched, "KEPT_SECONDS", 0.0)
        await served.ask(path)
        assert len(asked) > len(first)

    serve(tmp_path, scenario)


def test_the_graph_names_nodes_by_address_and_says_how_links_are_protected(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        found = (await served.ask("/netjson", accept_encoding="")).json
        assert found == netjson.network_graph(json.loads(RECORDED.read_text()), found["version"])
        labels = {one["id"]: one["label"] for one in found["nodes"]}
        kinds = {one["label"]: one["properties"]["kind"] for one in found["nodes"]}
        assert (kinds["a"], kinds["b"], kinds["d"]) == ("self", "peer", "peer")
        assert sorted(kinds.values()) == ["peer", "peer", "self", "stranger"]
        links = {frozenset((labels[one["source"]], labels[one["target"]])): one for one in found["links"]}
        assert links[frozenset("ab")]["properties"] == {"protection": "protected"}
        assert links[frozenset("ab")]["cost"] > 0
        assert [one["properties"]["protection"] for one in links.values()].count("stranger") == 2

    serve(tmp_path, scenario)


def test_a_node_has_both_its_addresses() -> None:
    answers: dict[str, Any] = json.loads(RECORDED.read_text())
    nodes = {one["label"]: one for one in netjson.network_graph(answers, "0.1.0")["nodes"]}
    node = answers["status"]["node"]
    assert nodes["a"]["local_addresses"] == [node["address"], node["ipv4"]]
    (stranger,) = [one for one in nodes.values() if one["properties"]["kind"] == "stranger"]
    assert stranger["local_addresses"] == [stranger["id"]]


def test_a_link_says_whether_both_ends_have_signed_it_where_signatures_are_looked_at() -> None:
    answers = json.loads(RECORDED.read_text())
    topology = answers["topology"]
    plain = netjson.network_graph(answers, "0.1.0")["links"]
    assert not any("confirmed" in one["properties"] for one in plain)
    topology["neighbours"] = [{**one, "signs": True} for one in topology["neighbours"]]
    topology["edges"] = [{**one, "confirmed": False} for one in topology["edges"]]
    links = netjson.network_graph(answers, "0.1.0")["links"]
    confirmed = [one["properties"]["confirmed"] for one in links]
    assert confirmed.count(True) == 1, "the link to the neighbour that signs"
    assert len(confirmed) == len(plain) > 1

"""``monitor`` prints what meshsecd answers, and says what it is without an answer."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from prometheus_client.parser import text_string_to_metric_families

from cli.answering import answering
from meshsec.adapters.sockets.control import ControlError
from meshsec.core.monitoring import metrics, netjson

Meshsec = Callable[..., Result]
RECORDED = Path(__file__).parents[3] / "tests/vectors/page/answers.json"


def values(result: Result) -> dict[str, float]:
    """Return the samples without labels as Prometheus reads them."""
    assert result.exit_code == 0
    families = text_string_to_metric_families(result.output)
    return {one.name: one.value for family in families for one in family.samples if not one.labels}


class Meshsecd:
    """Answers from the record; a method in ``refused`` cannot be answered now."""

    def __init__(self, *refused: str) -> None:
        self._answers: dict[str, Any] = json.loads(RECORDED.read_text())
        self._answers |= {
            "ping": {},
            "counters": {"rules": {"clear_out": 5}, "guard": {}, "router": {}, "overlay": None},
        }
        self._refused = refused
        self.asked: list[str] = []

    def __call__(self, method: str, _params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append(method)
        if method in self._refused:
            raise ControlError("failed", "for the test")
        found: Mapping[str, Any] = self._answers[method]
        return found


def test_the_metrics_are_those_of_what_meshsecd_answers(meshsec: Meshsec, tmp_path: Path) -> None:
    meshsecd = Meshsecd()
    with answering(tmp_path / "a/run/control.sock", meshsecd):
        result = meshsec("monitor", "prometheus")
    assert values(result)["meshsec_up"] == 1
    assert "meshsec_doctor_checks" in result.output
    assert meshsecd.asked == ["ping", *metrics.METHODS]


@pytest.mark.parametrize("refused", [method for method in metrics.METHODS if method != "status"])
def test_a_part_that_meshsecd_cannot_find_out_is_left_out(meshsec: Meshsec, tmp_path: Path, refused: str) -> None:
    meshsecd = Meshsecd(refused)
    with answering(tmp_path / "a/run/control.sock", meshsecd):
        found = values(meshsec("monitor", "prometheus"))
    assert found["meshsec_up"] == 1
    assert meshsecd.asked == ["ping", *metrics.METHODS], "the others are asked all the same"


@pytest.mark.parametrize("refused", ["ping", "status"])
def test_a_node_that_does_not_say_how_it_is_is_down(meshsec: Meshsec, tmp_path: Path, refused: str) -> None:
    meshsecd = Meshsecd(refused)
    with answering(tmp_path / "a/run/control.sock", meshsecd):
        assert values(meshsec("monitor", "prometheus")) == {"meshsec_up": 0}
    assert meshsecd.asked == (["ping"] if refused == "ping" else ["ping", *metrics.METHODS])


def test_a_node_without_meshsecd_is_down_and_has_no_graph(meshsec: Meshsec) -> None:
    assert values(meshsec("monitor", "prometheus")) == {"meshsec_up": 0}
    result = meshsec("monitor", "netjson")
    assert result.exit_code == 1
    assert "meshsecd" in result.output


def test_the_graph_is_that_of_what_meshsecd_answers(meshsec: Meshsec, tmp_path: Path) -> None:
    with answering(tmp_path / "a/run/control.sock", Meshsecd()):
        found = json.loads(meshsec("monitor", "netjson").output)
    assert found == netjson.network_graph(json.loads(RECORDED.read_text()), found["version"])
    with answering(tmp_path / "a/run/control.sock", Meshsecd("topology")):
        assert meshsec("monitor", "netjson").exit_code == 1

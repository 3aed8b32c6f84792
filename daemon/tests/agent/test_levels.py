"""What the agent tells the engine of threat, place and second secret (ADR 0091)."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import jsonschema
import pytest

from core.world import Driver, card, ike_sa, route
from meshsec.adapters.files import second_secret_store, threat_store
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.level_requests import LevelMethods
from meshsec.agent.sides.levels import BY_OPERATOR, POSITION_AGE, THREAT, LevelsSide, Uses
from meshsec.cli.threat import unable_lines
from meshsec.core.channels.events import RouteSet, SasObserved, SurroundingsSet
from meshsec.core.policy.policy import Policy, decode_policy
from meshsec.core.positions.positions import Position
from meshsec.core.trust import second_secret

if TYPE_CHECKING:
    from meshsec.agent.control.sides import Sides

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/reference/schema/meshsec-threat-1.json").read_text())
CIRCLE = {"latitude": 0.0, "longitude": 0.0, "radius": 1000.0}
LEVELS = decode_policy(
    {
        "levels": [{"name": "strong", "second_secret": True}, {"name": "card"}],
        "level_rules": [{"level": "strong", "threat": True}, {"level": "strong", "outside": [CIRCLE]}],
    }
)
SECRET = bytes(32)


class World:
    """A node with a peer n5, and what its other sides say."""

    def __init__(self, directory: Path, policy: Policy = LEVELS) -> None:
        self.directory = directory
        self.driver = Driver(1, policy)
        self.driver.ready(5)
        self.said: list[SurroundingsSet] = []
        self.place: Position | None = Position(0.0, 0.0)
        self.doubled = [card(9)]
        self.ages: list[float] = []
        uses = Uses(self.said.append, self._position, lambda one: one in self.doubled)
        self.side = LevelsSide(directory / "node.key", self.driver.engine.known, uses)

    def _position(self, age: float) -> Position | None:
        self.ages.append(age)
        return self.place

    def look(self) -> list[SurroundingsSet]:
        """Return what the side tells the engine at one look."""
        self.said.clear()
        asyncio.run(self.side.follow())
        return list(self.said)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    event = asyncio.run(made.side.load())
    made.driver.tell(event)
    first = event.around
    assert (first.threat, first.mark, first.position) == ("", b"", made.place)
    assert made.ages == [POSITION_AGE]
    return made


def test_the_operators_word_is_kept_and_told_once(world: World, tmp_path: Path) -> None:
    asyncio.run(world.side.say(high=True))
    assert [one.around.threat for one in world.said] == [BY_OPERATOR]
    assert world.look() == []
    again = World(tmp_path)
    assert asyncio.run(again.side.load()).around.threat == BY_OPERATOR
    asyncio.run(again.side.say(high=False))
    assert [one.around.threat for one in again.said] == [""]


def test_a_copied_key_raises_the_threat_for_as_long_as_the_proof_counts(world: World) -> None:
    world.doubled = [card(5)]
    (told,) = world.look()
    assert told.around.threat == "two nodes have the key of n5"
    world.doubled = [card(9)]
    (told,) = world.look()
    assert told.around.threat == ""


def test_a_step_is_no_event_and_leaving_a_circle_is(world: World) -> None:
    world.place = Position(0.001, 0.0)
    assert world.look() == []
    world.place = Position(0.1, 0.0)
    (told,) = world.look()
    assert told.around.position == world.place
    world.place = None
    (told,) = world.look()
    assert told.around.position is None


def test_the_second_secret_is_followed(world: World, tmp_path: Path) -> None:
    path = tmp_path / second_secret_store.NAME
    second_secret_store.save(path, SECRET)
    (told,) = world.look()
    assert told.around.mark == second_secret.mark(SECRET)
    assert SECRET not in told.around.mark
    path.chmod(0o644)
    (told,) = world.look()
    assert told.around.mark == b"", "others may know it"
    assert "chmod 600" in world.side.problem
    assert [(one.found, one.fix) for one in world.side.checks()] == [(world.side.problem, "meshsec secret set FILE")]
    path.chmod(0o600)
    world.look()
    assert world.side.problem == ""
    assert world.side.checks() == []


def test_an_operators_word_that_cannot_be_read_counts_as_high(world: World, tmp_path: Path) -> None:
    (tmp_path / THREAT).write_text("perhaps")
    (told,) = world.look()
    assert told.around.threat
    assert "meshsec threat normal" in world.side.problem
    assert [one.fix for one in world.side.checks()] == ["meshsec threat normal"]


def test_doctor_names_the_peers_without_their_level_and_the_command(world: World) -> None:
    asyncio.run(world.side.say(high=True))
    world.driver.tell(*world.said)
    (check,) = world.side.checks()
    assert "no SA with n5" in check.found
    assert "meshsec secret set" in check.fix
    assert check.level == "fail"


def test_doctor_warns_of_rules_about_nobody(tmp_path: Path) -> None:
    rules = [{"level": "strong", "peers": ["n5", "n6"]}, {"level": "strong", "fleets": ["alpha"]}]
    table = {"levels": [{"name": "strong", "ike_rekey_time": 600}, {"name": "card"}], "level_rules": rules}
    made = World(tmp_path, decode_policy(table))
    (check,) = made.side.checks()
    assert "the peer n6, the fleet alpha" in check.found
    assert "n5" not in check.found


def test_without_levels_nothing_is_read(tmp_path: Path) -> None:
    made = World(tmp_path, Policy())
    asyncio.run(made.side.load())
    (tmp_path / THREAT).write_text("perhaps")
    assert made.look() == []
    asyncio.run(asyncio.wait_for(made.side.run(), 5))
    assert made.ages == []


def asked(world: World, **params: str) -> Mapping[str, Any]:
    """Return the answer of the control socket's method about the threat."""
    uses = Uses(
        lambda event: world.driver.engine.handle(world.driver.now, event), lambda _: world.place, lambda _: False
    )
    side = LevelsSide(world.directory / "node.key", world.driver.engine.known, uses)
    sides = cast("Sides", SimpleNamespace(driver=world.driver, levels=side))
    answer: Mapping[str, Any] = asyncio.run(LevelMethods(sides).methods["threat"](params))  # type: ignore[arg-type]
    jsonschema.validate(answer, SCHEMA)
    return answer


def test_a_high_threat_names_the_peers_that_lose_their_sa_and_the_command(world: World) -> None:
    world.driver.tell(RouteSet(route(5)), SasObserved("n5", (ike_sa("n5", remote_id=card(5).address),)))
    assert asked(world)["unable"] == []
    answer = asked(world, threat="high")
    assert (answer["threat"], answer["why"]) == ("high", BY_OPERATOR)
    ((peer, ends, why),) = [one.values() for one in answer["unable"]]
    assert (peer, ends) == ("n5", True)
    (line,) = unable_lines(answer["unable"])
    assert line == f"Peers that lose their SA within half a minute: n5. {why}"
    assert "`meshsec secret set`" in line
    assert asked(world, threat="normal")["unable"] == []


def test_a_word_about_the_threat_can_be_taken_back_when_no_rule_asks_about_it_any_more(tmp_path: Path) -> None:
    calm = World(tmp_path, decode_policy({"levels": [{"name": "card"}]}))
    with pytest.raises(ControlError, match="no rule in force asks about the threat"):
        asked(calm, threat="high")
    assert not (tmp_path / THREAT).exists()
    threat_store.save(tmp_path / THREAT, high=True)
    assert asked(calm, threat="normal")["threat"] == "normal"
    assert not (tmp_path / THREAT).exists()

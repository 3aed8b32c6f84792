"""The driver decides once on a burst of events, answers each action once, fires timers, and hides no fault of ours."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from meshsec.agent.driver import Driver
from meshsec.core.channels.actions import Action, LoadKey, Terminate, UnloadConnection
from meshsec.core.channels.events import ActionDone, Event, RouterDown
from meshsec.core.values.failures import Cause


class Script:
    """Stands in for the engine: it gives the queued actions and keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.actions: list[Action] = []
        self.due: float | None = None
        self.polls = 0
        self.timeouts: list[float] = []
        self.closed = True

    def handle(self, _now: float, event: Event) -> None:
        self.events.append(event)

    def handle_timeout(self, now: float) -> None:
        self.timeouts.append(now)
        self.due = None

    @property
    def known(self) -> "Script":
        return self

    @property
    def rules(self) -> "Script":
        return self

    def met(self) -> bool:
        return self.closed

    def poll_timeout(self) -> float | None:
        return self.due

    def poll_actions(self) -> list[Action]:
        self.polls += 1
        actions, self.actions = self.actions, []
        return actions


CarryOut = Callable[[Action], Coroutine[Any, Any, Cause | None]]
Scenario = Callable[[Driver, Script], Coroutine[Any, Any, None]]


async def succeed(_action: Action) -> None:
    pass


def drive(scenario: Scenario, carry_out: CarryOut = succeed) -> Script:
    script = Script()

    async def run() -> None:
        async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
            engine: Any = script
            driver = Driver(engine, carry_out, lambda: None, tasks.create_task)
            await scenario(driver, script)
            driver.close()

    asyncio.run(run())
    return script


async def rounds() -> None:
    """Let the event loop go round a few times."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_burst_of_events_is_decided_on_once() -> None:
    async def scenario(driver: Driver, script: Script) -> None:
        for number in range(100):
            driver.post(RouterDown(str(number)))
        assert len(script.events) == 100, "the engine hears at once"
        assert script.polls == 0
        await rounds()
        assert script.polls == 1

    drive(scenario)


def test_the_start_waits_until_the_rules_are_in_force() -> None:
    async def scenario(driver: Driver, script: Script) -> None:
        script.closed = False
        waiting = asyncio.ensure_future(driver.rules_in_force(60))
        driver.post(RouterDown("a turn that changes nothing of the rules"))
        await rounds()
        assert not waiting.done()
        script.closed = True
        driver.post(RouterDown("the turn after the rules were set"))
        assert await waiting
        script.closed = False
        assert not await driver.rules_in_force(0.01), "that takes too long"

    drive(scenario)


def test_each_action_is_carried_out_and_answered_with_its_reason() -> None:
    async def fail(_action: Action) -> Cause | None:
        return Cause("no charon")

    async def scenario(driver: Driver, script: Script) -> None:
        script.actions = [LoadKey(), UnloadConnection("boat")]
        driver.post(RouterDown("go"))
        await rounds()

    for carry_out, cause in ((succeed, None), (fail, Cause("no charon"))):
        script = drive(scenario, carry_out)
        answers = [event for event in script.events if isinstance(event, ActionDone)]
        assert answers == [ActionDone(LoadKey(), cause), ActionDone(UnloadConnection("boat"), cause)]


def test_a_slow_action_holds_up_no_other() -> None:
    release = asyncio.Event()

    async def slow_key(action: Action) -> Cause | None:
        if isinstance(action, LoadKey):
            await release.wait()
        return None

    async def scenario(driver: Driver, script: Script) -> None:
        script.actions = [LoadKey(), UnloadConnection("boat")]
        driver.post(RouterDown("go"))
        await rounds()
        assert script.events[1:] == [ActionDone(UnloadConnection("boat"))]
        release.set()
        await rounds()
        assert ActionDone(LoadKey()) in script.events

    drive(scenario, slow_key)


def test_the_engines_timer_fires_when_it_is_due_and_not_before() -> None:
    async def scenario(driver: Driver, script: Script) -> None:
        due = script.due = driver.now + 0.05
        driver.post(RouterDown("go"))
        await rounds()
        assert script.timeouts == []
        async with asyncio.timeout(60):
            while not script.timeouts:  # noqa: ASYNC110  (the engine tells nobody)
                await asyncio.sleep(0.005)
        (fired,) = script.timeouts
        assert due <= fired

    drive(scenario)


def test_an_unexpected_exception_ends_the_daemon() -> None:
    async def broken(_action: Action) -> Cause | None:
        raise RuntimeError("a fault")

    async def scenario(driver: Driver, script: Script) -> None:
        script.actions = [LoadKey()]
        driver.post(RouterDown("go"))
        await asyncio.sleep(60)

    with pytest.raises(ExceptionGroup) as raised:
        drive(scenario, broken)
    assert raised.group_contains(RuntimeError, match="a fault")


def test_nothing_is_started_after_the_end() -> None:
    async def scenario(driver: Driver, script: Script) -> None:
        driver.close()
        script.actions = [LoadKey()]
        driver.post(RouterDown("go"))
        await rounds()
        assert script.polls == 0

    drive(scenario)


def test_actions_are_named_in_the_log() -> None:
    assert str(UnloadConnection("boat").label) == "unload connection boat"
    assert str(Terminate("7", "boat", "no route for the hold time").label) == "terminate boat (IKE_SA 7)"
    assert str(LoadKey().label) == "load key"

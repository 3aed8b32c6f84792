"""The RTS threshold of one membership: what is set, what is left alone, and what is said about it."""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.files import rts_note
from meshsec.adapters.radio.nl80211 import Nl80211Error
from meshsec.core.config.radio_settings import RadioSettings, RtsThreshold, Security
from meshsec.core.radio.observed import RTS_OFF, Observed, Phy
from meshsec.core.radio.rts_evidence import Station
from meshsec.core.radio.steps import SetRtsThreshold, SetTxPower, Step
from meshsec.radio.keeper import Keeper
from meshsec.radio.rts import MeasuredThreshold

WISH = RadioSettings("rescue", 2412, Security.OPEN, rts_threshold=RtsThreshold.MEASURED)
MANY = 2000
"""Long frames in each interval."""


@dataclass
class Kernel:
    """A radio whose long frames are lost to a hidden node unless they ask first."""

    error: int = 0
    deaf: bool = False
    """Whether it takes a threshold and keeps its own."""
    threshold: int = RTS_OFF
    calls: list[int] = field(default_factory=list)
    _counted: Station = field(default_factory=lambda: Station(rate=12.0))

    async def stations(self, _index: int) -> dict[str, Station]:
        """Return the counters, after one more interval."""
        lost = MANY if self.threshold == RTS_OFF else 0
        one = self._counted
        self._counted = replace(
            one, frames=one.frames + MANY, octets=one.octets + 1400 * MANY, retries=one.retries + lost
        )
        return {"02:00:00:00:01:00": self._counted}

    async def set_rts_threshold(self, _phy: int, octets: int) -> None:
        """Set it, or refuse."""
        self.calls.append(octets)
        if self.error:
            raise Nl80211Error(self.error, "RTS threshold: not supported")
        if not self.deaf:
            self.threshold = octets

    async def phy(self, index: int) -> Phy:
        """Return the radio."""
        return Phy(index, "phy0", rts_threshold=self.threshold)


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., MeasuredThreshold]:
    """Return a function that follows a kernel for some intervals, without their time."""
    monkeypatch.setattr(rts_note, "_DIRECTORY", str(tmp_path / "{}"))
    (tmp_path / "mesh0").mkdir()

    def run(kernel: Any, intervals: int, wish: RadioSettings = WISH) -> MeasuredThreshold:
        made = MeasuredThreshold("mesh0", wish, tmp_path / "mesh0")

        async def turns() -> None:
            loop = asyncio.get_running_loop()
            clock = [0.0]
            monkeypatch.setattr(loop, "time", lambda: clock[0])
            for _ in range(intervals):
                clock[0] += min(made.wait, 10.0)
                await made.turn(kernel, 7, 0)

        asyncio.run(turns())
        return made

    return run


def test_what_helps_is_set_and_said(follow: Callable[..., MeasuredThreshold]) -> None:
    kernel = Kernel()
    made = follow(kernel, 14)
    assert kernel.threshold == 0
    assert "measured: off delivers" in rts_note.read("mesh0")
    made.end()
    assert rts_note.read("mesh0") == ""


@pytest.mark.parametrize("wish", [None, RtsThreshold.OFF, 500])
def test_nothing_is_measured_that_was_not_asked_for(follow: Callable[..., MeasuredThreshold], wish: Any) -> None:
    kernel = Kernel()
    made = follow(kernel, 40, RadioSettings("rescue", 2412, Security.OPEN, rts_threshold=wish))
    assert kernel.calls == []
    assert made.wait == float("inf")
    assert rts_note.read("mesh0") == ""


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Kernel(error=errno.EOPNOTSUPP), "the driver takes no RTS threshold (RTS threshold: not supported)"),
        (Kernel(deaf=True), "the driver keeps the RTS threshold off when 0 is set"),
    ],
)
def test_a_driver_without_rts_is_asked_once_and_left_alone(
    follow: Callable[..., MeasuredThreshold], caplog: pytest.LogCaptureFixture, kernel: Kernel, words: str
) -> None:
    with caplog.at_level(logging.WARNING):
        made = follow(kernel, 200)
    assert kernel.calls == [0]
    assert [words in record.message for record in caplog.records] == [True]
    assert rts_note.read("mesh0").startswith("not measured: ")
    assert made.wait == float("inf")


def test_a_driver_without_counters_is_asked_once(follow: Callable[..., MeasuredThreshold]) -> None:
    asked = []

    class Dull(Kernel):
        async def stations(self, _index: int) -> dict[str, Station]:
            asked.append(True)
            raise Nl80211Error(errno.EOPNOTSUPP, "GET_STATION: not supported")

    follow(Dull(), 50)
    assert len(asked) == 1
    assert (
        rts_note.read("mesh0") == "not measured: the driver has no counters of neighbours (GET_STATION: not supported)"
    )


def test_a_reading_that_fails_is_the_keepers_matter(follow: Callable[..., MeasuredThreshold]) -> None:
    class Gone(Kernel):
        async def stations(self, _index: int) -> dict[str, Station]:
            raise Nl80211Error(errno.ENODEV, "gone")

    with pytest.raises(Nl80211Error):
        follow(Gone(), 1)


def test_a_trial_ends_as_it_should_before_anything_is_kept(follow: Callable[..., MeasuredThreshold]) -> None:
    kernel = Kernel()
    follow(kernel, 13)
    assert kernel.calls == [0, RTS_OFF, 0, RTS_OFF, 0]  # present, other, other, present, ..., and then kept


@pytest.mark.parametrize("content", [b"\xff\xfe", b"measured: \x1b[2J", b"measured: " + b"x" * 2000, b"a secret"])
def test_a_line_that_no_person_could_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(rts_note, "_DIRECTORY", str(tmp_path / "{}"))
    (tmp_path / "mesh0").mkdir()
    (tmp_path / "mesh0" / rts_note.NAME).write_bytes(content)
    assert rts_note.read("mesh0") == ""


@pytest.mark.parametrize(
    ("step", "error", "carried_out"),
    [
        (SetRtsThreshold(500), errno.EOPNOTSUPP, False),
        (SetRtsThreshold(500), 524, False),
        (SetRtsThreshold(500), 0, True),
        (SetRtsThreshold(500), errno.EPERM, None),
        (SetTxPower(10), errno.EOPNOTSUPP, None),
    ],
)
def test_a_driver_without_rts_still_joins_and_no_other_refusal_is_forgiven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step, error: int, carried_out: bool | None
) -> None:
    keeper = Keeper("mesh0", WISH, tmp_path)

    async def refuse(*_: object) -> None:
        if error:
            raise Nl80211Error(error, "not supported")

    monkeypatch.setattr(keeper, "_carry_out", refuse)
    done = keeper._carried_out(Kernel(), Observed("mesh0"), step)  # type: ignore[arg-type]
    if carried_out is None:
        with pytest.raises(Nl80211Error):
            asyncio.run(done)
    else:
        assert asyncio.run(done) is carried_out
    keeper.close()

"""A key must be held, and running time without a touch adds up whatever clocks and restarts do."""

import re
from pathlib import Path

import pytest

from meshsec.core.config.zeroize_settings import ZeroizeSettings
from meshsec.core.values.definition import Reading
from meshsec.core.zeroize.dead_man import SAVED_EVERY, Untouched, resumed, touched
from meshsec.core.zeroize.keys import CODES, HeldKey

HEADER = Path("/usr/include/linux/input-event-codes.h")
F12 = CODES["KEY_F12"]


@pytest.mark.skipif(not HEADER.exists(), reason="linux-libc-dev is not installed")
def test_the_codes_are_the_kernels() -> None:
    defined = re.findall(r"^#define\s+((?:KEY|BTN)_\w+)\s+(0x[0-9a-f]+|\d+)", HEADER.read_text(), re.MULTILINE)
    kernels = {name: int(code, 0) for name, code in defined}
    assert {name: kernels.get(name) for name in CODES} == CODES


def test_a_key_must_be_held_for_so_long() -> None:
    held = HeldKey(F12, 3.0)
    assert held.left(0.0) is None
    held.handle(F12, 1, 10.0)
    for repetition in (11.0, 12.0):
        held.handle(F12, 2, repetition)
    assert (held.left(11.0), held.left(13.0), held.left(20.0)) == (2.0, 0.0, 0.0)


def test_a_key_that_is_released_or_another_one_counts_nothing() -> None:
    held = HeldKey(F12, 3.0)
    held.handle(CODES["KEY_F11"], 1, 0.0)
    assert held.left(9.0) is None
    held.handle(F12, 1, 10.0)
    held.handle(F12, 0, 12.9)
    assert held.left(20.0) is None
    held.handle(F12, 1, 21.0)
    assert held.left(21.0) == 3.0


def test_running_time_adds_up_and_a_touch_ends_it() -> None:
    state = touched("boot", 100.0)
    assert state.seconds(700.0) == 600.0
    assert state.marked(700.0).seconds(800.0) == 700.0
    assert touched("boot", 800.0).seconds(801.0) == 1.0
    assert state.seconds(0.0) == 0.0, "a clock that went back"


def test_a_restart_of_the_unit_costs_nothing_and_one_of_the_machine_some_minutes() -> None:
    kept = Untouched(1000.0, "boot", 50.0)
    assert resumed(kept, "boot", 70.0).seconds(70.0) == 1020.0
    assert resumed(kept, "next", 70.0).seconds(70.0) == 1000.0 + SAVED_EVERY + 70.0
    assert resumed(None, "boot", 70.0).seconds(80.0) == 10.0


def test_switching_it_off_and_on_saves_nothing() -> None:
    state, limit = touched("0", 0.0), 24 * 3600.0
    boots = 0
    while state.seconds(30.0) < limit:
        boots += 1
        state = resumed(state, str(boots), 30.0)
    assert boots <= limit / SAVED_EVERY


def read(**table: object) -> tuple[ZeroizeSettings, list[str]]:
    reading = Reading("/")
    return reading.table(ZeroizeSettings, table), [str(problem) for problem in reading.problems]


def test_keys_have_names_or_numbers() -> None:
    assert read(key="KEY_F12")[0].key == F12
    assert read(key=704)[0].key == 704
    assert not read()[0].watches
    assert read(dead_man_h=1)[0].watches


@pytest.mark.parametrize("value", ["F12", "", 0, 768, True, 1.5])
def test_another_key_is_refused_with_what_is_allowed(value: object) -> None:
    assert "a name such as 'KEY_WPS_BUTTON' or 'KEY_F12', or a code from 1 to 767" in read(key=value)[1][0]

"""Finding why a symbol did not take."""

import pytest

from kernelconfig.dependencies import entries, selectors, unmet
from kernelconfig.syntax import Configuration

KCONFIG = """\
menu "Radio"
	depends on NET

if WIRELESS # comment
config MESH
	tristate "mesh"
	depends on MAC && (PCI || USB && !SLOW) && \\
		!OLD
	depends on $(cc-option,-mfoo)
	select CRYPTO if BAR
	help
		Say y. This
		depends on nothing that stands here.
endif

endmenu

config OTHER
	bool
	select MESH
	depends on SPEED = "fast" && LEVEL != 3
"""
DEFINITIONS = entries(KCONFIG)


def _unmet(symbol: str, **values: str) -> list[str]:
    return unmet(symbol, DEFINITIONS, Configuration(values, ""))


def test_a_symbol_whose_conditions_are_met_has_no_cause() -> None:
    assert _unmet("MESH", NET="y", WIRELESS="y", MAC="m", USB="m") == []
    assert _unmet("OTHER", SPEED='"fast"', LEVEL="2") == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"WIRELESS": "y", "MAC": "m", "USB": "m"}, ["NET"]),
        ({"NET": "y", "MAC": "m", "USB": "m"}, ["WIRELESS"]),
        ({"NET": "y", "WIRELESS": "y", "USB": "m"}, ["MAC"]),
        ({"NET": "y", "WIRELESS": "y", "MAC": "m"}, ["(PCI || USB && !SLOW)"]),
        ({"NET": "y", "WIRELESS": "y", "MAC": "m", "PCI": "y", "OLD": "y"}, ["!OLD"]),
    ],
)
def test_a_failing_condition_is_named_also_that_of_an_enclosing_block(values: dict[str, str], told: list[str]) -> None:
    assert _unmet("MESH", **values) == told


def test_comparisons_are_evaluated() -> None:
    assert _unmet("OTHER", SPEED='"slow"', LEVEL="3") == ['SPEED="fast"', "LEVEL != 3"]


def test_a_symbol_that_is_selected_names_who_selects_it() -> None:
    assert selectors("MESH", DEFINITIONS, Configuration({"OTHER": "y"}, "")) == ["OTHER"]
    assert selectors("MESH", DEFINITIONS, Configuration({}, "")) == []
    assert selectors("CRYPTO", DEFINITIONS, Configuration({"MESH": "m"}, "")) == ["MESH"]


@pytest.mark.parametrize(
    "text", ["endif\nendmenu\n", "config\n", "if\n", "config A\n depends on (((\n", "config A\n depends on A &&\n"]
)
def test_malformed_kconfig_is_read_as_far_as_possible(text: str) -> None:
    unmet("A", entries(text), Configuration({}, ""))

"""`kernelconfig dissect` on the drivers of Debian's kernel: nothing is guessed, and nothing is left over."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.lab.basics.places import REPOSITORY
from tests.lab.machines import guest
from tests.lab.machines.guest_kernel import Kernel

SCHEMA = REPOSITORY / "docs/reference/schema/kernel-dissect-1.json"


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """Return Debian's ordinary kernel, unpacked."""
    if obstacle := guest.obstacle():
        pytest.skip(obstacle)
    return guest.prepare().kernel("generic")


@pytest.fixture(scope="module")
def modules(kernel: Kernel) -> dict[str, Any]:
    """Dissect all drivers of radios, and what is above them."""
    directory = kernel.modules / kernel.release / "kernel"
    files = [
        *directory.glob("drivers/net/wireless/**/*.ko.xz"),
        directory / "net/mac80211/mac80211.ko.xz",
        directory / "net/wireless/cfg80211.ko.xz",
    ]
    content = json.loads(_dissect("--json", "--config", kernel.tree / f"boot/config-{kernel.release}", *files))
    jsonschema.validate(content, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return {module["name"]: module for module in content["modules"]}


def _dissect(*arguments: str | Path) -> str:
    argv = [sys.executable, "-m", "kernelconfig", "dissect", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "kernel-config")}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=240, check=True).stdout


def test_every_symbol_has_a_provider_and_a_subsystem(modules: dict[str, Any]) -> None:
    assert len(modules) > 100
    assert all("vmlinuz-" in module["providers"] for module in modules.values()), "read from the kernel's image"
    needs = [need for module in modules.values() for need in module["needs"]]
    assert not {need["symbol"] for need in needs if need["provider"] in {"", "unknown"}}
    assert not {need["symbol"] for need in needs if need["subsystem"] == "other"}


def test_modules_that_give_symbols_are_those_that_modpost_and_depmod_found(modules: dict[str, Any]) -> None:
    for name, module in modules.items():
        providers = {need["provider"] for need in module["needs"]} - {"vmlinux"}
        (depends,) = module["info"]["depends"]
        assert providers == set(depends.replace("-", "_").split(",")) - {""}, name
        assert providers <= set(module["needed_modules"]), name


def test_debians_configuration_has_what_its_drivers_need(modules: dict[str, Any]) -> None:
    """The negative case is our own kernel, which leaves Intel's drivers out."""
    for module in modules.values():
        assert not [option for option in module["options"] if option["missing"]]
    left_out = {option["symbol"] for option in modules["iwlmvm"]["options"] if option["state"] == "off"}
    assert "WLAN_VENDOR_INTEL" in left_out


def test_b43_is_close_to_the_dissertations(kernel: Kernel) -> None:
    """Eleven years lie between them: what is counted the same way is within a third."""
    (path,) = (kernel.modules / kernel.release).rglob("b43.ko.xz")
    rows = json.loads(_dissect("--json", "--paper", path))["dissertation"]
    ours = {row["what"]: (row["value"], row["ours"]) for row in rows}
    for what in ("lines of objdump -t", "global symbols", "global functions", "functions in /proc/kallsyms",
                 "lines of nm -g", "undefined symbols, all", "lines of assembly code", "calls in it", "SSB",
                 "global data (EDO) in .rodata", "KSC: the rest of the kernel"):  # fmt: skip
        theirs, found = ours[what]
        assert theirs * 2 / 3 <= found <= theirs * 4 / 3, what
    assert ours["LED"] == (2, 2)
    assert ours["symbols that it exports (EXPORT_SYMBOL)"] == (0, 0)
    parts = [row["ours"] for row in rows if row["place"] == "Figure 6"]
    assert sum(parts[1:]) == parts[0]

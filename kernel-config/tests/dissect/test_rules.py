"""The rules that are data: they name what there is, and the first that fits counts; the tracer's filter."""

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kernelconfig import syntax
from kernelconfig.__main__ import main
from kernelconfig.dissect import ftrace, grouping, reading

ROOT = Path(__file__).parents[3]
RULES = grouping.parse((Path(reading.__file__).parent / "subsystems.toml").read_text(encoding="utf-8"))


def test_every_option_is_one_of_debians_kernel() -> None:
    """A name that Kconfig does not know would never be missed in any configuration."""
    packed = ROOT / "tests/vectors/kernel/config-6.12.117+deb13-rt-amd64.gz"
    lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
    known = {found[0] for line in lines if (found := syntax.assignment(line))}
    named = {option for options in RULES.modules.values() for option in options}
    named |= {option for rule in RULES.subsystems for option in rule.options}
    assert named
    assert not named - known


@pytest.mark.parametrize(
    ("symbol", "provider", "subsystem"),
    [
        ("ieee80211_hdrlen", "cfg80211", "cfg80211"),
        ("ieee80211_hdrlen", "mac80211", "mac80211"),
        ("ieee80211_hdrlen", "", "mac80211"),
        ("cordic_calc_iq", "cordic", "library"),
        ("mt76_register_device", "mt76", "own family"),
        ("iwl_trans_init", "iwlwifi", "own family"),
        ("kfree", "an_odd_one", "module an_odd_one"),
        ("kfree", "vmlinux", "memory"),
        ("kvfree_call_rcu", "vmlinux", "locking"),
        ("_raw_spin_lock_irq", "vmlinux", "locking"),
        ("synchronize_irq", "vmlinux", "interrupts"),
        ("synchronize_net", "vmlinux", "netdev"),
        ("sg_init_table", "vmlinux", "dma"),
        ("memcpy_toio", "vmlinux", "memory"),
        ("memcpy", "vmlinux", "library"),
        ("devm_request_threaded_irq", "vmlinux", "interrupts"),
        ("usb_submit_urb", "usbcore", "usb"),
        ("nobody_knows_this", "vmlinux", "other"),
        ("nobody_knows_this", "unknown", "other"),
    ],
)
def test_a_symbol_belongs_to_the_first_rule_that_fits(symbol: str, provider: str, subsystem: str) -> None:
    assert RULES.subsystem(symbol, provider) == subsystem


def test_names_of_subsystems_are_not_those_of_other_modules() -> None:
    """An option of a subsystem is looked up by the same names as those of modules."""
    names = [rule.name for rule in RULES.subsystems]
    assert len(names) == len(set(names))
    assert grouping.OTHER not in names


def test_the_dissertations_table_of_figure_6_is_complete() -> None:
    """Its parts are all of the undefined symbols, as in the dissertation: 127."""
    rows = tomllib.loads(reading.DISSERTATION.read_text(encoding="utf-8"))["row"]
    parts = {row["what"]: row["value"] for row in rows if row["place"] == "Figure 6"}
    whole = parts.pop("undefined symbols, all")
    assert sum(parts.values()) == whole == 127
    values = {row["what"]: row["value"] for row in rows}
    assert values["lines of nm -g"] == values["global symbols"] + whole
    data = [row["value"] for row in rows if row["what"].startswith("global data")]
    assert values["global symbols"] - values["global functions"] == sum(data) == 48


def test_ours_stands_beside_the_dissertations(driver: Any) -> None:
    arguments = ["dissect", "--json", "--paper", "--kernel", str(driver.kernel), str(driver.module)]
    rows = json.loads(CliRunner().invoke(main, arguments).stdout)["dissertation"]
    ours = {row["what"]: row["ours"] for row in rows}
    assert ours["functions in the source"] == 3
    assert ours["undefined symbols, all"] == 5
    assert (ours["DMA"], ours["IEEE802.11 (mac80211 and cfg80211)"], ours["KSC: the rest of the kernel"]) == (1, 1, 3)
    assert ours["calls in it"] == 8
    assert ours["lines of assembly code"] >= 8
    assert ours["global symbols"] == ours["global functions"] + 3
    assert ours["structures, unions, enumerations, constants, macros"] is None


def test_the_last_function_stays_in_the_filter(tmp_path: Path) -> None:
    """An empty filter would mean every function of the kernel."""
    path = tmp_path / "set_ftrace_filter"
    path.write_text("busy [probe]\nquiet [probe]\n", encoding="ascii")
    ftrace._leave_out(tmp_path, {"busy", "elsewhere"})
    assert path.read_text().splitlines()[2:] == ["!busy"]
    path.write_text("busy [probe]\nquiet [probe]\n", encoding="ascii")
    ftrace._leave_out(tmp_path, {"busy", "quiet"})
    assert path.read_text().splitlines()[2:] == ["!busy"]
    path.write_text("#### all functions enabled ####\n", encoding="ascii")
    ftrace._leave_out(tmp_path, {"busy"})
    assert path.read_text().splitlines()[1:] == []


def test_raw_lines_of_the_tracer_are_understood() -> None:
    lines = b"ffffffffc0a01014 ffffffff81000000\nCPU:0 [LOST 4711 EVENTS]\nffffffffc0a02000 ffffffff81000000\nffff"
    assert list(ftrace._addresses(lines)) == [0xFFFFFFFFC0A01014, 0xFFFFFFFFC0A02000]


def test_an_address_is_of_the_function_that_begins_before_it(tmp_path: Path) -> None:
    """The tracer's call is behind a function's first instruction; padding before it is not a function."""
    symbols = tmp_path / "kallsyms"
    lines = ["ffffffff81000000 T vfs_read", "0f00 t __pfx_first\t[probe]", "0f10 t first\t[probe]",
             "1000 t second\t[probe]", "1000 t alias\t[probe]", "1100 d data\t[probe]",
             "1200 t other\t[elsewhere]"]  # fmt: skip
    symbols.write_text("\n".join(lines) + "\n", encoding="ascii")
    names = ftrace._Names(["probe"], symbols)
    assert names.of([0xF14]) == {"first"}
    assert names.of([0x1004]) == {"second", "alias"}
    assert names.of([0xF00, 0]) == set()
    assert "other" not in names.of([0x1204])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("../b43", "'../b43' is no module's name; allowed are letters, digits and _, as `lsmod` shows them"),
        ("b43\n!*", "is no module's name"),
    ],
)
def test_what_cannot_be_followed_is_refused(module: str, message: str, tmp_path: Path) -> None:
    arguments = ["ran", "-m", module, "-o", str(tmp_path / "ran.json"), "--", "true"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_machine_without_a_tracer_is_told_what_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ftrace, "PLACES", (tmp_path / "tracing",))
    result = CliRunner().invoke(main, ["ran", "-m", "b43", "-o", str(tmp_path / "ran.json"), "--", "true"])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"kernelconfig: {tmp_path}/tracing: there is no tracer; become root and mount it")

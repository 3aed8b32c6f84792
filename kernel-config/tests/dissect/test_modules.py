"""`dissect` on an object that gcc made here: what it finds, who provides what, and what the project's files set."""

import csv
import gzip
import io
import json
import lzma
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import zstandard
from click.testing import CliRunner, Result

from kernelconfig.__main__ import main

SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/kernel-dissect-1.json"


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["dissect", *map(str, arguments)])
    assert result.exit_code in {0, 2}, result.output
    return result


def dissected(*arguments: str | Path) -> dict[str, Any]:
    """Return what is said about one module, after a look at the schema."""
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    jsonschema.validate(content, json.loads(SCHEMA.read_text(encoding="utf-8")))
    (module,) = content["modules"]
    found: dict[str, Any] = module
    return found


def test_a_module_is_described_by_its_file(driver: Any) -> None:
    found = dissected("--kernel", driver.kernel, driver.module)
    assert (found["name"], found["packing"], found["signature"]) == ("probe", "plain", "")
    assert found["parameters"] == [{"name": "verbose", "type": "int", "description": "How much it says"}]
    assert found["info"]["firmware"] == ["probe.fw"]
    assert found["exported"] == ["probe_shared"]
    functions = {function["name"]: function for function in found["functions"]}
    assert set(functions) == {"init_module", "quiet", "probe_shared"}, "padding is no function"
    assert functions["probe_shared"]["is_global"]
    assert not functions["quiet"]["is_global"]
    assert functions["init_module"]["section"] == ".init.text"
    assert found["sizes"]["init"] == functions["init_module"]["size"]
    assert found["sizes"]["text"] >= functions["probe_shared"]["size"] > functions["quiet"]["size"] > 0
    assert (found["sizes"]["bss"], found["sizes"]["data"]) == (4096, 1024)
    assert found["sizes"]["rodata"] >= 256
    assert found["table"]["global_data"] == {
        ".bss": 1,
        ".data": 1,
        ".rodata": 1,
    }


def test_each_needed_symbol_has_the_provider_that_the_kernel_names(driver: Any) -> None:
    found = dissected("--kernel", driver.kernel, driver.module)
    needs = {need["symbol"]: (need["provider"], need["subsystem"], need["references"]) for need in found["needs"]}
    assert needs == {
        "ieee80211_queue_work": ("mac80211", "mac80211", 2),
        "mutex_lock": ("vmlinux", "locking", 2),
        "dma_set_mask": ("vmlinux", "dma", 1),
        "odd_call": ("oddlib", "module oddlib", 1),
        "nowhere": ("unknown", "other", 1),
    }
    assert found["needed_modules"] == ["mac80211", "oddlib"]
    assert found["providers"].endswith("boot/System.map-6.12.0-test")
    shown = " ".join(run("--kernel", driver.kernel, driver.module).stdout.split())
    assert "nothing exports nowhere: this kernel cannot load it" in shown


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("build/Module.symvers", "0x1\tmutex_lock\tvmlinux\tEXPORT_SYMBOL\t\n0x2\tnowhere\tvmlinux\tEXPORT_SYMBOL\t\n"),
        ("System.map-6.12.0-test", "0 r __ksymtab_mutex_lock\n0 r __ksymtab_nowhere\n0 T dma_set_mask\n"),
    ],
)
def test_what_the_kernel_exports_is_read_where_it_is_written(driver: Any, file: str, content: str) -> None:
    path = driver.kernel / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="ascii")
    found = dissected("--kernel", driver.kernel, driver.module)
    providers = {need["symbol"]: need["provider"] for need in found["needs"]}
    assert found["providers"] == str(path)
    assert (providers["nowhere"], providers["mutex_lock"], providers["dma_set_mask"]) == (
        "vmlinux",
        "vmlinux",
        "unknown",
    )


def test_without_a_list_what_no_module_exports_is_the_kernels_and_that_is_said(driver: Any) -> None:
    shutil.rmtree(driver.kernel.parents[2] / "boot")
    found = dissected("--kernel", driver.kernel, driver.module)
    providers = {need["symbol"]: need["provider"] for need in found["needs"]}
    assert (providers["nowhere"], providers["odd_call"]) == ("vmlinux", "oddlib")
    assert "what no module exports is taken for the kernel's" in found["providers"]


def test_the_kernel_is_found_by_its_root_by_its_folder_and_around_the_module(driver: Any) -> None:
    root = driver.kernel.parents[2]
    inside = driver.kernel / "extra" / "probe.ko"
    inside.parent.mkdir()
    shutil.copy(driver.module, inside)
    ways = [("--kernel", root, driver.module), ("--kernel", driver.kernel.parent, driver.module), (inside,)]
    assert {dissected(*way)["kernel"] for way in ways} == {str(driver.kernel)}


def test_a_module_away_from_its_kernel_is_grouped_by_name_and_the_way_out_is_said(driver: Any) -> None:
    found = dissected(driver.module)
    assert found["kernel"] == ""
    assert found["providers"] == "kernel 6.12.0-test is not installed here; name its kernel: --kernel DIRECTORY"
    assert {need["provider"] for need in found["needs"]} == {""}
    assert found["subsystems"] == {"mac80211": 1, "dma": 1, "locking": 1, "other": 2}


def test_a_module_of_another_machine_is_not_resolved_by_this_machines_kernel(driver: Any, tmp_path: Path) -> None:
    foreign = bytearray(driver.module.read_bytes())
    foreign[18:20] = (0xF3).to_bytes(2, "little")
    path = tmp_path / "riscv.ko"
    path.write_bytes(foreign)
    found = dissected(path)
    assert (found["machine"], found["kernel"]) == ("riscv64", "")
    assert found["providers"].startswith("the module is for riscv64 and this machine is ")
    assert found["providers"].endswith("name its kernel: --kernel DIRECTORY")
    assert dissected("--kernel", driver.kernel, path)["kernel"] == str(driver.kernel)


@pytest.mark.parametrize(
    ("how", "pack"), [("gzip", gzip.compress), ("xz", lzma.compress), ("zstd", zstandard.ZstdCompressor().compress)]
)
def test_a_packed_module_says_the_same(driver: Any, tmp_path: Path, how: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"other-name.ko.{how}"
    path.write_bytes(pack(driver.module.read_bytes()))
    plain, packed = dissected(driver.module), dissected(path)
    assert (packed.pop("packing"), packed.pop("file_bytes"), packed.pop("path")) == (
        how,
        path.stat().st_size,
        str(path),
    )
    assert packed.items() <= plain.items()


def test_a_signature_is_reported(driver: Any) -> None:
    with driver.module.open("ab") as file:
        file.write(b"s" * 99 + bytes([0, 0, 2, 0, 0, 0, 0, 0]) + (99).to_bytes(4, "big"))
        file.write(b"~Module signature appended~\n")
    assert dissected(driver.module)["signature"] == "PKCS#7, 99 bytes"


def test_options_say_what_our_files_set_and_what_a_configuration_lacks(driver: Any, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("CONFIG_MAC80211=m\n# CONFIG_HAS_DMA is not set\n", encoding="utf-8")
    arguments = ("--kernel", driver.kernel, driver.module)
    options = {option["symbol"]: option for option in dissected("--config", config, *arguments)["options"]}
    assert options["MAC80211"]["state"] == "on"
    assert options["MAC80211"]["where"].startswith("mesh-radio.config:")
    assert (options["MAC80211"]["found"], options["MAC80211"]["missing"]) == ("m", False)
    assert (options["HAS_DMA"]["state"], options["HAS_DMA"]["found"], options["HAS_DMA"]["missing"]) == (
        "left",
        "n",
        True,
    )
    assert "the named configuration lacks CONFIG_HAS_DMA" in run("--config", config, *arguments).stdout
    assert "our own kernel has all options that are known for it" in run(*arguments).stdout


def test_a_driver_whose_menu_our_kernel_leaves_out_is_reported(compile_module: Any) -> None:
    path = compile_module(**{"name=probe": "name=iwlwifi"})
    assert "our own kernel lacks CONFIG_WLAN_VENDOR_INTEL" in run(path).stdout


def test_an_option_of_a_module_further_below_is_shown_and_not_missed(driver: Any) -> None:
    (driver.kernel / "modules.dep").write_text("probe.ko: mac80211.ko pcmcia_core.ko\n", encoding="ascii")
    found = dissected("--kernel", driver.kernel, driver.module)
    (option,) = [option for option in found["options"] if option["symbol"] == "PCCARD"]
    assert (option["state"], option["is_direct"], option["missing"]) == ("off", False, False)


def test_several_modules_are_compared_side_by_side(driver: Any, compile_module: Any, tmp_path: Path) -> None:
    first = shutil.copy(driver.module, tmp_path / "first.ko")
    second = compile_module(**{"name=probe": "name=second", "dma_set_mask();": ""})
    lines = run("--compare", "--kernel", driver.kernel, first, second).stdout.splitlines()
    assert lines[0].split() == ["probe", "second"]
    rows = {line.rsplit(maxsplit=2)[0].strip(): line.split()[-2:] for line in lines if len(line.split()) > 2}
    assert rows["symbols needed"] == ["5", "4"]
    assert rows["locking"] == ["1", "1"]
    assert any(line.split() == ["dma", "1"] for line in lines)


def test_a_spreadsheet_has_a_line_for_each_needed_symbol(driver: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(run("--csv", "--kernel", driver.kernel, driver.module).stdout)))
    assert len(rows) == 5
    assert {"module": "probe", "symbol": "odd_call", "subsystem": "module oddlib", "provider": "oddlib",
            "references": "1"} in rows  # fmt: skip


@pytest.mark.parametrize("form", [[], ["--symbols"], ["--compare"], ["--paper"]])
def test_text_fits_100_columns_and_a_modules_words_do_nothing_to_the_terminal(driver: Any, form: list[str]) -> None:
    shown = run(*form, "--kernel", driver.kernel, driver.module).stdout
    assert max(map(len, shown.splitlines())) <= 100
    assert "\33" not in shown
    if not form:
        assert "A ?[31mprobe [red]" in shown


def test_functions_that_ran_are_counted_from_a_recording(driver: Any, tmp_path: Path) -> None:
    recording = tmp_path / "ran.json"
    run_of = {"module": "probe", "traceable": ["init_module", "probe_shared"], "ran": ["init_module"]}
    content = {"version": 1, "kernel": "6.12", "command": ["true"], "status": 0, "lost": 0, "runs": [run_of]}
    recording.write_text(json.dumps(content), encoding="utf-8")
    assert dissected("--ran", recording, driver.module)["ran"] == run_of
    assert "1 of 2 functions that the tracer sees (50 %)" in run("--ran", recording, driver.module).stdout


def test_a_module_of_32_bits_is_read(compile_module: Any) -> None:
    try:
        path = compile_module("-m32")
    except subprocess.CalledProcessError:
        pytest.skip("gcc makes no 32-bit code here")
    found = dissected(path)
    assert {need["symbol"]: need["references"] for need in found["needs"]}["ieee80211_queue_work"] == 2

"""The dissertation's counts are taken from a real module and from source; folders that have neither are refused."""

import shutil
from pathlib import Path

import pytest

from rt import bench_dissect
from rt.dissect import source
from rt.measure.results import MeasurementError
from tests.lab.machines import guest_root

_KERNEL = guest_root.CACHE / guest_root.key() / "kernels" / "generic"


@pytest.mark.skipif(not _KERNEL.exists(), reason="the guest's kernels are not unpacked here; `make lab-guest` does it")
def test_b43_of_the_guest_s_kernel_has_the_counts_that_elf_tools_give() -> None:
    rows = {row["what"]: row["ours"] for row in bench_dissect.dissected(bench_dissect.modules(_KERNEL))}
    assert rows["undefined symbols, all"] > rows["SSB"] > 0
    assert rows["symbols that it exports (EXPORT_SYMBOL)"] == 0
    assert rows["structures, unions, enumerations, constants, macros"] is None


_C = """\
#include <linux/kernel.h>
#include "b43.h"
#define RATE 1
#define TWICE(x) (2 * (x))
struct b43_one { int a; int b; };
enum b43_two { FIRST, SECOND };
extern int elsewhere;
static int here = RATE;
int b43_declared(void);
int b43_made(void) { return here; }
"""


@pytest.mark.skipif(not shutil.which("ctags"), reason="ctags is not there; `make bench-dissect` gets it")
def test_the_source_is_counted_by_kind_and_shared_among_the_groups(tmp_path: Path) -> None:
    (tmp_path / "phy_n.c").write_text(_C, encoding="utf-8")
    (tmp_path / "b43.h").write_text("#include <linux/kernel.h>\n" * 10, encoding="utf-8")
    counts = {(key["what"], key.get("group")): value for key, _, value in source.counted(tmp_path)}
    expected = {
        "files, C": 1,
        "files, headers": 1,
        "lines, C": 10,
        "lines, headers": 10,
        "structures": 1,
        "structure members": 2,
        "enumerations": 1,
        "enum constants": 2,
        "constants": 1,
        "macros": 1,
        "external variables": 1,
        "variables": 1,
        "function prototypes": 1,
        "functions": 1,
        "unions": 0,
    }
    assert {what: counts[what, None] for what in expected} == expected
    assert counts["lines", "PHY"] == counts["lines", "other"] == 50
    assert counts["functions", "PHY"] == 100
    assert source.headers(tmp_path / "phy_n.c") == 1


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("phy_lcn.c", "PHY"),
        ("tables_nphy.h", "radio tables"),
        ("tables.c", "radio tables"),
        ("lo.c", "local oscillator"),
        ("sysfs.c", "virtual file system"),
        ("leds.h", "LED control"),
        ("ppr.c", "other"),
        ("b43.h", "other"),
        ("busy.c", "other"),
    ],
)
def test_a_file_belongs_to_the_group_of_table_4(name: str, group: str) -> None:
    assert source.group(name) == group


def test_a_folder_without_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="no source file is there"):
        list(source.counted(tmp_path))


def test_a_folder_without_a_kernel_is_named(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="one kernel is needed, 0 were found"):
        bench_dissect.modules(tmp_path)


def test_a_module_that_is_not_there_ends_the_measurement(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="kernelconfig dissect: status 2"):
        bench_dissect.dissected(tmp_path)

"""The dissertation's counts are taken from a real module, and a folder that is no kernel's is refused."""

from pathlib import Path

import pytest

from rt import bench_dissect
from rt.measure.results import MeasurementError
from tests.lab.machines import guest_root

_KERNEL = guest_root.CACHE / guest_root.key() / "kernels" / "generic"


@pytest.mark.skipif(not _KERNEL.exists(), reason="the guest's kernels are not unpacked here; `make lab-guest` does it")
def test_b43_of_the_guest_s_kernel_has_the_counts_that_elf_tools_give() -> None:
    rows = {row["what"]: row["ours"] for row in bench_dissect.dissected(bench_dissect.modules(_KERNEL))}
    assert rows["undefined symbols, all"] > rows["SSB"] > 0
    assert rows["symbols that it exports (EXPORT_SYMBOL)"] == 0
    assert rows["structures, unions, enumerations, constants, macros"] is None


def test_a_folder_without_a_kernel_is_named(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="one kernel is needed, 0 were found"):
        bench_dissect.modules(tmp_path)


def test_a_module_that_is_not_there_ends_the_measurement(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="kernelconfig dissect: status 2"):
        bench_dissect.dissected(tmp_path)

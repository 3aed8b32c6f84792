"""The kernel's own merge_config.sh and olddefconfig, on Debian's RT configuration for both architectures.

Files from Debian's archive stay in build/kernel, so that only the first run needs the network.
"""

import subprocess
from pathlib import Path

import pytest

from kernelconfig import files
from kernelconfig.verdict import judge

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 1500
"""Seconds: 150 MB may come slowly, and apt tries again."""


def _build_configuration(architecture: str, *settings: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(REPOSITORY / "kernel-config/build"), "config", architecture, *map(str, settings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(("architecture", "name"), [("amd64", "x86_64"), ("arm64", "arm64")])
def test_every_symbol_takes_effect(architecture: str, name: str) -> None:
    result = _build_configuration(architecture)
    assert result.returncode == 0, f"{result.stdout[-2000:]}{result.stderr[-2000:]}"
    merged = files.read_configuration(REPOSITORY / "build/kernel" / architecture / "config/.config")
    assert merged.kernel.startswith("6.12.")
    assert merged.kernel.endswith(f" {name}")
    assert judge(files.read_fragments(), merged).findings == ()


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE)
def test_a_symbol_that_does_not_take_stops_the_build_with_its_line_and_cause(tmp_path: Path) -> None:
    settings = tmp_path / "cards.config"
    settings.write_text("# A card whose menu is left out.\nCONFIG_DRM_I915=m\n", encoding="utf-8")
    result = _build_configuration("amd64", settings)
    assert result.returncode == 1, f"{result.stdout[-2000:]}{result.stderr[-2000:]}"
    assert "did not take: cards.config:2: CONFIG_DRM_I915=m (it is n): unmet: DRM" in result.stderr
    assert "kernel: the configuration is in" not in result.stdout

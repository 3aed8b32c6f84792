"""Our packages are made once for all tests, for each release that is tested."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.machines import fleet_root
from tests.packages.made import AUDIT, COMMIT, OWN_ARCHITECTURE, RELEASES, kernel, made
from tests.packages.root import Root, bare


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Return a release of Debian."""
    if missing := fleet_root.obstacle():
        pytest.skip(missing)
    if not shutil.which("dh"):
        pytest.skip("debhelper is not installed")
    if not AUDIT.exists():
        pytest.skip("not installed: CycloneDX's library; fix: `tools/setup audit`")
    return str(request.param)


@pytest.fixture(scope="session")
def packages(release: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return our packages for the release by name, as `make deb KERNEL=...` makes them."""
    settings = {**COMMIT, "KERNEL": str(kernel(tmp_path_factory.mktemp("kernel")))}
    return made(release, OWN_ARCHITECTURE, tmp_path_factory.mktemp("packages"), settings)


@pytest.fixture
def root(release: str, packages: dict[str, Path], tmp_path: Path) -> Iterator[Root]:
    """Make a node of that release whose operator may install our packages."""
    with bare(release, tmp_path / "root") as made_root:
        made_root.offer(packages.values())
        yield made_root

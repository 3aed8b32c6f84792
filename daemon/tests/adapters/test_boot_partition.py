"""An image's first partition that is not mounted may have passwords, which zeroize then has not destroyed."""

from pathlib import Path

import pytest

from meshsec.adapters.files import boot_partition


@pytest.mark.parametrize(
    ("release", "device", "mounted", "reported"),
    [
        ("ID=debian\nIMAGE_ID=meshsec\n", True, False, True),
        ("ID=debian\nIMAGE_ID=meshsec\n", True, True, False),
        ("ID=debian\nIMAGE_ID=meshsec\n", False, False, False),
        ("ID=debian\n", True, False, False),
        (None, True, False, False),
    ],
)
def test_only_an_images_own_partition_is_reported_and_only_if_nobody_looked_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, release: str | None, device: bool, mounted: bool, reported: bool
) -> None:
    for name in ("OS_RELEASE", "DEVICE", "PLACE"):
        monkeypatch.setattr(boot_partition, name, tmp_path / name)
    if release is not None:
        (tmp_path / "OS_RELEASE").write_text(release, encoding="ascii")
    if device:
        (tmp_path / "DEVICE").touch()
    monkeypatch.setattr(Path, "is_mount", lambda _: mounted)
    found = boot_partition.unreachable()
    assert [failure.what for failure in found] == ([str(tmp_path / "DEVICE")] if reported else [])

"""Files that `meshsec uninstall` reads and removes: sysctl.d, drop-ins, and the record of other IKE daemons' units."""

from pathlib import Path

import pytest

from meshsec import files
from meshsec.adapters.files import drop_in_files, replaced_units, sysctl_d
from meshsec.adapters.files.replaced_units import Was
from meshsec.core.formats.drop_ins import FILE, WRITTEN
from meshsec.core.uninstall.sysctls import Change

FORWARD = "net/ipv4/ip_forward"
OURS = "net.ipv4.ip_forward = 1\nnet.ipv4.conf.*.rp_filter = 0\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a machine's root with our file in sysctl.d and with its effect."""
    values = {FORWARD: "1", "net/ipv4/conf/eth0/rp_filter": "0", "net/ipv4/tcp_ecn": "1"}
    texts = {f"proc/sys/{key}": f"{value}\n" for key, value in values.items()}
    for name, text in {**texts, "usr/lib/sysctl.d/60-meshsec.conf": OURS}.items():
        put(tmp_path / name, text)
    monkeypatch.setattr(sysctl_d, "ROOT", tmp_path)
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def keys() -> list[str]:
    return [one.key for one in sysctl_d.look(())]


def test_what_others_say_comes_back_and_the_first_directory_counts(root: Path) -> None:
    put(root / "usr/lib/sysctl.d/50-default.conf", "net.ipv4.conf.*.rp_filter = 1\n")
    put(root / "etc/sysctl.d/50-default.conf", "net.ipv4.conf.*.rp_filter = 2\n")
    found = {one.key: (one.after, one.source) for one in sysctl_d.look(())}
    source = str(root / "etc/sysctl.d/50-default.conf")
    assert found == {FORWARD: ("0", "the kernel's default"), "net/ipv4/conf/eth0/rp_filter": ("2", source)}
    for change in sysctl_d.look(()):
        sysctl_d.put(change)
    assert (root / "proc/sys" / FORWARD).read_text() == "0\n"
    assert keys() == []


@pytest.mark.parametrize("text", [None, "", OURS])
def test_a_file_that_an_administrator_put_in_place_of_ours_is_not_ours(root: Path, text: str | None) -> None:
    assert keys() == [FORWARD]
    if text is None:
        (root / "etc/sysctl.d").mkdir(parents=True)
        (root / "etc/sysctl.d/60-meshsec.conf").symlink_to("/dev/null")
    else:
        put(root / "etc/sysctl.d/60-meshsec.conf", text)
    assert keys() == []


def test_a_value_that_cannot_be_set_is_named(root: Path) -> None:
    with pytest.raises(files.FileError, match="proc/sys/net/none/none: No such file"):
        sysctl_d.put(Change("net/none/none", "1", "0", ""))


@pytest.fixture
def drop_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(drop_in_files, "DIRECTORY", tmp_path / "system")
    return tmp_path / "system"


def test_only_drop_ins_that_meshsec_wrote_are_removed(drop_ins: Path) -> None:
    for unit in ("meshsecd", "olsrv2d", "nginx"):
        put(drop_ins / f"{unit}.service.d" / FILE, f"{WRITTEN}\n[Service]\nNice=-2\n")
    put(mine := drop_ins / "overlayd.service.d" / FILE, "[Service]\nNice=-3\n")
    put(beside := drop_ins / "olsrv2d.service.d/90-mine.conf", "[Service]\n")
    found = drop_in_files.written()
    assert {path.parent.name for path in found} == {"meshsecd.service.d", "olsrv2d.service.d"}
    for path in found:
        drop_in_files.remove(path)
    assert drop_in_files.written() == []
    assert not (drop_ins / "meshsecd.service.d").exists()
    assert mine.exists()
    assert beside.exists()


def test_removing_a_file_twice_is_no_failure(tmp_path: Path) -> None:
    put(path := tmp_path / "state/record", "x")
    drop_in_files.remove(path)
    drop_in_files.remove(path)
    assert path.parent.exists(), "it is no directory of drop-ins"


def test_a_record_keeps_what_a_unit_was_first(tmp_path: Path) -> None:
    assert replaced_units.read(tmp_path) == {}
    replaced_units.add(tmp_path, {"strongswan.service": Was(enabled=True, active=True)})
    replaced_units.add(tmp_path, {"strongswan.service": Was(enabled=False, active=True), "b": Was(True, False)})
    assert replaced_units.read(tmp_path) == {"strongswan.service": Was(True, True), "b": Was(True, False)}


@pytest.mark.parametrize("text", ["", "[]", '{"a": 7}', '{"a": {"enabled": true}}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    put(path := replaced_units.path(tmp_path), text)
    with pytest.raises(files.FileError, match=f"^{path}: is no record of units"):
        replaced_units.read(tmp_path)

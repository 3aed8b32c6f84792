"""The disk of the vehicle image, assembled from small parts by the real tools."""

import json
import lzma
import shutil
import subprocess
from pathlib import Path

import pytest

from image import disk
from image.shell import StepError

TOOLS = ("mkfs.erofs", "mkfs.vfat", "mcopy", "mmd", "mtype", "objcopy", "objdump", "sfdisk")
pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") for tool in TOOLS),
    reason="what builds the image is not installed: tools/setup image",
)

IDENTITY = disk.Identity("0123456789abcdef", 1_700_000_000)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Give a small root and a kernel image for the disk."""
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setattr(disk, "ESP_MIB", 40)  # FAT32 has 33 at least
    monkeypatch.setattr(disk, "STATE_MIB", 8)
    root, uki = tmp_path / "root", tmp_path / "uki.efi"
    (root / "etc").mkdir(parents=True)
    (root / "etc/hostname").write_text("meshsec\n", encoding="ascii")
    uki.write_bytes(b"MZ" + bytes(5000))
    disk.make_erofs(root, tmp_path / "root.erofs", IDENTITY)
    disk.make_esp(uki, tmp_path / "esp.fat", IDENTITY)
    return tmp_path / "esp.fat", tmp_path / "root.erofs"


def test_firmware_finds_the_kernel_and_the_kernel_its_root(parts: tuple[Path, Path], tmp_path: Path) -> None:
    esp, root = parts
    image = tmp_path / "disk.img"
    disk.assemble(esp, root, image, IDENTITY)
    table = json.loads(_said("sfdisk", "--json", str(image)))["partitiontable"]
    first, second = table["partitions"]
    assert (table["label"], first["name"], second["name"]) == ("gpt", "meshsec-esp", "meshsec-root")
    assert first["type"] == "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
    assert second["uuid"].lower() == IDENTITY.uuid("root"), "the command line names it"
    at = f"{image}@@{first['start'] * 512}"
    assert _said("mtype", "-i", at, "::EFI/BOOT/BOOTX64.EFI").startswith("MZ")
    assert "meshsec.peers" in _said("mtype", "-i", at, "::meshsec/README.TXT")
    content = image.read_bytes()[second["start"] * 512 :][: root.stat().st_size]
    assert content == root.read_bytes()
    free = image.stat().st_size - (second["start"] + second["size"]) * 512
    assert free >= disk.STATE_MIB * disk.MIB, "room for the state partition"


def test_the_same_input_gives_the_same_bytes(parts: tuple[Path, Path], tmp_path: Path) -> None:
    esp, root = parts
    again = tmp_path / "again.fat"
    disk.make_esp(tmp_path / "uki.efi", again, IDENTITY)
    assert again.read_bytes() == esp.read_bytes()
    for name in ("one", "two"):
        disk.assemble(esp, root, tmp_path / name, IDENTITY)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_sections_follow_the_stubs_own_without_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    contents = {".cmdline": b"ro quiet", ".initrd": bytes(9000), ".linux": b"MZ" + bytes(5000)}
    sections = {}
    for name, content in contents.items():
        sections[name] = tmp_path / name[1:]
        sections[name].write_bytes(content)
    stub = Path("/bin/true")  # any program with sections does
    arguments = disk.placed(stub, sections)
    addresses = [int(word.split("=")[1], 16) for word in arguments if word.startswith(".") and "=0x" in word]
    sizes = [len(content) for content in contents.values()]
    assert all(address % 0x1000 == 0 for address in addresses)
    assert all(a + size <= b for a, size, b in zip(addresses, sizes, addresses[1:], strict=False))


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\x7fELF", ()), (b"\x7fELF~Module signature appended~\n", ("lockdown=integrity",))],
    ids=["unsigned", "signed"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_kernel_is_locked_down_only_if_it_can_then_load_its_modules(
    tmp_path: Path, content: bytes, words: tuple[str, ...], packed: bool
) -> None:
    folder = tmp_path / "usr/lib/modules/6.12/kernel/fs/erofs"
    folder.mkdir(parents=True)
    (folder / ("erofs.ko.xz" if packed else "erofs.ko")).write_bytes(lzma.compress(content) if packed else content)
    assert disk.lockdown(tmp_path, "6.12") == words


def test_a_kernel_that_cannot_read_the_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="CONFIG_EROFS_FS"):
        disk.lockdown(tmp_path, "6.12")


def _said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode(errors="replace")

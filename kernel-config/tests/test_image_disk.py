"""The disk of the vehicle image, assembled from small parts by the real tools."""

import json
import lzma
import shutil
import subprocess
from pathlib import Path

import pytest

from image import disk, raspberry
from image.architecture import AMD64, ARM64, Architecture
from image.shell import StepError

TOOLS = ("mkfs.erofs", "mkfs.vfat", "mcopy", "mmd", "mtype", "objcopy", "objdump", "sfdisk")
pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") for tool in TOOLS),
    reason="what builds the image is not installed: tools/setup image",
)

_ELF = {AMD64: "elf64-x86-64", ARM64: "elf64-littleaarch64"}
IDENTITY = disk.Identity("0123456789abcdef", 1_700_000_000, "1.2.3.20231114221320")


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Give a small root and a kernel image for the disk."""
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setattr(disk, "ESP_MIB", 136)  # FAT32 with these clusters has 130 at least
    monkeypatch.setattr(disk, "STATE_MIB", 8)
    monkeypatch.setattr(disk, "SLOT_MIB", 4)
    root, uki, loader = tmp_path / "root", tmp_path / "uki.efi", tmp_path / "loader.efi"
    (root / "etc").mkdir(parents=True)
    (root / "etc/hostname").write_text("meshsec\n", encoding="ascii")
    uki.write_bytes(b"MZ" + bytes(5000))
    loader.write_bytes(b"MZ boots")
    disk.make_erofs(root, tmp_path / "root.erofs", IDENTITY)
    disk.make_esp(loader, uki, tmp_path / "esp.fat", IDENTITY, AMD64)
    return tmp_path / "esp.fat", tmp_path / "root.erofs"


@pytest.mark.parametrize(
    ("wanted", "program", "root_type"),
    [
        (AMD64, "BOOTX64.EFI", "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"),
        (ARM64, "BOOTAA64.EFI", "B921B045-1DF0-41C3-AF44-4C6F280D3FAE"),
    ],
)
def test_firmware_finds_the_kernel_and_the_kernel_its_root(
    parts: tuple[Path, Path], tmp_path: Path, wanted: Architecture, program: str, root_type: str
) -> None:
    esp, root = parts
    disk.make_esp(tmp_path / "loader.efi", tmp_path / "uki.efi", esp, IDENTITY, wanted)
    image = tmp_path / "disk.img"
    disk.assemble(esp, root, image, IDENTITY, wanted)
    table = json.loads(_said("sfdisk", "--json", str(image)))["partitiontable"]
    first, second, third = table["partitions"]
    names = [first["name"], second["name"], third["name"]]
    assert (table["label"], names) == ("gpt", ["meshsec-esp", "meshsec_1.2.3.20231114221320", "_empty"])
    assert first["type"] == "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
    assert second["type"] == root_type
    assert second["uuid"].lower() == IDENTITY.uuid("root"), "the command line names it"
    assert (third["type"], third["size"]) == (second["type"], second["size"]), "an update fits where the first one is"
    at = f"{image}@@{first['start'] * 512}"
    assert _said("mtype", "-i", at, f"::EFI/BOOT/{program}") == "MZ boots"
    assert _said("mtype", "-i", at, f"::EFI/Linux/meshsec_1.2.3.20231114221320_{wanted.systemd}.efi").startswith("MZ")
    assert "editor no" in _said("mtype", "-i", at, "::loader/loader.conf").splitlines()
    assert "meshsec.peers" in _said("mtype", "-i", at, "::meshsec/README.TXT")
    content = image.read_bytes()[second["start"] * 512 :][: root.stat().st_size]
    assert content == root.read_bytes()
    free = image.stat().st_size - (third["start"] + third["size"]) * 512
    assert free >= disk.STATE_MIB * disk.MIB, "room for the state partition"


def test_a_root_that_is_larger_than_its_slot_is_refused(parts: tuple[Path, Path], tmp_path: Path) -> None:
    esp, _ = parts
    large = tmp_path / "large.erofs"
    with large.open("wb") as file:
        file.truncate(disk.SLOT_MIB * disk.MIB + 1)
    with pytest.raises(StepError, match="a slot has 4 MiB"):
        disk.assemble(esp, large, tmp_path / "disk.img", IDENTITY, AMD64)
    assert not (tmp_path / "disk.img").exists()


def test_the_same_input_gives_the_same_bytes(parts: tuple[Path, Path], tmp_path: Path) -> None:
    esp, root = parts
    again = tmp_path / "again.fat"
    disk.make_esp(tmp_path / "loader.efi", tmp_path / "uki.efi", again, IDENTITY, AMD64)
    assert again.read_bytes() == esp.read_bytes()
    for name in ("one", "two"):
        disk.assemble(esp, root, tmp_path / name, IDENTITY, AMD64)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_sections_follow_the_stubs_own_without_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    contents = {".cmdline": b"ro quiet", ".initrd": bytes(9000), ".linux": b"MZ" + bytes(5000)}
    sections = {}
    for name, content in contents.items():
        sections[name] = tmp_path / name[1:]
        sections[name].write_bytes(content)
    stub = Path("/bin/true")  # any program with sections does
    arguments = disk.placed(stub, sections, "objdump")
    addresses = [int(word.split("=")[1], 16) for word in arguments if word.startswith(".") and "=0x" in word]
    sizes = [len(content) for content in contents.values()]
    assert all(address % 0x1000 == 0 for address in addresses)
    assert all(a + size <= b for a, size, b in zip(addresses, sizes, addresses[1:], strict=False))


@pytest.mark.parametrize("wanted", [AMD64, ARM64], ids=lambda one: one.debian)
def test_a_kernel_names_its_root_and_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Architecture
) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    if shutil.which(wanted.binutils("objcopy")) is None:
        pytest.skip(f"{wanted.binutils('objcopy')} is not installed: tools/setup image")
    root, boot = tmp_path / "root", tmp_path / "boot"
    stub = root / "usr/lib/systemd/boot/efi" / wanted.stub
    module = root / "usr/lib/modules/6.12/kernel/fs/erofs/erofs.ko"
    contents = {root / "usr/lib/os-release": "IMAGE_VERSION=1.2.3\n", module: "code"}
    contents |= {boot / "initrd.img-6.12": "an initramfs", boot / "vmlinuz-6.12": "a kernel"}
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="ascii")
    stub.parent.mkdir(parents=True)
    options = ["--input-target=binary", f"--output-target={_ELF[wanted]}", "--rename-section=.data=.text,contents,code"]
    _said(wanted.binutils("objcopy"), *options, f"{boot}/vmlinuz-6.12", str(stub))
    disk.make_uki(root, boot, "6.12", tmp_path / "uki.efi", IDENTITY, wanted)
    found = {}
    for name in (".osrel", ".uname", ".cmdline", ".initrd", ".linux"):
        out = tmp_path / "section"
        _said(
            wanted.binutils("objcopy"),
            f"--dump-section={name}={out}",
            str(tmp_path / "uki.efi"),
            str(tmp_path / "rest"),
        )
        found[name] = out.read_text(encoding="ascii")
    words = found.pop(".cmdline").split()
    assert {f"root=PARTUUID={IDENTITY.uuid('root')}", "gpt", *wanted.words} <= set(words)
    assert list(found.values()) == ["IMAGE_VERSION=1.2.3\n", "6.12", "an initramfs", "a kernel"]


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


RASPBERRY = {
    "config.txt": "",  # written by the builder
    "u-boot.bin": "usr/lib/u-boot/rpi_arm64/u-boot.bin",
    "start4.elf": "usr/lib/raspi-firmware/start4.elf",
    "fixup4.dat": "usr/lib/raspi-firmware/fixup4.dat",
    "licences/raspi-firmware.txt": "usr/share/doc/raspi-firmware/copyright",
    "licences/u-boot-rpi.txt": "usr/share/doc/u-boot-rpi/copyright",
}


@pytest.fixture
def unpacked(parts: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """Give a FAT partition, a root with a kernel's device trees, and the packages of the board's firmware."""
    boot, folder = tmp_path / "boot", tmp_path / "root/usr/lib/linux-image-6.12/broadcom"
    for path in filter(None, RASPBERRY.values()):
        (boot / "raspberry" / path).parent.mkdir(parents=True, exist_ok=True)
        (boot / "raspberry" / path).write_text(path, encoding="ascii")
    folder.mkdir(parents=True)
    for name in ("bcm2711-rpi-4-b.dtb", "bcm2712-rpi-5-b.dtb", "bcm2837-rpi-3-b.dtb"):
        (folder / name).write_text(name, encoding="ascii")
    return parts[0], tmp_path / "root", boot


def test_a_raspberry_pi_finds_its_firmware_and_what_its_settings_name(unpacked: tuple[Path, Path, Path]) -> None:
    esp, root, boot = unpacked
    raspberry.add(esp, root, boot, "6.12", IDENTITY)
    for name, source in RASPBERRY.items():
        assert source in _said("mtype", "-i", str(esp), f"::{name}")
    config = _said("mtype", "-i", str(esp), "::config.txt").splitlines()
    settings = dict(line.split("=") for line in config if not line.startswith("#"))
    assert settings["arm_64bit"] == "1"
    assert _said("mtype", "-i", str(esp), f"::{settings['kernel']}"), "U-Boot"
    listed = _said("mdir", "-b", "-i", str(esp), "::").split()
    assert {name for name in listed if name.endswith(".dtb")} == {"::/bcm2711-rpi-4-b.dtb", "::/bcm2712-rpi-5-b.dtb"}


def test_a_kernel_without_its_device_trees_is_refused(unpacked: tuple[Path, Path, Path]) -> None:
    esp, root, boot = unpacked
    with pytest.raises(StepError, match=r"linux-image-6\.1/broadcom: no bcm2711-rpi"):
        raspberry.add(esp, root, boot, "6.1", IDENTITY)


def test_a_machine_without_such_firmware_gets_none_of_it(parts: tuple[Path, Path], tmp_path: Path) -> None:
    raspberry.add(parts[0], tmp_path / "root", tmp_path / "boot", "6.12", IDENTITY)
    assert "config.txt" not in _said("mdir", "-b", "-i", str(parts[0]), "::")
    assert raspberry.hooks(AMD64) == ()


def _said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode(errors="replace")

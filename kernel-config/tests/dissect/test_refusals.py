"""What is no module of this kernel is refused in one line: file, what was found, what is allowed, what helps."""

import bz2
import gzip
import json
import lzma
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelconfig.__main__ import main
from kernelconfig.dissect import elf, image, unpack
from kernelconfig.files import UnreadableError

MANY = b"".join(number.to_bytes(4, "little") for number in range(200_000))
BOMB = bytes(unpack.LIMIT + 1)
RECORDING = {"version": 1, "kernel": "", "command": [], "status": 0, "lost": 0, "runs": []}
SHOFF, SHENTSIZE, SHNUM, SHSTRNDX = 0x28, 0x3A, 0x3C, 0x3E
"""Where an ELF file of 64 bits has its section headers' place, size, number and table of names."""


def refused(*arguments: str | Path) -> str:
    """Return the one line that refuses something."""
    result = CliRunner().invoke(main, ["dissect", *map(str, arguments)])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("kernelconfig: ")
    return line.removeprefix("kernelconfig: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; allowed is a module (.ko), plain or packed by gzip, xz or zstd"),
        (b"#!/bin/sh\n", "is no ELF file, it begins with 23 21 2f 62 69 6e 2f 73; allowed is a module"),
        (bz2.compress(b"x"), "is packed by bzip2; allowed is a module (.ko), plain or packed by gzip, xz or zstd"),
        (gzip.compress(b"x" * 999, mtime=0)[:-9], "its gzip data is damaged or cut off"),
        (b"\x1f\x8bnonsense", "its gzip data is damaged or cut off"),
        (lzma.compress(bytes(9999))[:-20], "its xz data is damaged or cut off (it ends early)"),
        (b"\xfd7zXZ\x00" + bytes(20), "its xz data is damaged or cut off"),
        (zstandard.compress(MANY)[:-9], "its zstd data is damaged or cut off"),
        (b"\x28\xb5\x2f\xfd" + bytes([255]) * 20, "its zstd data is damaged or cut off"),
        (gzip.compress(BOMB, mtime=0), "unpacks to more than 64 MiB, which is what is allowed for a module"),
        (lzma.compress(BOMB, preset=0), "unpacks to more than 64 MiB"),
        (zstandard.compress(BOMB), "unpacks to more than 64 MiB"),
        (gzip.compress(BOMB + BOMB, mtime=0)[:-9], "unpacks to more than 64 MiB"),
        (lzma.compress(BOMB + BOMB, preset=0)[:-40] + bytes(40), "unpacks to more than 64 MiB"),
        (zstandard.compress(BOMB + BOMB)[:-9], "unpacks to more than 64 MiB"),
        (gzip.compress(b"x", mtime=0), "is no ELF file, it begins with 78"),
        (b"\x7fELF", "its ELF headers are damaged"),
        (b"\x7fELF" + bytes(60), "its ELF headers are damaged"),
    ],
)
def test_a_file_that_is_no_module_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "probe.ko"
    path.write_bytes(content)
    assert refused(path).startswith(f"{path}: {message}")


def test_a_file_that_is_longer_than_any_module_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "probe.ko"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert refused(path) == f"{path}: is longer than 64 MiB, which is what is allowed"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    help_ = "modinfo -F filename NAME shows"
    assert refused(tmp_path / "none").startswith(f"{tmp_path}/none: No such file or directory; {help_}")
    assert "is no regular file" in refused(tmp_path)
    assert "is no regular file" in refused(tmp_path / "pipe")


def test_an_object_or_a_program_is_no_module(compile_module: Callable[..., Path], tmp_path: Path) -> None:
    plain = compile_module(**{".gnu.linkonce.this_module": ".other"})
    assert "is an object file without .gnu.linkonce.this_module, so it is no module; allowed is" in refused(plain)
    silent = compile_module(**{'section(".modinfo")': 'section(".other")'})
    assert "is an object file without .modinfo, so it is no module" in refused(silent)
    program = Path("/proc/self/exe").resolve()
    assert "is an ELF file of type ET_" in refused(program)


def test_a_kernel_that_the_module_is_not_for_is_refused(driver: Any, tmp_path: Path) -> None:
    other = tmp_path / "lib" / "modules" / "6.1.0-other"
    other.parent.mkdir(parents=True)
    driver.kernel.rename(other)
    line = refused("--kernel", other, driver.module)
    assert f"{driver.module}: was built for kernel '6.12.0-test', and {other} is '6.1.0-other'" in line
    assert line.endswith("--kernel /lib/modules/6.12.0-test")
    line = refused("--kernel", tmp_path, driver.module)
    assert line.startswith(f"{tmp_path}: has no modules.symbols for kernel '6.12.0-test'; allowed is")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no recording"),
        ("[" * 100_000, "is no recording"),
        ('{"version": 2}', "has version 2, allowed is 1"),
        (
            json.dumps({"version": 1, "kernel": "", "command": [], "status": 0, "lost": 0, "runs": [3]}),
            "is no recording",
        ),
        (
            json.dumps({"version": 1, "kernel": "", "command": "x", "status": 0, "lost": 0, "runs": []}),
            "is no recording",
        ),
    ],
)
def test_a_recording_that_is_none_is_refused(content: str, message: str, driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "ran.json"
    path.write_text(content, encoding="utf-8")
    assert refused("--ran", path, driver.module).startswith(f"{path}: {message}")


def _damaged(driver: Any, place: int, form: str, value: int) -> str:
    content = bytearray(driver.module.read_bytes())
    struct.pack_into(form, content, place, value)
    driver.module.write_bytes(content)
    return refused(driver.module)


@pytest.mark.parametrize(
    ("place", "form", "value", "message"),
    [
        (SHNUM, "<H", 0, "has 0 sections"),
        (SHNUM, "<H", 0xFFFF, "has 65535 sections of 64 bytes in its header, allowed are 1 to 4096"),
        (SHENTSIZE, "<H", 0, "sections of 0 bytes in its header"),
        (SHOFF, "<Q", 1 << 62, "and its sections are listed at"),
        (SHSTRNDX, "<H", 0x7000, "takes names from section 28672"),
    ],
)
def test_numbers_that_cannot_be_are_refused(driver: Any, place: int, form: str, value: int, message: str) -> None:
    assert message in _damaged(driver, place, form, value)


def test_a_symbol_table_takes_its_names_from_a_section_that_is_there(driver: Any) -> None:
    content = driver.module.read_bytes()
    start, count = struct.unpack_from("<Q", content, SHOFF)[0], struct.unpack_from("<H", content, SHNUM)[0]
    refusals = ""
    for number in range(count):
        changed = bytearray(content)
        struct.pack_into("<I", changed, start + number * 64 + 0x28, 0x7000)
        refusals += _refusal(driver.module, bytes(changed))
    assert "has a symbol table of" in refusals


def test_more_information_than_any_module_has_is_refused(driver: Any, tmp_path: Path) -> None:
    content, place = bytearray(driver.module.read_bytes()), len(driver.module.read_bytes())
    start, count = struct.unpack_from("<Q", content, SHOFF)[0], struct.unpack_from("<H", content, SHNUM)[0]
    length = (1 << 20) + 1
    for number in range(count):
        header = start + number * 64
        offset, size = struct.unpack_from("<QQ", content, header + 0x18)
        if b"name=probe\0" in content[offset : offset + size]:
            struct.pack_into("<QQ", content, header + 0x18, place, length)
    driver.module.write_bytes(bytes(content) + bytes(length))
    assert "has 1048577 bytes of .modinfo, allowed are 1048576" in refused(driver.module)


@pytest.mark.parametrize("field", [0x18, 0x20])
def test_each_section_ends_within_the_file(driver: Any, field: int) -> None:
    """The offset and the size of every section, or of its entries, is 2^60: none is followed."""
    content = driver.module.read_bytes()
    start, count = struct.unpack_from("<Q", content, SHOFF)[0], struct.unpack_from("<H", content, SHNUM)[0]
    refusals = 0
    for number in range(count):
        changed = bytearray(content)
        struct.pack_into("<Q", changed, start + number * 64 + field, 1 << 60)
        refusals += bool(_refusal(driver.module, bytes(changed)))
    assert refusals >= 5, "names, modinfo, symbols, their names, relocations"


def _refusal(path: Path, content: bytes) -> str:
    """Return the words that refuse a file; empty when it is read."""
    path.write_bytes(content)
    try:
        elf.read(path)
    except UnreadableError as error:
        return str(error)
    return ""


_BYTES = st.sampled_from([0, 1, 2, 3, 7, 8, 0x10, 0x18, 0x40, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255)


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_to_a_module_does_more_than_a_refusal(driver: Any, data: st.DataObject, original: bytes) -> None:
    """Bytes change in the headers, where they matter most, and anywhere; or the end is missing."""
    content = bytearray(original)
    (start,) = struct.unpack_from("<Q", original, SHOFF)
    ranges = st.integers(0, 63) | st.integers(start, len(original) - 1) | st.integers(0, len(original) - 1)
    for place, value in data.draw(st.lists(st.tuples(ranges, _BYTES), min_size=1, max_size=8)):
        content[place] = value
    end = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    refusal = _refusal(driver.module, bytes(content[:end]))
    assert not refusal or (refusal.startswith(f"{driver.module}: ") and "\n" not in refusal)


@pytest.fixture
def original(driver: Any) -> bytes:
    content: bytes = driver.module.read_bytes()
    return content


@given(st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_no_bytes_are_taken_for_a_kernels_image(content: bytes) -> None:
    for payload in (content, gzip.compress(content), lzma.compress(content), gzip.compress(b"\x7fELF" + content)):
        with pytest.raises(image.UnknownImageError):
            image.exports(_image(payload))
    with pytest.raises(image.UnknownImageError):
        image.exports(content)


def _image(payload: bytes) -> bytes:
    """Return an image of the x86 boot protocol with one sector of setup."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 0, len(payload))
    return bytes(head) + payload


_KERNEL = r"""
__asm__(".section __ksymtab_strings,\"a\"\n .ascii \"do_kfree\\0\"\n .ascii \"mutex_lock\\0\"\n"
        ".section __ksymtab,\"a\"\n .long 0, 0 - 4, 0\n .long 0, 3 - 16, 0\n"
        ".section __ksymtab_gpl,\"a\"\n .long 0, 9 - 4, 0\n");
"""


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.compress])
def test_exports_are_read_from_an_image(pack: Callable[[bytes], bytes], driver: Any, tmp_path: Path) -> None:
    """A linker lets a name be the end of another one, so the names are where the table says."""
    kernel = _object(tmp_path, _KERNEL)
    content = _image(pack(kernel))
    assert image.exports(content) == {"do_kfree", "kfree", "mutex_lock"}
    boot = driver.kernel.parents[2] / "boot"
    (boot / "System.map-6.12.0-test").write_text("ffffffffffffffff B The real one is in another package\n")
    (boot / "vmlinuz-6.12.0-test").write_bytes(content)
    result = CliRunner().invoke(main, ["dissect", "--json", "--kernel", str(driver.kernel), str(driver.module)])
    (module,) = json.loads(result.stdout)["modules"]
    assert module["providers"] == str(boot / "vmlinuz-6.12.0-test")
    providers = {need["symbol"]: need["provider"] for need in module["needs"]}
    assert (providers["mutex_lock"], providers["dma_set_mask"]) == ("vmlinux", "unknown")


@pytest.mark.parametrize("distance", ["100", "0 - 100", "0x7fffffff", "19 - 4"])
def test_a_name_outside_of_the_images_names_is_refused(distance: str, tmp_path: Path) -> None:
    kernel = _object(tmp_path, _KERNEL.replace("9 - 4", distance).replace("mutex_lock\\\\0", "mutex_lock"))
    with pytest.raises(image.UnknownImageError):
        image.exports(_image(gzip.compress(kernel)))


def _object(directory: Path, source: str) -> bytes:
    path = directory / "vmlinux"
    argv = ["gcc", "-c", "-x", "c", "-", "-o", str(path)]
    subprocess.run(argv, input=source.encode(), check=True, timeout=60)
    return path.read_bytes()

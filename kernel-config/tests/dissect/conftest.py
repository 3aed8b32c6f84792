"""A driver that is no driver: what gcc makes of a module's sections and symbols, and a kernel's directory for it."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

RELEASE = "6.12.0-test"
_SOURCE = r"""
#define INFO(name, text) static const char name[] __attribute__((section(".modinfo"), used)) = text
INFO(i0, "name=probe");
INFO(i1, "description=A \33[31mprobe [red]");
INFO(i2, "vermagic=6.12.0-test SMP mod_unload");
INFO(i3, "depends=mac80211,oddlib");
INFO(i4, "parm=verbose:How much it says");
INFO(i5, "parmtype=verbose:int");
INFO(i6, "firmware=probe.fw");
static int this_module[16] __attribute__((section(".gnu.linkonce.this_module"), used));
static int exported_entry __asm__("__ksymtab_probe_shared") __attribute__((section("__ksymtab"), used));
static int strings __asm__("__ksymtab_strings") __attribute__((section("__ksymtab"), used));
void ieee80211_queue_work(void), mutex_lock(void), odd_call(void), nowhere(void), dma_set_mask(void);
__asm__(".type odd_call, %function\n"
        ".pushsection .smp_locks, \"a\"\n.long mutex_lock - .\n.popsection\n"
        ".pushsection .discard.probe, \"\"\n.long mutex_lock - .\n.popsection");
int table[256] = {1};
const int constants[64] = {1};
int zeros[1024];
void __attribute__((used)) padding(void) __asm__("__pfx_probe_shared");
void padding(void) {}
__attribute__((section(".init.text"))) int init_module(void) { mutex_lock(); return 0; }
static __attribute__((noinline, used)) void quiet(void) { __asm__ volatile("" ::: "memory"); }
void probe_shared(void)
{
    ieee80211_queue_work(); ieee80211_queue_work(); mutex_lock(); odd_call(); nowhere(); dma_set_mask(); quiet();
}
"""
EXPORTED = ("mutex_lock", "dma_set_mask")
"""What the kernel exports itself."""
Compile = Callable[..., Path]


@dataclass(frozen=True)
class Driver:
    """A module in the directory of its kernel."""

    module: Path
    kernel: Path


@pytest.fixture
def compile_module(tmp_path: Path) -> Compile:
    """Return what compiles a module, with the source's lines replaced and gcc's options added."""

    def compiled(*options: str, **changes: str) -> Path:
        source = _SOURCE
        for old, new in changes.items():
            assert old in source
            source = source.replace(old, new)
        path = tmp_path / "probe.ko"
        argv = ["gcc", "-c", "-O1", "-fno-pic", "-fno-asynchronous-unwind-tables", *options]
        subprocess.run([*argv, "-x", "c", "-", "-o", str(path)], input=source.encode(), check=True, timeout=60)
        return path

    return compiled


@pytest.fixture
def driver(compile_module: Compile, tmp_path: Path) -> Driver:
    """Give a module, and the directory of an installed kernel that it was built for."""
    directory = tmp_path / "root" / "lib" / "modules" / RELEASE
    directory.mkdir(parents=True)
    aliases = ("ieee80211_queue_work mac80211", "odd_call oddlib", "probe_shared probe")
    lines = ["# Aliases for symbols, used by symbol_request().", *(f"alias symbol:{alias}" for alias in aliases)]
    (directory / "modules.symbols").write_text("\n".join(lines) + "\n", encoding="ascii")
    (directory / "modules.dep").write_text(
        "extra/probe.ko.xz: kernel/net/mac80211.ko.xz kernel/oddlib.ko.xz\n", encoding="ascii"
    )
    boot = tmp_path / "root" / "boot"
    boot.mkdir()
    exports = "".join(f"ffffffff81000000 r __ksymtab_{name}\n" for name in EXPORTED)
    (boot / f"System.map-{RELEASE}").write_text(exports, encoding="ascii")
    return Driver(compile_module(), directory)

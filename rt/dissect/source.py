"""What the source of a driver has, counted by Universal Ctags as the dissertation's tables 4 and 5 count it."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from rt.measure.results import MeasurementError
from tests.lab.basics.places import BUILD, REPOSITORY

DRIVER = Path("drivers/net/wireless/broadcom/b43")
TREE = BUILD / "kernel" / "radios"
"""Where `kernel-config/build source` unpacks the source of radios' drivers."""
ITEMS = {
    "struct": "structures",
    "macro()": "macros",
    "union": "unions",
    "prototype": "function prototypes",
    "enum": "enumerations",
    "member": "structure members",
    "macro": "constants",
    "enumerator": "enum constants",
    "variable": "variables",
    "externvar": "external variables",
    "function": "functions",
}
"""What ctags calls each kind of table 5; a macro with parameters is a macro, one without is a constant."""
GROUPS = {
    "bus": "bus",
    "debugfs": "debug",
    "dma": "DMA",
    "leds": "LED control",
    "lo": "local oscillator",
    "main": "main",
    "pcmcia": "PCMCIA",
    "phy_*": "PHY",
    "pio": "parallel I/O",
    "radio_*": "radio tables",
    "rfkill": "radio enable",
    "sdio": "SD card",
    "sysfs": "virtual file system",
    "tables*": "radio tables",
    "wa": "workarounds",
    "xmit": "TX/RX",
}
"""Table 4: the group of a source file by its name."""
_OTHER = "other"


def fetch() -> str:
    """Fetch and unpack the source where it is not there yet; return Debian's version of it."""
    done = subprocess.run([str(REPOSITORY / "kernel-config/build"), "source", "amd64"], check=False)
    if done.returncode:
        raise MeasurementError(f"kernel-config/build source amd64: status {done.returncode}; its message is above")
    return (TREE / ".complete").read_text(encoding="utf-8").strip()


def counted(driver: Path) -> Iterator[tuple[Mapping[str, str], str, float]]:
    """Yield key, unit and value of each count of a driver's folder. Raises MeasurementError."""
    files = sorted([*driver.glob("*.c"), *driver.glob("*.h")])
    if not files:
        raise MeasurementError(f"{driver}: no source file is there")
    lines = {path.name: path.read_bytes().count(b"\n") for path in files}
    for suffix, what in ((".c", "C"), (".h", "headers")):
        of_kind = [count for name, count in lines.items() if name.endswith(suffix)]
        yield {"place": "source", "what": f"files, {what}"}, "count", len(of_kind)
        yield {"place": "source", "what": f"lines, {what}"}, "count", sum(of_kind)
    items, functions = _items(files)
    for kind, what in ITEMS.items():
        yield {"place": "source", "what": what}, "count", items[kind]
    yield from _shares("lines", Counter(lines))
    yield from _shares("functions", functions)


def headers(header: Path) -> int:
    """Return how many headers of the system a header includes."""
    text = header.read_text(encoding="utf-8")
    return sum(line.startswith("#include <") for line in text.splitlines())


def group(name: str) -> str:
    """Return the group of a source file."""
    stem = name.rpartition(".")[0]
    return next((label for pattern, label in GROUPS.items() if fnmatchcase(stem, pattern)), _OTHER)


def _shares(what: str, by_file: Mapping[str, int]) -> Iterator[tuple[Mapping[str, str], str, float]]:
    """Yield the share of each group in per cent, the largest first."""
    by_group: Counter[str] = Counter()
    for name, count in by_file.items():
        by_group[group(name)] += count
    for label, count in by_group.most_common():
        yield {"place": "groups", "what": what, "group": label}, "%", 100 * count / sum(by_group.values())


def _items(files: list[Path]) -> tuple[Counter[str], Counter[str]]:
    """Return the items by kind, and the functions by file."""
    argv = ["ctags", "--output-format=json", "--languages=C", "--langmap=C:+.h", "--kinds-C=defgmpsuvx", "--fields=+S"]
    try:
        done = subprocess.run([*argv, "-f", "-", *map(str, files)], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MeasurementError(f"ctags: {error}; `tools/setup bench` installs universal-ctags") from error
    items: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        kind = tag["kind"]
        items["macro()" if kind == "macro" and "signature" in tag else kind] += 1
        if kind == "function":
            functions[Path(tag["path"]).name] += 1
    return items, functions

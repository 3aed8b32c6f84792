"""What the shipped programs contain, by cargo. Nothing is fetched: what was built has all sources here."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).resolve().parent.parent / "daemon/Cargo.toml"
SHIPPED = ("olsrv2d", "olsrv2-signer", "overlayd")
"""Built together, so that each has the features that any of them asks its crates for."""

_LINE = re.compile(r"(\S+) v(\S+)")


def linked(program: str, target: str) -> list[dict[str, Any]]:
    """Return cargo's metadata of the crates from a registry that are linked into a program, by name.

    Procedural macros run in the compiler and are not linked. Features that only tests use are not counted.
    """
    if program not in SHIPPED:
        raise SystemExit(f"{program} is none of the shipped programs: {', '.join(SHIPPED)}")
    names = _tree(target)[program]
    found = [
        package
        for package in json.loads(_cargo("metadata", "--format-version=1", "--filter-platform", target))["packages"]
        if package["source"] and (package["name"], package["version"]) in names
    ]
    return sorted(found, key=lambda crate: (crate["name"], crate["version"]))


def _tree(target: str) -> dict[str, set[tuple[str, str]]]:
    """Return name and version of the crates in each program."""
    options = ["--target", target, "--edges=normal,no-proc-macro", "--prefix=none", "--no-dedupe", "--format={p}"]
    packages = [f"--package={name}" for name in SHIPPED]
    found: dict[str, set[tuple[str, str]]] = {}
    for block in _cargo("tree", *options, *packages).strip().split("\n\n"):
        crates = _LINE.findall(block)
        found[crates[0][0]] = set(crates[1:])
    return found


def _cargo(*arguments: str) -> str:
    argv = ["cargo", *arguments, "--locked", "--offline", "--manifest-path", str(MANIFEST)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

"""Whether olsrv2d's configuration file is still what ``meshsec export olsrv2d`` writes."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from meshsec import files
from meshsec.cli import export
from meshsec.cli.app import App
from meshsec.core.config.routing_settings import RoutingDaemon
from meshsec.core.explain.findings import Check, Level

if TYPE_CHECKING:
    from meshsec.core.values.model import EspBackend

DERIVED = Path("/var/cache/olsrv2d/olsrv2d.toml")
"""What the unit derives at each start and reload; a symbolic link to ``OWN`` while that is used instead (ADR 0068)."""
OWN = Path("/etc/olsrv2d/olsrv2d.toml")
"""The operator's file, and where a node without systemd has what is exported."""
_NAME = "routing configuration"
_LIMIT = 1 << 20
"""Bytes: a file with thousands of accepted networks fits."""


def checks(app: App, backend: "EspBackend") -> list[Check]:
    """Compare the file with what meshsec.toml asks for. A file that somebody wrote by hand is not compared."""
    if app.settings.routing.daemon is not RoutingDaemon.OLSRV2D:
        return []
    try:
        wanted = export.olsrv2d(app, backend)
        if not files.exists(DERIVED):
            return _compared(OWN, wanted, f"meshsec export olsrv2d > {OWN} && systemctl restart olsrv2d")
        return [*_compared(DERIVED, wanted, "systemctl reload olsrv2d"), *_left_over(wanted)]
    except (files.FileError, tomllib.TOMLDecodeError):  # olsrv2d itself says what is wrong with it
        return []


def _compared(path: Path, wanted: str, fix: str) -> list[Check]:
    text = files.read(path, _LIMIT)
    if not _is_exported(text, wanted):
        return []
    differing = _differing(tomllib.loads(text), tomllib.loads(wanted))
    if not differing:
        return [Check(_NAME, Level.OK, f"{path} is what meshsec.toml asks for")]
    found = f"{path} is not what meshsec.toml and the trust store ask for: {', '.join(differing)}"
    return [Check(_NAME, Level.WARN, found, fix)]


def _left_over(wanted: str) -> list[Check]:
    """Report a file of an earlier `meshsec export`, which the unit does not use any more."""
    if DERIVED.is_symlink() or not files.exists(OWN) or not _is_exported(files.read(OWN, _LIMIT), wanted):
        return []
    found = f"{OWN}, which `meshsec export` wrote, is not used any more: olsrv2d's unit derives its configuration"
    return [Check(_NAME, Level.WARN, found, f"rm {OWN}")]


def _is_exported(text: str, wanted: str) -> bool:
    return text.startswith(wanted.partition("\n")[0])


def _differing(found: dict[str, object], wanted: dict[str, object]) -> list[str]:
    return sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))

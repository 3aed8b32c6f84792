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

PATH = Path("/etc/olsrv2d/olsrv2d.toml")
"""Where the unit and the guide have it."""
_LIMIT = 1 << 20
"""Bytes: a file with thousands of accepted networks fits."""


def checks(app: App, backend: "EspBackend") -> list[Check]:
    """Compare the file with what meshsec.toml asks for; a file that somebody wrote by hand is his own matter."""
    if app.settings.routing.daemon is not RoutingDaemon.OLSRV2D:
        return []
    try:
        text = files.read(PATH, _LIMIT)
        wanted = export.olsrv2d(app, backend)
        if not text.startswith(wanted.partition("\n")[0]):
            return []
        differing = _differing(tomllib.loads(text), tomllib.loads(wanted))
    except (files.FileError, tomllib.TOMLDecodeError):  # olsrv2d itself says what is wrong with it
        return []
    if not differing:
        return [Check("routing configuration", Level.OK, f"{PATH} is what meshsec.toml asks for")]
    found = f"{PATH} is not what meshsec.toml and the trust store ask for: {', '.join(differing)}"
    fix = f"meshsec export olsrv2d > {PATH} && systemctl restart olsrv2d"
    return [Check("routing configuration", Level.WARN, found, fix)]


def _differing(found: dict[str, object], wanted: dict[str, object]) -> list[str]:
    return sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))

"""Our packages, made once more from the same sources where everything that must not matter is different.

Another path and another order of files in their directories (in a file system of its own in memory), another time zone,
umask and locale. The page, the manuals and the completions are made again there. The programs are taken over unless
``compiled``: compiling takes minutes.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.lab.basics import shell
from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY

_SECONDS = 600.0
_COMPILING_SECONDS = 3000.0
_LOCALE = "tr_TR"
"""Sorts and changes case in its own ways: a capital i has a dot there."""
_LENT = (".git", ".venv", "build/audit", "build/node")
"""Tools, which are no sources."""
_MODULES = "daemon/page/node_modules"
"""Node's packages. The bundler finds out what they are by their paths, so a link does not do."""
_SETUP = [f"--old-file=build/stamps/{name}" for name in ("system", "python", "page")]
"""What these stamps say is true of the lent tools."""
_SCRIPT = """
mount -t tmpfs -o mode=0755 tmpfs "$1"
git ls-files -z --cached --others --exclude-standard | sort --zero-terminated --reverse |
    tar --create --null --no-recursion --files-from=- | tar --extract --no-same-permissions --directory="$1"
mkdir -p "$1/build"
for name in $LENT; do ln -s "$PWD/$name" "$1/$name"; done
mkdir "$1/$MODULES"
mount --bind "$MODULES" "$1/$MODULES"
cp -r build/bin "$1/build"
cd "$1"
shift
make --silent "$@"
exec tools/deb "$RELEASE" "$ARCHITECTURE"
"""


def obstacle() -> str | None:
    """Return why packages cannot be made in such a way here, or None."""
    return None if Path("/usr/share/i18n/locales", _LOCALE).exists() else "not installed: locales"


def made_again(
    release: str, architecture: str, place: Path, settings: Mapping[str, str], *, compiled: bool = False
) -> dict[str, Path]:
    """Make our packages in ``place``, and return all of them by file name."""
    sources = place / "another" / "path"
    sources.mkdir(parents=True)
    locales = place / "locales"
    locales.mkdir()
    shell.run(["localedef", "-i", _LOCALE, "-f", "UTF-8", str(locales / f"{_LOCALE}.UTF-8")])
    changed = {"LC_ALL": f"{_LOCALE}.UTF-8", "LOCPATH": str(locales), "TZ": "<+14>-14", "PYTHONHASHSEED": "1"}
    built = {
        "CARGO_TARGET_DIR": str(place / "target"),
        "PYTHONPATH": str(sources / "daemon"),
        "OUT": str(place / "out"),
    }
    words = {"LENT": " ".join(_LENT), "MODULES": _MODULES, "RELEASE": release, "ARCHITECTURE": architecture}
    targets = ["docs", "page", *(["programs"] if compiled else [])]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", _SCRIPT, "sh", str(sources), *targets, *_SETUP],
        cwd=REPOSITORY,
        env={**os.environ, **changed, **built, **words, **settings},
        umask=0o027,
        timeout=patient(_COMPILING_SECONDS if compiled else _SECONDS),
        capture_output=True,
        text=True,
        check=False,
    )
    shell.checked(done)
    return {path.name: path for path in (place / "out").glob("*.deb")}

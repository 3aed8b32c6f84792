"""Packages of Debian's archive that the test fleet's mirror does not offer, because they are large."""

from collections.abc import Sequence
from pathlib import Path

from tests.lab.basics import shell
from tests.lab.machines import fleet_root
from tests.lab.machines.guest_root import sources_of, write_apt_settings

_SECONDS = 900.0


def fetched(suite: str, names: Sequence[str], directory: Path) -> list[Path]:
    """Fetch these packages, and all that they need beyond a bare root of ``fleet_root``, into ``directory``."""
    for place in ("lists/partial", "archives/partial"):
        (directory / place).mkdir(parents=True)
    (directory / "sources").write_text(sources_of(suite), encoding="ascii")
    write_apt_settings(directory / "apt.conf")
    debian = fleet_root.built(suite, print)
    with debian.in_use() as base:
        settings = {
            "Dir::Etc::sourcelist": directory / "sources",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": directory / "lists",
            "Dir::State::status": base / "var/lib/dpkg/status",
            "Dir::Cache": directory,
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false",
            "Acquire::Languages": "none",
        }
        options = [f"--option={name}={value}" for name, value in settings.items()]
        apt = ["env", f"APT_CONFIG={directory / 'apt.conf'}", "apt-get", "-q", "-y", *options]
        shell.run([*apt, "update"], timeout=_SECONDS)
        shell.run([*apt, "install", "--download-only", *names], timeout=_SECONDS)
    return sorted((directory / "archives").glob("*.deb"))

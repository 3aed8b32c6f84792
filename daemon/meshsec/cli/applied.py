"""What ``meshsec up`` does so that the configuration is in force, on a node that runs as well as on a new one."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import credential
from meshsec.adapters.ike import strongswan_conf
from meshsec.cli import export
from meshsec.cli.app import App
from meshsec.cli.client import Client
from meshsec.core.config.routing_settings import RoutingDaemon

_UNITS = (
    "meshsecd.service",
    "meshsec-page.service",
    "meshsec-clients.service",
    "meshsec-dnsmasq.service",
    "meshsec-dns-sd.service",
    "meshsec-zeroize.service",
)
"""What reads meshsec.toml when it starts. A unit whose condition is not met is skipped. SAs and rules stay."""
_ACCESS_POINT = "meshsec-hostapd.service"
"""It reads the file, too, and runs only where [access] has a radio: a password alone starts it in vain."""
_ROUTER = "olsrv2d.service"
OVERLAY = Path("/etc/overlayd/overlayd.toml")
_IKE_FILE = "strongswan.conf"
_IKE_FILE_LIMIT = 1 << 16
"""Bytes of a strongswan.conf."""
_CLIENTS_FILE = "dnsmasq.conf"
_LIMIT = 1 << 20
"""Bytes of a dnsmasq.conf."""
_ROOTS_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
"""Where the units look for programs."""


def check_access(app: App) -> None:
    """Name what an access node lacks, with the command that brings it. Raises ClickException."""
    access = app.settings.access
    if not access.networks:
        return
    _need_program(app, "dnsmasq", "dnsmasq-base")
    if access.radio is None:
        return
    _need_program(app, "hostapd", "hostapd")
    if not credential.is_stored(credential.ACCESS_PASSWORD):
        path = credential.STORE / credential.ACCESS_PASSWORD
        raise click.ClickException(
            f"{app.config}: [access] has a radio, and the password of the access point is missing: "
            f"`install -D -m 0600 /dev/stdin {path}` takes it from standard input"
        )


def _need_program(app: App, program: str, package: str) -> None:
    if shutil.which(program, path=_ROOTS_PATH) is None:
        raise click.ClickException(f"{app.config}: [access] needs {program}: `apt install {package}`")


def set_clients_file(app: App) -> bool:
    """Write dnsmasq.conf on an access node, and remove it on any other. Return whether it has changed.

    A file that somebody wrote by hand stays.
    """
    path = app.config.parent / _CLIENTS_FILE
    found = files.read(path, _LIMIT) if files.exists(path) else ""
    wanted = export.dnsmasq_conf(app) if app.settings.access.networks else ""
    if found == wanted:
        return False
    if found and found.partition("\n")[0] != f"# {export.DNSMASQ_COMMENT}":
        click.echo(f"{path}: kept, because it was not written by `meshsec export dnsmasq`")
        return False
    if wanted:
        files.write(path, wanted.encode(), 0o644)
    else:
        files.remove(path)
    click.echo(f"{path}: {'written' if wanted else 'removed, because [access] has no networks'}")
    return True


def is_stale(app: App) -> bool:
    """Return whether the file has changed since meshsecd read it."""
    with Client(app.socket) as client:
        checks = client.call("doctor").get("checks", [])
    return any(check["name"] == "configuration" and check["level"] != "ok" for check in checks)


def restart(app: App, radios: Sequence[str]) -> None:
    """Let what neither interrupts the mesh nor ends SAs read the configuration again, and say what remains.

    ``radios`` are the interfaces that meshsec-radio brings up. Units that somebody has masked stay as they are.
    """
    if app.settings.access.radio is None:
        systemd.run("systemctl", "stop", _ACCESS_POINT)
        wanted: tuple[str, ...] = _UNITS
    else:
        wanted = (*_UNITS, _ACCESS_POINT)
    systemd.run("systemctl", "restart", *(unit for unit in wanted if not systemd.is_masked(unit)))
    if systemd.is_active(_ROUTER):
        systemd.run("systemctl", "reload", _ROUTER)
    remaining = list(_remaining(app, radios))
    if not remaining:
        click.echo("The changed configuration is in force.")
        return
    click.echo("The changed configuration is in force, except for what would interrupt the mesh:")
    for line in remaining:
        click.echo(f"  {line}")


def _remaining(app: App, radios: Sequence[str]) -> Iterator[str]:
    """Say which changes need another command. Which tables have changed is not known, but which programs run here."""
    if radios:
        units = " ".join(f"meshsec-radio@{name}" for name in radios)
        yield f"if you changed [radio]: `systemctl restart {units}`"
    if _ike_differs(app):
        yield "the IKE daemon needs another configuration: `systemctl restart meshsec-ike`, which ends all SAs"
    if files.exists(OVERLAY):
        yield f"if you changed [overlay]: `meshsec export overlayd > {OVERLAY}`, `systemctl restart overlayd`"
    if app.settings.routing.daemon is RoutingDaemon.OLSRD2:
        yield "if you changed [routing]: start olsrd2 again with what `meshsec export olsrd2` prints"


def _ike_differs(app: App) -> bool:
    """Return whether charon was started with another configuration than that which follows now."""
    path = Path(app.settings.paths.run) / _IKE_FILE
    if not files.exists(path):
        return False
    try:
        return files.read(path, _IKE_FILE_LIMIT) != export.strongswan(app)
    except strongswan_conf.PluginMissingError:  # meshsec-ike says so at its next start
        return False

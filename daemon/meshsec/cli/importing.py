"""``meshsec import``: what another program's configuration means to ours."""

from dataclasses import replace
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters import cjdroute_file
from meshsec.cli.app import App
from meshsec.cli.output import facts
from meshsec.core import identity, overlay_conf, overlay_key
from meshsec.core.overlay_conf import OverlayConf

_MODE = 0o600
"""It has passwords."""
_COMMENT = "Written by `meshsec import` from {}."


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("/etc/overlayd/overlayd.toml"),
    show_default=True,
    help="Where overlayd's configuration is written.",
)
@click.option("--check", is_flag=True, help="Only say what would be taken over; write nothing.")
@click.option(
    "--anybody",
    is_flag=True,
    help="Exchange user data with every node, as cjdns does; without it with nobody until it is permitted.",
)
@click.pass_obj
def import_(app: App, file: Path, into: Path, check: bool, anybody: bool) -> None:
    """Make overlayd's configuration from a cjdroute.conf.

    Interfaces, neighbours, authorised passwords, the admin API and the TUN device are taken over. What is not is named
    with the reason. The private key is not: this node keeps its own, with another address, which is printed.
    """
    found = cjdroute_file.load(file)
    conf = replace(found.imported.conf, anybody=anybody)
    own = identity.x25519_public(app.card.public_key)
    if not check:
        _write(into, overlay_conf.render(conf, app.settings.paths.key, _COMMENT.format(file.name)))
    for line in found.ignored:
        click.echo(f"not imported: {line}")
    facts(_taken(conf))
    facts({"key": overlay_key.encode(own), "address": app.card.address})
    _tell_others(found.imported.key, overlay_key.encode(own))


def _write(path: Path, text: str) -> None:
    if files.exists(path):
        raise click.ClickException(f"{path} exists and is kept; move it away, or write to another by --into")
    files.make_directory(path.parent)
    files.write(path, text.encode(), _MODE, replace=False)
    click.echo(f"{path}: written, for its owner alone: it has passwords")


def _taken(conf: OverlayConf) -> dict[str, object]:
    return {
        "UDP": ", ".join(udp.bind for udp in conf.udp) or "none",
        "Ethernet": ", ".join(ethernet.device for ethernet in conf.ethernet) or "none",
        "neighbours": conf.neighbours,
        "passwords": len(conf.users),
        "admin API": conf.admin.bind if conf.admin else "none",
        "user data": "with every node" if conf.anybody else "with nobody until it is permitted",
    }


def _tell_others(before: str | None, own: str) -> None:
    if before is not None and before != own:
        click.echo(f"\nThose who connect to this node must know its new key in place of {before}.")

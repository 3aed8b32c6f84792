"""``meshsec import``: what another program's configuration means to ours."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.ike import ipsec_conf_file
from meshsec.adapters.overlay import cjdroute_file
from meshsec.cli.app import App
from meshsec.cli.output import facts
from meshsec.core.formats import ipsec_conf, overlay_key, overlayd, toml
from meshsec.core.formats.ipsec_conf import OldPeer
from meshsec.core.formats.overlayd import OverlayConf
from meshsec.core.trust import identity

_MODE = 0o600
"""It has passwords."""
_PROFILE_MODE = 0o644
_COMMENT = "Written by `meshsec import` from {}."


class _Kinds(click.Group):
    """A file without a kind before it is cjdns's: so the command was before there were kinds."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["cjdns", *args]
        return super().parse_args(ctx, args)


@click.group("import", cls=_Kinds)
def import_() -> None:
    """Take over another program's configuration: `cjdns FILE`, which a FILE alone means, or `libreswan FILE`."""


@import_.command()
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
def cjdns(app: App, file: Path, into: Path, check: bool, anybody: bool) -> None:
    """Make overlayd's configuration from a cjdroute.conf.

    Interfaces, neighbours, authorised passwords, the admin API and the TUN device are taken over. What is not is named
    with the reason. The private key is not: this node keeps its own, with another address, which is printed.
    """
    found = cjdroute_file.load(file)
    conf = replace(found.imported.conf, anybody=anybody)
    own = identity.x25519_public(app.card.public_key)
    if not check:
        _write(into, overlayd.render(conf, app.settings.paths.key, _COMMENT.format(file.name)))
    for line in found.ignored:
        click.echo(f"not imported: {line}")
    facts(_taken(conf))
    facts({"key": overlay_key.encode(own), "address": app.card.address})
    _tell_others(found.imported.key, overlay_key.encode(own))


@import_.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=Path("/etc/ipsec.conf"))
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("/etc/meshsec/policies/libreswan.toml"),
    show_default=True,
    help="Where the policy profile is written.",
)
@click.option("--check", is_flag=True, help="Only say what would be taken over; write nothing.")
def libreswan(file: Path, into: Path, check: bool) -> None:
    """Make a policy profile from an ipsec.conf, and say whose cards are needed.

    Proposals and lifetimes are taken over, with those of included files. Keys are not: a peer is trusted by its card.
    What is not carried over is named, with its file and line.
    """
    found = ipsec_conf.decode(ipsec_conf_file.load(file))
    if found.profile and not check:
        _write_profile(into, found.profile, file)
    for line in found.ignored:
        click.echo(f"not imported: {line}")
    facts(
        {
            name: ", ".join(map(str, value)) if isinstance(value, list) else value
            for name, value in found.profile.items()
        }
    )
    for peer in found.peers:
        _tell_peer(peer)
    if not found.profile:
        click.echo("No proposal and no lifetime is there to be taken over: the policy stays as it is.")


def _write_profile(path: Path, profile: Mapping[str, object], file: Path) -> None:
    if files.exists(path):
        raise click.ClickException(f"{path} exists and is kept; move it away, or write to another by --into")
    lines = [f"# {_COMMENT.format(file.name)} What is not here is as in the default profile."]
    lines += [f"{name} = {toml.encode(value)}" for name, value in profile.items()]
    files.make_directory(path.parent)
    files.write(path, ("\n".join(lines) + "\n").encode(), _PROFILE_MODE, replace=False)
    click.echo(f'{path}: written; in force with [policy] profile = "{path.stem}"')


def _is_name(name: str) -> bool:
    try:
        return bool(identity.checked_name(name))
    except identity.IdentityError:
        return False


def _tell_peer(peer: OldPeer) -> None:
    """Names of connections may be none that a peer here can have; then one is to be chosen."""
    identity = f" as {peer.identity}" if peer.identity else ""
    key = f", {peer.key}" if peer.key else ""
    name = peer.name.lower() if _is_name(peer.name.lower()) else "NAME"
    line = f"peer {peer.name}: {peer.address}{identity}{key}, auto={peer.auto}"
    click.echo(f"{ipsec_conf.shown(line)}; needed: its card, `meshsec peer add {name} CARD`")


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

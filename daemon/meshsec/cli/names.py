"""``meshsec ip``, ``meshsec ping`` and ``meshsec ssh``: reach a peer by the name that it has on this node.

They go by the trust store, so that no resolver and no /etc/hosts decides who is reached.
"""

import os
from collections.abc import Mapping
from difflib import get_close_matches

import click

from meshsec.cli import trusted
from meshsec.cli.app import App, peer_names
from meshsec.cli.client import Client, DaemonAbsentError, DaemonError
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.names.names import DOMAIN, Named, named

SCHEMA = "meshsec-names-1"
_PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]}
_PACKAGES = {"ping": "iputils-ping", "ssh": "openssh-client"}

_name = click.argument("name", shell_complete=peer_names)
_further = click.argument("further", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)


@click.command
@click.argument("name", required=False, shell_complete=peer_names)
@json_option
@click.pass_obj
def ip(app: App, name: str | None, as_json: bool) -> None:
    """Print the addresses of the peer NAME, the one to try first at the top; without NAME those of all.

    This node's own name is among them.
    """
    found = _all(app)
    shown = list(found.values()) if name is None else [_found(found, name)]
    if as_json:
        print_json({"schema": SCHEMA, "names": [{"name": one.full, "addresses": _texts(one)} for one in shown]})
    elif name is None:
        print_table(("NAME", "ADDRESSES"), ((one.full, ", ".join(_texts(one))) for one in shown))
    else:
        click.echo("\n".join(_texts(shown[0])))


@click.command(context_settings=_PASSED_ON)
@_name
@_further
@click.pass_obj
def ping(app: App, name: str, further: tuple[str, ...]) -> None:
    """Run ping(8) with the address of the peer NAME. Further arguments are ping's: meshsec ping bravo -c 3."""
    peer = _found(_all(app), name)
    _warn(app, peer)
    _become(["ping", *further, str(peer.addresses[0])])


@click.command(context_settings=_PASSED_ON)
@click.argument("name", metavar="[USER@]NAME", shell_complete=peer_names)
@_further
@click.pass_obj
def ssh(app: App, name: str, further: tuple[str, ...]) -> None:
    """Run ssh(1) with the address of the peer NAME. Further arguments are ssh's: meshsec ssh root@bravo uptime.

    ssh knows the host by its name in the mesh, as with `ssh bravo.mesh`.
    """
    user, at, host = name.rpartition("@")
    peer = _found(_all(app), host)
    _warn(app, peer)
    options = ["-o", f"HostName={peer.addresses[0]}", "-o", f"HostKeyAlias={peer.full}"]
    _become(["ssh", *options, f"{user}{at}{peer.full}", *further])


def _all(app: App) -> Mapping[str, Named]:
    own = [app.card, *filter(None, [app.next_card])]
    return {one.name: one for one in named(own, trusted.load_here(app).peers.values())}


def _found(known: Mapping[str, Named], name: str) -> Named:
    plain = name.removesuffix(f".{DOMAIN}")
    if plain in known:
        return known[plain]
    near = get_close_matches(plain, known, n=1)
    hint = f"perhaps {near[0]!r} is meant; " if near else ""
    raise click.ClickException(
        f"{name!r} is the name of no peer: {hint}`meshsec peer list` shows them, `meshsec peer add NAME CARD` adds one"
    )


def _texts(one: Named) -> list[str]:
    return [str(address) for address in one.addresses]


def _warn(app: App, peer: Named) -> None:
    """Say why a peer may not answer. Nothing is kept from being tried: its state may change within a second."""
    if peer.name == app.card.name:
        return
    try:
        with Client(app.socket) as client:
            view = client.call("status")
    except (DaemonAbsentError, DaemonError) as error:
        click.echo(f"{peer.name} may not be in reach: {error}", err=True)
        return
    found = next((one for one in view["peers"] if one["name"] == peer.name), None)
    if found is not None and found["data_plane"] is None:
        click.echo(
            f"{peer.name} does not answer now, its state is {found['state']}: {found['reason']}; "
            f"`meshsec explain {peer.name}` says more",
            err=True,
        )


def _become(argv: list[str]) -> None:
    """Run a program in the place of this one."""
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the system's own program, and no shell
    except FileNotFoundError:
        raise click.ClickException(f"{argv[0]} is not installed: apt install {_PACKAGES[argv[0]]}") from None

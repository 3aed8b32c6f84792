"""``meshsec doctor``: what is wrong with this node, and how to fix it."""

import asyncio
import pwd
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from meshsec import files
from meshsec.adapters import chrony, network_manager
from meshsec.adapters.files import trust_store
from meshsec.adapters.files.config_file import ConfigError
from meshsec.adapters.files.key_store import KeyStoreError
from meshsec.adapters.kernel import firewalls, netlink, udp_sockets
from meshsec.adapters.routing import signer_state
from meshsec.cli import dated, key_sealing, names_check, router_file
from meshsec.cli.app import DEGRADED, FAILED, App
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.output import json_option, print_json
from meshsec.core.config.routing_settings import Signatures
from meshsec.core.explain import doctor as judge
from meshsec.core.explain import firewall_doctor, neighbours_doctor, signing
from meshsec.core.explain.findings import Check, Level
from meshsec.core.ike import udp_ports
from meshsec.core.trust import identity
from meshsec.core.values.model import EspBackend

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_EXIT_CODES = {"ok": 0, "warn": DEGRADED, "fail": FAILED}


@click.command
@json_option
@click.pass_obj
def doctor(app: App, as_json: bool) -> None:
    """Examine this node: what is wrong, and how to fix it.

    Without meshsecd its files are examined. Exit codes: 0 all well, 3 a warning, 1 something fails.
    """
    view = _examined(app)
    if as_json:
        print_json(view)
    else:
        for check in view["checks"]:
            _print(check)
    sys.exit(_EXIT_CODES[view["verdict"]])


def _examined(app: App) -> Mapping[str, Any]:
    try:
        with Client(app.socket) as client:
            backend = EspBackend(client.call("status")["esp_ground"])
            own = [*_always(app), *_ports(), *router_file.checks(app, backend)]
            found = client.call("doctor")
            return judge.with_checks(found, [*own, *_firewalls(app, found["checks"]), *_managed(app)])
    except ConfigError as error:
        fix = "correct the lines named" if files.exists(app.config) else "meshsec up"
        return judge.view([Check("configuration", Level.FAIL, str(error), fix)])
    except DaemonAbsentError as error:
        absent = Check("meshsecd", Level.FAIL, str(error), "systemctl start meshsecd, or run meshsecd")
        return judge.view([absent, _key(app), _trust(app), *_addresses(app), *_always(app)])


def _always(app: App) -> list[Check]:
    """Return the checks that meshsecd does not make, and that need none."""
    return [dated.check(app), *_time(app), *names_check.checks(app), *_signer(app), *key_sealing.checks(app)]


def _signer(app: App) -> list[Check]:
    """Asked here, because meshsecd follows the change stream alone. The check of the router says if it is away."""
    try:
        routing = app.settings.routing
        if routing.signing is Signatures.OFF:
            return []
        state = signer_state.ask(Path(routing.socket))
    except (ConfigError, signer_state.SignerStateError):
        return []
    return [signing.signer(state.signer, state.verified)]


def _time(app: App) -> list[Check]:
    """Asked here, because chronyd's socket is root's: meshsecd's confinement need not be opened for it."""
    try:
        time = app.settings.time
    except ConfigError:  # meshsecd has what was in force before, and says so
        return []
    return [chrony.check(time.socket)] if time else []


def _ports() -> list[Check]:
    """Judge who holds the ports of IKE: root sees every program; the confined meshsecd sees none of other users."""
    checks = []
    for one in udp_ports.judge(udp_ports.parse(udp_sockets.table())).held:
        pid, program = udp_sockets.holder(one.inode) or (0, "")
        found = f"UDP {one.port} is held by user {_user(one.uid)}" + (f", process {pid} ({program})" if pid else "")
        fix = f"kill {pid}" if pid else f"as root: ss -lunp 'sport = :{one.port}'"
        checks.append(Check("IKE ports", Level.FAIL, found, fix))
    return checks


def _firewalls(app: App, found: Iterable[Mapping[str, str]]) -> list[Check]:
    """Judge other firewalls. ``found`` says whether a neighbour is heard."""
    hears = any(check["name"] == neighbours_doctor.NAME and check["level"] == Level.OK for check in found)
    return firewall_doctor.judged(firewalls.closed(), app.settings.routing.interfaces, hears=hears)


def _managed(app: App) -> list[Check]:
    """Warn of mesh interfaces that NetworkManager has, too. What nmcli itself changes ends with the next boot."""
    found = "NetworkManager manages it, too: it changes the addresses, and looks for networks of its own"
    fix = (
        "printf '[keyfile]\\nunmanaged-devices+=interface-name:{0}\\n' >/etc/NetworkManager/conf.d/meshsec-{0}.conf; "
        "systemctl reload NetworkManager"
    )
    managed = network_manager.managed(app.settings.routing.interfaces)
    return [Check(f"interface {name}", Level.WARN, found, fix.format(name)) for name in managed]


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)


def _key(app: App) -> Check:
    try:
        return Check("key", Level.OK, f"{app.card.name}, {app.card.address}")
    except KeyStoreError as error:
        return Check("key", Level.FAIL, str(error), "as it says, or restore the key file from a backup")


def _addresses(app: App) -> list[Check]:
    """Warn of addresses that another key has left here. meshsecd takes them off, so this is asked while it is away."""
    try:
        cards = [app.card, *filter(None, [app.next_card])]
        assigned = asyncio.run(netlink.assigned())
    except (KeyStoreError, netlink.NetlinkError):
        return []
    stale = identity.stale_addresses(assigned, {one for card in cards for one in (card.address, card.locator)})
    if not stale:
        return []
    found = (
        f"lo has addresses of another key: {', '.join(map(str, sorted(stale)))}; what this node sends to the node that "
        "has it ends here"
    )
    removed = "; ".join(f"ip addr del {one}/128 dev lo" for one in sorted(stale))
    return [Check("own addresses", Level.WARN, found, f"meshsecd takes them off when it starts; without it: {removed}")]


def _trust(app: App) -> Check:
    try:
        peers, problems = trust_store.load(app.peers_directory, app.card)
    except KeyStoreError:
        return Check("trust", Level.WARN, "not examined: this node has no key")
    except trust_store.TrustStoreError as error:
        return Check("trust", Level.FAIL, str(error), f"let root read {app.peers_directory}")
    if problems:
        return Check("trust", Level.WARN, "; ".join(map(str, problems)), "add the cards named again, or remove them")
    return Check("trust", Level.OK, f"{len(peers)} peers")


def _print(check: Mapping[str, str]) -> None:
    click.secho(f"{check['level']:<4}", fg=_COLOURS[check["level"]], bold=True, nl=False)
    click.echo(f"  {check['name']}: {check['found']}")
    if check["mend"]:
        click.echo(f"      fix: {check['mend']}")

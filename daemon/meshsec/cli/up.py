"""``meshsec up``: from an installed package to a running node."""

import os
import time
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters import network_manager, systemd
from meshsec.adapters.files import credential, sysctl_d
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.adapters.kernel import interfaces as kernel
from meshsec.adapters.kernel.interfaces import Interface
from meshsec.adapters.systemd import SystemdError
from meshsec.cli import applied, rivals, setup
from meshsec.cli.app import App
from meshsec.cli.cards import described
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.fleet_options import spoken, wanted
from meshsec.cli.key import draw
from meshsec.cli.output import facts
from meshsec.cli.up_answers import SECURITIES, Answers, Given, answered, asked_fleet
from meshsec.core.islands import paths
from meshsec.core.trust.fleets import Fleet
from meshsec.core.trust.membership import Membership

_TARGET = "meshsec.target"
_SET_SYSCTLS = "/usr/lib/systemd/systemd-sysctl"
_ANSWER_SECONDS = 60.0
"""Time for meshsecd's first answer. It asks the kernel for ESP before, which is slow on some machines."""
_POLL_SECONDS = 0.2


@click.command
@click.option("--name", help="The node's name on its card.")
@click.option("--ipv4", type=setup.ipv4_address, metavar="ADDRESS", help="Its IPv4 mesh address, if it shall have one.")
@click.option("--interface", "interfaces", multiple=True, help="A mesh interface; may be repeated.")
@click.option("--mesh-id", help="With a radio: the mesh's name, the same on all nodes.")
@click.option("--frequency", type=int, metavar="MHZ", help="With a radio: its channel, such as 2412.")
@click.option("--security", type=SECURITIES, help="With a radio: whether neighbours need a password.")
@click.option(
    "--join", "fleet_text", metavar="FLEET", help="A fleet to join: its six words, its card, '@FILE', or '-'."
)
@click.pass_obj
def up(  # noqa: PLR0913, PLR0917  # one for each option
    app: App,
    name: str | None,
    ipv4: IPv4Address | None,
    interfaces: tuple[str, ...],
    mesh_id: str | None,
    frequency: int | None,
    security: str | None,
    fleet_text: str | None,
) -> None:
    """Make this machine a node that runs, and print its card.

    It writes the configuration and the key, stops other IKE daemons, enables and starts meshsec.target, and waits for
    meshsecd. At a terminal it asks for what no option says. A second run keeps all that, and puts a configuration into
    force that was changed since.

    With --join the node asks the fleet's members over the mesh, until the fleet's operator approves it (`meshsec fleet
    approve`).
    """
    if os.geteuid() != 0:
        raise click.ClickException("only root may set up a node: `sudo meshsec up`")
    fleet = wanted(fleet_text) if fleet_text else None
    given = Given(name, ipv4, interfaces, mesh_id, frequency, security)
    present = kernel.present()
    if files.exists(app.config):
        setup.keep(app.config, given=bool(name or ipv4 or interfaces or given.has_radio))
        applied.check_access(app)
    else:
        answers = answered(given, present)
        fleet = fleet or asked_fleet()
        _write(app, answers)
    setup.make_key(app)
    asked = _asked(app, fleet) if fleet else None
    if not systemd.is_booted():
        raise click.ClickException(
            "the node is set up and not started, because this system has no systemd: docs/guide/systemd.md, "
            '"Without systemd", has the commands that start it'
        )
    is_changed = applied.set_clients_file(app)
    is_new = _start(app, present)
    # A meshsecd that ran before reads the fleet. The router is reloaded with it, so only where it matters.
    _wait_answer(app, "reload" if asked else "status")
    if not is_new and (is_changed or applied.is_stale(app)):
        applied.restart(app, _radios(app, present))
        _wait_answer(app, "status")
    _show(app, present, asked)


def _write(app: App, answers: Answers) -> None:
    if answers.password is not None:
        credential.store(credential.SAE_PASSWORD, answers.password)
        click.echo(f"{credential.STORE / credential.SAE_PASSWORD}: written, for root alone")
    setup.write(app.config, answers.name, answers.interfaces, answers.ipv4, answers.radio)


def _asked(app: App, fleet: Fleet | bytes) -> Membership | bytes:
    """Let the node ask a fleet. Return the membership, or what is known of the fleet's key while it is looked for."""
    if isinstance(fleet, Fleet):
        own = [app.card, *filter(None, [app.next_card])]
        return store.join(app.peers_directory, fleet, "", own)
    return store.seek(app.peers_directory, fleet) or fleet


def _start(app: App, present: Sequence[Interface]) -> bool:
    """Enable and start what does not run yet. Return whether meshsec.target is started by this."""
    wanted = [_TARGET, *(f"meshsec-radio@{name}.service" for name in _radios(app, present))]
    is_new = not systemd.is_active(_TARGET)
    if not all(systemd.is_enabled(unit) and systemd.is_active(unit) for unit in wanted):
        systemd.run("systemd-sysusers")
        _set_sysctls()
        systemd.run("systemctl", "daemon-reload")
        rivals.stop(Path(app.settings.paths.state))
        systemd.run("systemctl", "enable", "--now", *wanted)
        click.echo(f"{', '.join(wanted)}: enabled and started")
    return is_new


def _radios(app: App, present: Sequence[Interface]) -> list[str]:
    """Return the mesh interfaces that meshsec-radio brings up; one that is not plugged in yet may be a radio."""
    if app.settings.radios is None:
        return []
    cables = {one.name for one in present if not one.wireless}
    links = {device for link in app.settings.links for device in paths.devices(link.peer)}
    return [name for name in app.settings.routing.interfaces if name not in cables | links]


def _set_sysctls() -> None:
    """Apply the sysctls of the package. A container may not set each of them; `meshsec doctor` says which are wrong."""
    try:
        systemd.run(_SET_SYSCTLS, *sysctl_d.OWN)
    except SystemdError as error:
        click.echo(f"warning: {error}", err=True)


def _wait_answer(app: App, method: str) -> None:
    """Wait for meshsecd. Raises ClickException when it has failed, or does not answer in time."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            with Client(app.socket) as client:
                client.call(method)
        except DaemonAbsentError as error:
            failed = systemd.has_failed("meshsecd.service")
            if failed or time.monotonic() > deadline:
                why = "meshsecd has failed" if failed else f"{error} ({_ANSWER_SECONDS:.0f} s)"
                raise click.ClickException(f"{why}; `journalctl --unit=meshsecd --lines=20` says why") from error
            time.sleep(_POLL_SECONDS)
        else:
            return


def _show(app: App, present: Sequence[Interface], asked: Membership | bytes | None) -> None:
    values = described(app.card, grouped=False)
    click.echo(f"\n{app.card.name} runs. Its card:\n")
    draw(str(values["card"]))
    facts(values)
    for one in present:
        if one.name in app.settings.routing.interfaces and not (one.up or one.wireless):
            click.echo(
                f"\n{one.name} is down, and this machine's network configuration must bring it up. Now: `ip link set "
                f"{one.name} up`. At each boot, with Debian's ifupdown: `printf 'auto {one.name}\\niface {one.name} "
                f"inet manual\\n' >/etc/network/interfaces.d/{one.name}`"
            )
    if managed := network_manager.managed(app.settings.routing.interfaces):
        click.echo(
            f"\nNetworkManager manages {', '.join(managed)}, too; `meshsec doctor` has the commands that keep it away."
        )
    if asked:
        _show_fleet(app, asked)
    trusting = (
        "meshsec fleet requests       where the fleet's key is: shows who asks, and how to let a node in"
        if asked
        else "meshsec peer add NAME CARD   trusts a node by its card; that node must trust this one, too"
    )
    click.echo(
        f"\nNext:\n  {trusting}\n"
        "  meshsec status               shows who is in reach, and whether the traffic is protected\n"
        "  meshsec doctor               says what is wrong, and how to fix it\n"
        "  meshsec help first-hour      leads from here to names, an access point and the page"
    )


def _show_fleet(app: App, asked: Membership | bytes) -> None:
    if isinstance(asked, bytes):
        click.echo(
            f"\n{app.card.name} looks for the fleet over the mesh, and asks it. Its operator approves the node by its "
            "six words above, or by a photo of the QR code on the page (`meshsec page login --approve`)."
        )
    elif asked.of(app.card):
        click.echo(f"\n{app.card.name} is a member of the fleet {asked.fleet.name}: {spoken(asked.fleet)}")
    else:
        click.echo(
            f"\n{app.card.name} asks the fleet {asked.fleet.name} over the mesh. Its operator approves the node by its "
            "six words above, or by a photo of the QR code on the page (`meshsec page login --approve`).\n"
            f"The fleet's own six words: {spoken(asked.fleet)}"
        )

"""``meshsec export``: the configuration of the other daemons, made from ours."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters import scheduler
from meshsec.adapters.files import credential
from meshsec.adapters.files.credential import CredentialError
from meshsec.adapters.ike import strongswan_conf
from meshsec.adapters.kernel import esp_probe
from meshsec.cli import libreswan, swanctl, trusted
from meshsec.cli.app import App
from meshsec.core.channels import nft_rules
from meshsec.core.channels.desired import addresses, in_doubt, rules_spec, with_next, with_overlay, within
from meshsec.core.config.accepted_networks import resolve
from meshsec.core.config.networks import (
    NOT_IN_THE_CLEAR,
    ConfiguredNetworks,
    accepted_in_the_clear,
    beginning,
    configured_networks,
    only_open,
)
from meshsec.core.config.routing_settings import RoutingDaemon, RoutingSettings
from meshsec.core.config.settings import Settings
from meshsec.core.explain.scheduling_doctor import WITHOUT_REALTIME_GROUPS
from meshsec.core.formats import chrony, dnsmasq, drop_ins, hostapd, overlayd, routers
from meshsec.core.islands import paths
from meshsec.core.networks.claims import Claim
from meshsec.core.scheduling.profiles import Profile
from meshsec.core.values.model import Address, Card, EspBackend, Network, Peer, peer_name
from meshsec.core.values.networks import BehindNodes

_KINDS = (
    "olsrv2d",
    "olsrd2",
    "overlayd",
    "strongswan",
    "swanctl",
    "libreswan",
    "nftables",
    "chrony",
    "dnsmasq",
    "hostapd",
    "systemd",
)
_SEVERAL = ("systemd", "libreswan", "swanctl")
_MODE = 0o644
_SYSTEMD = Path("/etc/systemd/system")
DNSMASQ_COMMENT = "Written by `meshsec export dnsmasq`: changes made here are lost."
"""First line of the file, after the sign of a comment. A file without it was written by somebody."""


@click.command
@click.argument("kind", type=click.Choice(_KINDS))
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="With systemd, libreswan, swanctl: write the files below this directory, such as /etc/systemd/system.",
)
@click.option(
    "--secret",
    "by_secret",
    multiple=True,
    metavar="PEER",
    help="With swanctl: a peer that runs libreswan, which authenticates by the pair's secret. May be repeated.",
)
@click.pass_obj
def export(app: App, kind: str, into: Path | None, by_secret: tuple[str, ...]) -> None:
    """Print a configuration for another program.

    \b
    olsrv2d     olsrv2d.toml for our router
    olsrd2      olsrd2.conf for olsr.org's router
    overlayd    overlayd.toml for the overlay's node, as meshsecd needs it
    strongswan  strongswan.conf for charon
    swanctl     connections for a charon that works without meshsecd; with --into all files
    libreswan   ipsec.conf for pluto in charon's place; with --into its secrets, too
    nftables    the fail-closed rules, for `nft -f -`; as meshsecd sets them
    chrony      chrony.conf of a mesh that keeps its own time
    dnsmasq     dnsmasq.conf of an access node: addresses and names for clients
    hostapd     hostapd.conf of its access point, for its unit: it contains the password
    systemd     drop-ins with the scheduling profile's classes for the units, and what a gateway may probe
    """
    if by_secret and kind != "swanctl":
        raise click.UsageError("--secret is for swanctl alone")
    if kind in _SEVERAL:
        _several(app, kind, into, by_secret)
        return
    if into:
        raise click.UsageError(f"--into is for {', '.join(_SEVERAL)} alone: there are several files")
    if kind in _ELSEWHERE:
        click.echo(_ELSEWHERE[kind](app), nl=False)
        return
    backend = _backend(app)
    match kind:
        case "olsrv2d":
            text = olsrv2d(app, backend)
        case "olsrd2":
            text = olsrd2(app, backend)
        case "strongswan":
            text = strongswan(app)
        case _:
            text = _nftables(app, backend)
    click.echo(text, nl=False)


def olsrv2d(app: App, backend: EspBackend) -> str:
    """Return the text of olsrv2d.toml that follows from the configuration and the trust store."""
    if app.settings.routing.daemon is not RoutingDaemon.OLSRV2D:
        daemon = app.settings.routing.daemon.value
        raise click.ClickException(
            f'{app.config}: routing.daemon is "{daemon}", so olsrv2d must not run here: `systemctl mask olsrv2d`, or '
            f'write "{RoutingDaemon.OLSRV2D.value}"'
        )
    routing = only_open(app.settings.routing, app.settings.policy)  # meshsecd announces the others
    return routers.olsrv2d(_announcing(app, backend, routing), app.card, backend, _accepted(app))


def olsrd2(app: App, backend: EspBackend) -> str:
    """Return the text of olsrd2.conf that follows from the configuration."""
    settings = app.settings
    if weighed := [".".join(map(str, where)) for where in settings.routing.weights()]:
        raise click.ClickException(f"olsrd2 has no key for routing.{', routing.'.join(weighed)}: take them out")
    for index, prefix in accepted_in_the_clear(settings.routing, settings.policy):
        raise click.ClickException(
            f"routing.accept.{index}.prefix: {prefix} is not allowed with olsrd2; allowed: {NOT_IN_THE_CLEAR}"
        )
    routing = only_open(settings.routing, settings.policy)  # meshsecd announces the others
    return routers.olsrd2(_announcing(app, backend, routing), app.card, backend)


def _several(app: App, kind: str, into: Path | None, by_secret: tuple[str, ...]) -> None:
    match kind:
        case "systemd":
            _systemd(app, into)
        case "libreswan":
            libreswan.export(app, into)
        case _:
            swanctl.export(app, _backend(app), into, by_secret)


def _overlayd(app: App) -> str:
    if not app.settings.overlay.enabled:
        raise click.ClickException(f"{app.config}: overlay.enabled is false; with true meshsecd works with overlayd")
    comment = "Written by `meshsec export overlayd`: changes made here are lost."
    return overlayd.render(overlayd.of_mesh(app.settings), app.settings.paths.key, comment)


def _chrony(app: App) -> str:
    if (time := app.settings.time) is None:
        raise click.ClickException(f"{app.config}: there is no [time]; its masters say who keeps the mesh's time")
    found = trusted.load(app)
    trusted.tell_problems(found)
    peers = found.peers
    cards = {name: peer.card for name, peer in peers.items()}
    comment = "Written by `meshsec export chrony`: changes made here are lost."
    return chrony.render(time, app.card, cards, app.settings.policy.mesh_prefixes, comment)


def dnsmasq_conf(app: App) -> str:
    """Return the configuration of dnsmasq. Raises ClickException where this node serves no clients."""
    access, paths = app.settings.access, app.settings.paths
    if not access.networks:
        raise click.ClickException(f"{app.config}: [access] has no networks: this node serves no clients")
    comment = DNSMASQ_COMMENT
    places = dnsmasq.Places(f"{paths.run}/access", str(Path(paths.names).parent), f"{paths.run}-access")
    return dnsmasq.render(access, places, comment)


def _hostapd(app: App) -> str:
    access = app.settings.access
    if access.radio is None:
        raise click.ClickException(f"{app.config}: [access] has no radio: this node is no access point")
    try:
        password = credential.access_password().decode()
    except CredentialError as error:
        raise click.ClickException(str(error)) from error
    comment = "Written by `meshsec export hostapd` when the unit starts. It contains the password."
    return hostapd.render(access, access.radio, password, app.settings.paths.hostapd_control, comment)


_ELSEWHERE: Mapping[str, Callable[[App], str]] = {
    "overlayd": _overlayd,
    "chrony": _chrony,
    "dnsmasq": dnsmasq_conf,
    "hostapd": _hostapd,
}
"""What does not depend on where ESP runs."""


def _systemd(app: App, into: Path | None) -> None:
    """Several files: below ``into``, else one after the other with their names."""
    profile = app.settings.scheduling.profile
    texts = {**drop_ins.drop_ins(profile), **drop_ins.probing(app.settings.gateway.probe)}
    for name, text in texts.items():
        if into:
            files.make_directory((into / name).parent)
            files.write(into / name, text.encode(), _MODE)
            click.echo(f"{into / name}: written")
        else:
            click.echo(f"# {_SYSTEMD}/{name}\n{text}")
    if into:
        click.echo("Then: systemctl daemon-reload. Services have their classes when they are started again.")
    _warn_of_realtime_groups(profile)


def _warn_of_realtime_groups(profile: Profile) -> None:
    """These files may be for another node, whose kernel can."""
    units = drop_ins.realtime_units(profile)
    if units and scheduler.has_realtime_groups():
        click.echo(
            f"warning: the profile {profile.name} gives real-time classes from the start, which this kernel refuses to "
            f"units (RT_GROUP_SCHED): {', '.join(units)} will not start on it (214/SETSCHEDULER). "
            f"Fix: {WITHOUT_REALTIME_GROUPS}.",
            err=True,
        )


def _backend(app: App) -> EspBackend:
    if (backend := app.settings.ike.backend) is not None:
        return backend
    found = asyncio.run(esp_probe.probe())
    if "not permitted" in found.reason:
        raise click.ClickException('with [ike] esp = "auto" the kernel is asked, which takes root')
    return found.backend


def _announcing(app: App, backend: EspBackend, routing: RoutingSettings) -> Settings:
    """Return the settings of a router, which announces the address of this node's next key, too."""
    return replace(app.settings, routing=routers.with_next(routing, app.next_card, backend))


def _accepted(app: App) -> Mapping[Network, tuple[Address, ...]]:
    """Return from which originators networks are taken; what cannot be resolved is reported and left out."""
    opened = only_open(app.settings.routing, app.settings.policy).accept
    if not opened:
        return {}
    found = trusted.load(app)
    accepted = resolve(opened, _cards_by_peer(found.peers))
    for problem in (*map(str, found.problems), *accepted.problems):
        click.echo(f"left out: {problem}", err=True)
    return accepted.networks


def strongswan(app: App) -> str:
    """Return the text of charon's strongswan.conf. Raises ``PluginMissingError``."""
    plugins = strongswan_conf.installed_plugins()
    links = bool(app.settings.links)
    return strongswan_conf.render(_backend(app), Path(app.settings.ike.vici), plugins=plugins, has_links=links)


def _networks(app: App) -> ConfiguredNetworks:
    settings = app.settings
    return configured_networks(settings.routing, settings.policy, settings.access, settings.links)


def _behind(configured: ConfiguredNetworks, peers: Mapping[str, Peer]) -> BehindNodes:
    networks = beginning(configured)
    for name, peer in peers.items():
        if peer.card.networks:
            networks.claim(name, Claim(bool(peer.fleet), peer_name(name), peer.card.networks))
    return networks.behind(_cards_by_peer(peers))


def _cards_by_peer(peers: Mapping[str, Peer]) -> dict[str, list[Card]]:
    """Return the cards of a peer's present and next key, by its name."""
    cards: dict[str, list[Card]] = {}
    for name, peer in peers.items():
        cards.setdefault(peer_name(name), []).append(peer.card)
    return cards


def _nftables(app: App, backend: EspBackend) -> str:
    found = trusted.load(app)
    trusted.tell_problems(found)
    peers = found.peers
    cards = [peer.card for peer in peers.values()]
    protected = (address for card in cards for address in addresses(card))
    locators = (card.locator for card in cards)
    overlay, networks = app.settings.overlay, _networks(app)
    rules = with_overlay(
        with_next(rules_spec(app.card, protected, locators, backend, app.settings.policy), app.next_card),
        overlay.device if overlay.enabled else "",
        (card.address for card in cards),
    )
    linked = [link.peer for link in app.settings.links]
    joints = paths.all_joints(app.card, {name: peer.card for name, peer in peers.items()}, linked)
    rules = replace(within(rules, networks.perimeter), behind=_behind(networks, peers), joints=joints)
    return nft_rules.render(in_doubt(rules) if found.problems else rules)

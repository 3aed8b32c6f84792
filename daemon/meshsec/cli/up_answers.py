"""What ``meshsec up`` must know before it writes a configuration: from options, or asked at the terminal."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

import click

from meshsec import files
from meshsec.adapters.files import credential
from meshsec.adapters.files.credential import CredentialError
from meshsec.adapters.kernel import interfaces as kernel
from meshsec.adapters.kernel.interfaces import Interface
from meshsec.cli.fleet_options import wanted
from meshsec.cli.setup import host_name
from meshsec.core.config.radio_settings import Security
from meshsec.core.trust.fingerprint_words import WordsError
from meshsec.core.trust.fleets import Fleet, FleetError

SECURITIES = click.Choice([one.value for one in Security])
_FREQUENCY = 2412
"""MHz: a channel that every radio has and every regulatory domain allows."""


@dataclass(frozen=True, slots=True)
class Given:
    """The options of the command."""

    name: str | None
    ipv4: IPv4Address | None
    interfaces: tuple[str, ...]
    mesh_id: str | None
    frequency: int | None
    security: str | None

    @property
    def has_radio(self) -> bool:
        """Return whether any option concerns a radio."""
        return any(value is not None for value in (self.mesh_id, self.frequency, self.security))


@dataclass(frozen=True, slots=True)
class Answers:
    """All that the first configuration takes."""

    name: str
    ipv4: IPv4Address | None
    interfaces: tuple[str, ...]
    radio: dict[str, str | int]
    """The keys of ``[radio]``; empty without a radio."""
    password: bytes | None = field(default=None, repr=False)
    """The password of a mesh with SAE, if it has to be stored."""


def is_at_a_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()


def answered(given: Given, present: Sequence[Interface]) -> Answers:
    """Return the answers. Raises UsageError, which names the option, where one is missing and nobody can be asked."""
    asks = is_at_a_terminal()
    name = given.name or _asked(asks, "--name", "Name of this node", host_name())
    interfaces = given.interfaces or (_interface(asks, present),)
    _refuse_absent(interfaces, present)
    _confirm_outward(asks, interfaces, present)
    wireless = {one.name for one in present if one.wireless}
    if not given.has_radio and not wireless.intersection(interfaces):
        return Answers(name, given.ipv4, interfaces, {})
    radio: dict[str, str | int] = {
        "mesh_id": given.mesh_id or _asked(asks, "--mesh-id", "Name of the mesh, the same on all nodes"),
        "frequency": given.frequency or _frequency(asks),
        "security": given.security or _security(asks),
    }
    return Answers(name, given.ipv4, interfaces, radio, _password(asks, str(radio["security"])))


def asked_fleet() -> Fleet | bytes | None:
    """Ask which fleet to join, if any, as long as the answer is neither six words nor a fleet's card."""
    while is_at_a_terminal():
        text = click.prompt("Six words, or card, of the fleet to join (empty: none)", default="", show_default=False)
        try:
            return wanted(text) if text else None
        except (FleetError, WordsError, files.FileError) as error:
            click.echo(error)
    return None


def _asked(asks: bool, option: str, question: str, default: str | None = None) -> str:
    _need(asks, option)
    answer: str = click.prompt(question, default=default)
    return answer


def _need(asks: bool, option: str) -> None:
    if not asks:
        raise click.UsageError(f"{option} is missing, and without a terminal nobody can be asked")


def in_order(present: Sequence[Interface]) -> list[Interface]:
    """Return interfaces as they are offered: radios first, and those that lead elsewhere last."""
    return sorted(present, key=lambda one: (one.has_default_route, not one.wireless, one.name))


def _names(present: Sequence[Interface]) -> str:
    return ", ".join(one.name for one in in_order(present)) or "none"


def _refuse_absent(interfaces: Sequence[str], present: Sequence[Interface]) -> None:
    """Refuse a name that is no interface's, which is more often misspelt than that of an adapter to come."""
    for name in interfaces:
        if not kernel.exists(name):
            raise click.UsageError(
                f"--interface: this machine has no {name!r}; it has: {_names(present)}. For an adapter that is plugged "
                f"in later: `meshsec init --interface {name}`, then `meshsec up`"
            )


def _interface(asks: bool, present: Sequence[Interface]) -> str:
    if not asks:
        raise click.UsageError(
            f"--interface is missing, and without a terminal nobody can be asked; this machine has: {_names(present)}"
        )
    offered = in_order(present)
    click.echo("Which interface is for the mesh?")
    width = max((len(one.name) for one in offered), default=0)
    for number, one in enumerate(offered, 1):
        click.echo(f"  {number}  {one.name:<{width}}  {_described(one)}")
    free = [one.name for one in offered if not one.has_default_route]
    answer: str = click.prompt("Number or name", default=free[0] if free else None)
    if answer.isdecimal() and 1 <= int(answer) <= len(offered):
        answer = offered[int(answer) - 1].name
    return answer


def _confirm_outward(asks: bool, interfaces: Sequence[str], present: Sequence[Interface]) -> None:
    """Have somebody confirm, or only read, that an interface with the default route may cut this machine off."""
    outward = {one.name for one in present if one.has_default_route}
    for name in (one for one in interfaces if one in outward):
        consequence = (
            f"this machine reaches the internet, and perhaps you, through {name}; as a mesh interface it carries no "
            "unprotected user data"
        )
        click.echo(f"warning: {consequence}", err=True)
        if asks:
            click.confirm(f"Take {name}?", abort=True)


def _described(one: Interface) -> str:
    kind = "radio" if one.wireless else "cable"
    return f"{kind}, has the default route" if one.has_default_route else kind


def _frequency(asks: bool) -> int:
    _need(asks, "--frequency")
    answer: int = click.prompt("Frequency in MHz, the same on all nodes", default=_FREQUENCY, type=int)
    return answer


def _security(asks: bool) -> str:
    _need(asks, "--security")
    click.echo("Who may be a neighbour? sae: who knows a password. open: everybody. IPsec protects user data in both.")
    answer: str = click.prompt("Security", default=Security.SAE.value, type=SECURITIES)
    return answer


def _password(asks: bool, security: str) -> bytes | None:
    """Return the password to store; None where there is one already, or none is needed."""
    if security != Security.SAE or credential.is_stored(credential.SAE_PASSWORD):
        return None
    if not asks:
        raise click.UsageError(
            "the password of the mesh is missing, and without a terminal nobody can be asked: `install -D -m 0600 "
            f"/dev/stdin {credential.STORE / credential.SAE_PASSWORD}` takes it from standard input"
        )
    text: str = click.prompt("Password of the mesh, the same on all nodes", hide_input=True, confirmation_prompt=True)
    try:
        return credential.checked(text, "the password")
    except CredentialError as error:
        raise click.ClickException(str(error)) from None

"""Debian's own units of IKE daemons: `meshsec up` disables them, and `meshsec uninstall` brings them back."""

from pathlib import Path

import click

from meshsec.adapters import systemd
from meshsec.adapters.files import replaced_units
from meshsec.adapters.files.replaced_units import Was

UNITS = ("strongswan.service", "strongswan-starter.service", "ipsec.service")
"""Only one IKE daemon can have UDP 500. Debian's packages enable and start theirs."""


def stop(state: Path) -> None:
    """Stop those that are enabled or run, and write them down in the state directory before."""
    # Names may be aliases of one unit.
    found = {
        one.name: Was(one.is_enabled, one.is_active) for one in systemd.states(UNITS) if one.is_enabled or one.is_active
    }
    if not found:
        return
    replaced_units.add(state, found)
    for name in found:
        systemd.run("systemctl", "disable", "--now", name)
        click.echo(f"{name}: disabled and stopped, because only one IKE daemon can have UDP 500")

"""Read the state of radios from nl80211, rtnetlink and rfkill."""

import errno
from collections.abc import Iterable, Mapping
from dataclasses import replace

from meshsec.adapters.files import rts_note
from meshsec.adapters.kernel import netlink
from meshsec.adapters.radio import nl80211, rfkill
from meshsec.adapters.radio.nl80211 import Nl80211, Nl80211Error
from meshsec.core.config.radio_settings import Radios, RadioSettings
from meshsec.core.config.settings import Settings
from meshsec.core.explain.findings import AccessPointFacts, RadioFacts
from meshsec.core.radio.observed import MESH_POINT, Interface, Observed, Phy, Radio

_READINGS = 5
"""How often a radio is read if its rules change meanwhile; more changes are a mistake elsewhere."""


async def facts(names: Iterable[str], radios: Radios | None) -> list[RadioFacts]:
    """Return doctor's facts of the wireless interfaces among ``names``. Raises OSError."""
    found = []
    async with nl80211.opened() as stack:
        for name in names if stack else ():
            seen = await observe(stack, name)
            if stack and seen.interface:
                wish = radios.of(name) if radios else None
                found.append(RadioFacts(wish, seen, await stack.signals(seen.interface.index), rts_note.read(name)))
    return found


async def access_point(settings: Settings) -> AccessPointFacts | None:
    """Return doctor's facts of the access point; None if this node is to be none. Raises OSError."""
    if settings.access.radio is None:
        return None
    async with nl80211.opened() as stack:
        return AccessPointFacts(settings.access.radio, mesh(settings), await machine(stack))


def mesh(settings: Settings) -> dict[str, RadioSettings | None]:
    """Return the mesh interfaces, with their settings if meshsec-radio brings them up."""
    radios = settings.radios
    return {name: radios.of(name) if radios else None for name in settings.routing.interfaces}


async def machine(stack: Nl80211 | None) -> tuple[Radio, ...]:
    """Return all radios of this machine with their interfaces. Raises OSError."""
    if stack is None:
        return ()
    links, found = await netlink.links(), await stack.interfaces()
    return tuple(
        _radio(phy, [_with_link(one, links) for number, one in found if number == phy.index])
        for phy in await stack.phys()
    )


def _radio(phy: Phy, interfaces: Iterable[Interface]) -> Radio:
    soft, hard = rfkill.blocked(phy.name)
    return Radio(phy, tuple(interfaces), soft_blocked=soft, hard_blocked=hard)


async def observe(stack: Nl80211 | None, name: str, phy: Phy | None = None) -> Observed:
    """Return the present state. ``phy``, if known, saves the long reading of what the radio can do. Raises OSError."""
    links = await netlink.links()
    if stack is None or name not in links:
        return Observed(name, exists=name in links, wireless=stack is not None)
    try:
        return await _observe(stack, name, phy, links)
    except Nl80211Error as error:
        if error.errno == errno.ENODEV:  # it disappeared while it was read
            return Observed(name, wireless=True)
        raise


async def _observe(stack: Nl80211, name: str, phy: Phy | None, links: Mapping[str, netlink.Link]) -> Observed:
    found = [(number, _with_link(one, links)) for number, one in await stack.interfaces()]
    number, own = next((pair for pair in found if pair[1].name == name), (None, None))
    if number is None or own is None:
        return Observed(name, exists=True, wireless=True)
    if phy is None or phy.index != number:
        phy, country = await _phy_under_its_rules(stack, number)
    else:
        country = await stack.country(phy)
    mesh = None
    if own.type == MESH_POINT and own.carrier:
        mesh = await stack.mesh_parameters(own.index)
        own = _with_link(own, await netlink.links())  # after leaving a mesh they are the defaults
    soft, hard = rfkill.blocked(phy.name)
    return Observed(
        name,
        exists=True,
        wireless=True,
        interface=own,
        phy=phy,
        others=tuple(one for other, one in found if other == number and one.name != name and one.up),
        soft_blocked=soft,
        hard_blocked=hard,
        country=country,
        mesh=mesh if own.carrier else None,
    )


async def _phy_under_its_rules(stack: Nl80211, number: int) -> tuple[Phy, str]:
    """Return a radio together with the regulatory domain that its channels belong to.

    The kernel changes the domain for all radios at once, some time after a request, and a radio is read in many
    messages. A radio read meanwhile would have the channels of the old domain under the name of the new one.
    """
    before, phy, country = await stack.country(), await stack.phy(number), await stack.country()
    for _ in range(_READINGS - 1):
        if country == before:
            break
        before, phy, country = country, await stack.phy(number), await stack.country()
    return phy, await stack.country(phy) if phy.self_managed else country


def _with_link(one: Interface, links: Mapping[str, netlink.Link]) -> Interface:
    link = links.get(one.name)
    return replace(one, up=link.up, carrier=link.carrier) if link else one


async def interface(stack: Nl80211, name: str) -> tuple[Interface, int]:
    """Return the present interface and the number of its radio. Raises Nl80211Error if it is gone."""
    for phy, one in await stack.interfaces():
        if one.name == name:
            return one, phy
    raise Nl80211Error(errno.ENODEV, f"{name} is gone")

"""What is known of the links over the internet, and what follows from it for each path."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meshsec.core.islands import paths
from meshsec.core.values.islands import PATHS, InternetLink, Joint
from meshsec.core.values.model import ChildSa, IkeSa

CROSSED = 2.0
"""Seconds between two SAs of one path within which both ends may have begun at once; both SAs stay then."""
SAS_MAX = 2 * PATHS
"""IKE_SAs of one link: one for each path, and as many again while they are replaced."""
CHILDREN_MAX = 16
"""CHILD_SAs of one IKE_SA: one for each path, and those that are being replaced."""
PATIENCE = 15.0
"""Seconds for which an IKE_SA may carry nothing."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """The SA of a path."""

    sa: IkeSa
    uplink: str
    since: float
    """Monotonic seconds at which its present CHILD_SA was installed."""


def carriers(link: InternetLink, sas: Mapping[str, Sequence[IkeSa]]) -> dict[int, Carrier]:
    """Return the youngest SA of each path that has one."""
    found: dict[int, Carrier] = {}
    for path, sa, uplink, since in _installed(link, sas):
        if path not in found or found[path].since < since:
            found[path] = Carrier(sa, uplink, since)
    return found


def superseded(link: InternetLink, sas: Mapping[str, Sequence[IkeSa]]) -> tuple[IkeSa, ...]:
    """Return the IKE_SAs whose paths all have younger ones. A peer that restarted knows those no longer."""
    youngest = carriers(link, sas)
    kept, found = set[str](), dict[str, IkeSa]()
    for path, sa, _, since in _installed(link, sas):
        if since + CROSSED < youngest[path].since:
            found[sa.unique_id] = sa
        else:
            kept.add(sa.unique_id)
    return tuple(sa for unique_id, sa in sorted(found.items()) if unique_id not in kept)


def _installed(link: InternetLink, sas: Mapping[str, Sequence[IkeSa]]) -> Iterable[tuple[int, IkeSa, str, float]]:
    numbers = {paths.child(path): path for path in range(PATHS)}
    for index, uplink in enumerate(link.uplinks):
        for sa in sas.get(paths.connection(link.peer, index), ()):
            for child in sa.children if sa.is_live else ():
                if child.carries and child.name in numbers:
                    yield numbers[child.name], sa, uplink, child.installed_at


def excess(link: InternetLink, sas: Mapping[str, Sequence[IkeSa]], now: float) -> tuple[IkeSa, ...]:
    """Return the IKE_SAs that no honest peer makes: beyond the youngest ``SAS_MAX``, with very many CHILD_SAs, or for
    long without any that carries.
    """
    names = (paths.connection(link.peer, index) for index in range(len(link.uplinks)))
    live = [sa for name in names for sa in sas.get(name, ()) if sa.is_live]
    ages = {sa.unique_id: 0.0 if sa.established_at is None else now - sa.established_at for sa in live}
    live.sort(key=lambda sa: ages[sa.unique_id])
    idle = (sa for sa in live if ages[sa.unique_id] > PATIENCE and not any(map(_carries, sa.children)))
    crowded = (sa for sa in live if len(sa.children) > CHILDREN_MAX)
    return tuple({sa.unique_id: sa for sa in (*live[SAS_MAX:], *crowded, *idle)}.values())


def _carries(child: ChildSa) -> bool:
    return child.carries


def usable(
    joints: Iterable[Joint], links: Iterable[InternetLink], sas: Mapping[str, Sequence[IkeSa]], up: Iterable[str]
) -> dict[Joint, Carrier]:
    """Return the paths that carry, with their SAs: those whose uplink is ``up``."""
    live = set(up)
    by_link = {link.peer: carriers(link, sas) for link in links}
    found = ((joint, by_link.get(joint.link, {}).get(joint.path)) for joint in joints)
    return {joint: carrier for joint, carrier in found if carrier is not None and carrier.uplink in live}

"""Make a radio ready for hostapd: judge it, and make the interface that shares it with a mesh interface.

The interface stays when hostapd ends; the next start finds it.
"""

from meshsec.adapters.radio import nl80211
from meshsec.agent.sides import radios
from meshsec.core.config.settings import Settings
from meshsec.core.radio import access_point
from meshsec.core.radio.observed import ACCESS_POINT
from meshsec.core.radio.obstacles import Obstacle


class NoAccessPointError(Exception):
    """The configuration has no access point; the text says what is missing."""


async def prepare(settings: Settings, *, only_check: bool) -> tuple[list[Obstacle], list[str]]:
    """Return what is in the way, or else the steps in words; do them unless ``only_check``. Raises OSError."""
    if (wish := settings.access.radio) is None:
        raise NoAccessPointError("[access] has no radio: this node is no access point")
    async with nl80211.opened() as stack:
        seen = await radios.machine(stack)
        found = access_point.obstacles(wish, radios.mesh(settings), seen)
        own = access_point.owner(wish, seen)
        if found or stack is None or own is None or own.has(wish.interface):
            return found, []
        if not only_check:
            await stack.add_interface(own.phy.index, wish.interface, ACCESS_POINT)
        return [], [f"make {wish.interface} on {own}"]

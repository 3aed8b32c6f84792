"""The overlay's side of the agent: overlayd's control socket and the routes into its device."""

import logging
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from pathlib import Path

from meshsec.adapters.kernel import netlink
from meshsec.adapters.overlay import routes
from meshsec.adapters.overlay.overlayd import Overlayd, OverlaydError, OverlayEvent
from meshsec.adapters.overlay.routes import RoutesError
from meshsec.agent.sides.kernel import watch
from meshsec.core.channels.actions import Keep, OverlayAction, Permit, RouteOverlay
from meshsec.core.channels.events import Event, OverlayDown, OverlayRoutesObserved, OverlayUp
from meshsec.core.config.overlay_settings import OverlaySettings
from meshsec.core.values.failures import Cause

_log = logging.getLogger(__name__)


class OverlaySide:
    """Everything about the overlay. If it is disabled, only a predecessor's routes are removed."""

    def __init__(self, settings: OverlaySettings, own: IPv6Address, post: Callable[[Event], None]) -> None:
        self._settings = settings
        self._own = own
        self._post = post
        self._overlayd = Overlayd(Path(settings.socket), own, settings.device)
        self._down_reason = ""
        self._installed: frozenset[IPv6Address] = frozenset()

    @property
    def version(self) -> str:
        """overlayd's version; empty while it does not answer."""
        return self._overlayd.version

    def counters(self) -> Mapping[str, Mapping[str, int]] | None:
        """Return what overlayd has ``carried`` and ``dropped`` since its start; None while it does not answer."""
        if not self._overlayd.version:
            return None
        return {"carried": self._overlayd.carried, "dropped": self._overlayd.dropped}

    @property
    def talking(self) -> frozenset[IPv6Address]:
        """Peers that send user data through the overlay now."""
        return self._overlayd.talking

    async def found(self) -> tuple[Event, ...]:
        """Return events about a predecessor's routes, to be posted together with the peers."""
        try:
            if not self._settings.enabled:
                await routes.clear()
                return ()
            self._installed = await routes.installed(self._settings.device)
        except RoutesError as error:
            _log.log(logging.WARNING if self._settings.enabled else logging.DEBUG, "overlay: %s", error)
        return (OverlayRoutesObserved(self._installed),)

    async def run(self) -> None:
        """Follow overlayd until cancelled."""
        if self._settings.enabled:
            await self._overlayd.run(self._on_event)

    async def watch_routes(self) -> None:
        """Notice when the device or the rules disappear or return, until cancelled."""
        if self._settings.enabled:
            await watch(netlink.way_changes, self._check_routes)

    def _on_event(self, event: OverlayEvent) -> None:
        if isinstance(event, OverlayDown):
            if event.reason == self._down_reason:
                return
            _log.warning("overlay: %s", event.reason)
            self._down_reason = event.reason
        elif isinstance(event, OverlayUp):
            _log.info("overlay: overlayd %s answers, pid %d", self._overlayd.version, self._overlayd.pid)
            self._down_reason = ""
        self._post(event)

    async def _check_routes(self) -> None:
        try:
            self._tell(await routes.installed(self._settings.device))
        except RoutesError as error:
            _log.warning("overlay: %s", error)

    def _tell(self, installed: frozenset[IPv6Address]) -> None:
        if installed != self._installed:
            self._installed = installed
            self._post(OverlayRoutesObserved(installed))

    async def carry_out(self, action: OverlayAction) -> Cause | None:
        """Carry out an action at the overlay; return why it failed."""
        try:
            match action:
                case Permit(addresses):
                    await self._overlayd.permit(addresses)
                case Keep(addresses):
                    await self._overlayd.keep(addresses)
                case RouteOverlay(addresses):
                    return await self._route(addresses)
        except (OverlaydError, RoutesError) as error:
            return Cause(str(error))
        return None

    async def _route(self, addresses: frozenset[IPv6Address]) -> Cause | None:
        installed = await routes.apply(addresses, self._settings.device, self._own)
        self._tell(installed)
        lacking = ", ".join(map(str, sorted(addresses ^ installed)))
        return Cause(f"routes do not read back as they were set: {lacking}") if lacking else None

"""What is known of the overlay, and what it and the kernel are to be configured with.

Theory of operation. Permission is by rule, sending is by route. The fail-closed rules let user data of the peers that
are trusted pass by the overlay's device, whatever their mode; a route into that device is what sends it there. So a
switch touches no rule, and at no moment there is a way out in the clear.

The order: rules, then the node's permission (``Permit``), then the sessions (``Keep``), then, for those to whom a way
is proved and a session is established, the route (``RouteOverlay``). Nothing is believed before it is read back.

The wanted sets are kept peer by peer (``want``), and made again only after a change, so that an event costs what it
touches. The node keeps sessions to no more than ``KEEP_MAX`` peers: with more, those in reach come first.
"""

from ipaddress import IPv6Address

from meshsec.core.channels.actions import Keep, OverlayAction, Permit, RouteOverlay
from meshsec.core.values.model import DataPlane, Modes

Addresses = frozenset[IPv6Address]

NONE: Addresses = frozenset()

KEEP_MAX = 1024
"""Sessions that overlayd keeps at a time: it looks for a way to each, which costs the mesh, too."""


class Overlay:
    """The engine writes it, the views read it."""

    def __init__(self, device: str, default: DataPlane, *, fallback: bool = False) -> None:
        """Start with nothing known.

        ``device`` is the overlay's; empty: this node has no overlay. ``default`` is the policy's data plane,
        ``fallback`` its choice whether the overlay carries where the mode is ipsec and no SA is established.
        """
        self.device = device
        self._fallback = fallback
        self.modes = Modes()
        self.down: str | None = "not contacted yet"
        """Why overlayd cannot be used; None when it can."""
        self.kept: Addresses = NONE
        """Peers with a kept session to whom packets pass at once."""
        self.linked: Addresses = NONE
        """Peers with whom there is a session, whoever asked for it."""
        self.routes: Addresses = NONE
        """Whose route into the device is installed, as read back."""
        self.permitted: Addresses | None = None
        """What was last configured in overlayd; None when that is unknown."""
        self.keeping: Addresses | None = None
        self._default = default
        self._permit: set[IPv6Address] = set()
        self._keep: set[IPv6Address] = set()
        self._route: set[IPv6Address] = set()
        self._near: set[IPv6Address] = set()
        self._told: tuple[Addresses, Addresses] | None = None
        """Whom to permit and to whom to keep sessions; None when it must be derived again."""

    @property
    def enabled(self) -> bool:
        """This node has an overlay."""
        return bool(self.device)

    @property
    def default_mode(self) -> DataPlane:
        """Of peers for which nothing else is said."""
        return self.modes.default or self._default if self.enabled else DataPlane.IPSEC

    def mode(self, address: IPv6Address) -> DataPlane:
        """Return what is wanted of the peer with this address."""
        return self.modes.peers.get(address, self.default_mode) if self.enabled else DataPlane.IPSEC

    def carries(self, address: IPv6Address) -> bool:
        """User data to this address leaves by the overlay, and arrives."""
        return address in self.routes and address in self.kept

    def came(self) -> None:
        """Note that the node answers: it has forgotten its configuration, and its sessions are gone."""
        self.down, self.permitted, self.keeping = None, None, None
        self._keep.clear()
        self._told = None

    def went(self, reason: str) -> None:
        """Note that the node is away. Its routes vanish with its device, and are read back."""
        self.down, self.permitted, self.keeping = reason, None, None
        self.kept = self.linked = NONE

    def want(
        self, address: IPv6Address, *, permit: bool = False, keep: bool = False, route: bool = False, near: bool = False
    ) -> None:
        """Record what is wanted for one peer. ``near``: a route leads to it."""
        wants = ((self._permit, permit), (self._keep, keep), (self._route, route), (self._near, near))
        for wanted, is_wanted in wants:
            if (address in wanted) is not is_wanted:
                (wanted.add if is_wanted else wanted.discard)(address)
                self._told = None

    def wants_session(self, address: IPv6Address) -> bool:
        """Return whether a session to this address is to be kept up, as far as is decided yet.

        Whoever asks whether to go on with one asks this, and not what was last configured: while that is being
        changed, each answer would be the reason for its contrary.
        """
        return address in self._keep

    def may_bridge(self, address: IPv6Address) -> bool:
        """Return whether the overlay may carry to a peer in mode ipsec while no SA is established.

        Either the policy allows it and there is a session, or the mode was ``overlay`` and its route is still
        installed."""
        has_session = address in self.linked or self.wants_session(address)
        return has_session and (self._fallback or address in self.routes)

    def actions(self, admitted: Addresses) -> list[OverlayAction]:
        """Return what is to be done. ``admitted``: whom the rules in force let pass through the device."""
        if not self.enabled:
            return []
        actions: list[OverlayAction] = []
        permit, keep = self._to_tell()
        if self.permitted is not permit and self.permitted != permit:
            actions.append(Permit(permit))
        if self.keeping is not keep and self.keeping != keep:
            actions.append(Keep(keep))
        routes = frozenset(address for address in self._route if address in admitted or address in self.routes)
        if routes != self.routes:
            actions.append(RouteOverlay(routes))
        return actions

    def leaves_out(self, address: IPv6Address) -> bool:
        """Return whether a session to this address is wanted but does not fit in their number."""
        return address in self._keep and address not in self._to_tell()[1]

    def _to_tell(self) -> tuple[Addresses, Addresses]:
        if self._told is None:
            self._told = frozenset(self._permit), self._chosen()
        return self._told

    def _chosen(self) -> Addresses:
        """To whom sessions are kept. Who has one stays before others of the same kind, so that it comes to rest."""
        if len(self._keep) <= KEEP_MAX:
            return frozenset(self._keep)

        def rank(address: IPv6Address) -> tuple[bool, bool, bool, IPv6Address]:
            return address not in self.routes, address not in self._near, address not in (self.keeping or NONE), address

        return frozenset(sorted(self._keep, key=rank)[:KEEP_MAX])

    def obstacle(self, action: OverlayAction) -> str | None:
        """Return what must be done before ``action``; None when it can be done now."""
        if isinstance(action, RouteOverlay):
            return None
        if self.down is not None:
            return f"the overlay's node ({self.down})"
        if isinstance(action, Keep) and not action.addresses <= (self.permitted or NONE):
            return "the permission of the peers in the overlay"
        return None

    def took_effect(self, action: OverlayAction) -> None:
        """Note that the node took its configuration; routes are not noted here but read back."""
        match action:
            case Permit(addresses):
                self.permitted = addresses
            case Keep(addresses):
                self.keeping = addresses
                self.kept &= addresses

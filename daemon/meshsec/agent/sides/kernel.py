"""The kernel's side of the agent: it keeps the fail-closed rules and this node's addresses in force.

The kernel reports that something changed, and the state is then read. So changes by other programs are noticed within
milliseconds, and a flood of them costs one check every ``PAUSE``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from ipaddress import IPv6Address

from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.held_rules import HeldRules, HeldRulesError
from meshsec.adapters.kernel.nft import RulesError
from meshsec.adapters.kernel.nftables import Nftables
from meshsec.adapters.sockets.notify import Notifier, kept
from meshsec.core.channels.actions import ApplyRules
from meshsec.core.channels.events import Event, RulesObserved
from meshsec.core.channels.nft_rules import HELD_TABLES, render_held
from meshsec.core.ike.guard import Contest
from meshsec.core.trust import identity
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import Address, Card, EspBackend, RulesSpec

PAUSE = 0.2
"""Shortest time between two checks in seconds."""

SETTLE = 0.02
"""Seconds to wait for further changes after the first one."""

AUDIT_INTERVAL = 60.0
"""Seconds between two checks without a notification."""

_log = logging.getLogger(__name__)


class KernelSide:
    """The rules that protect user data when no daemon runs, and the addresses that the routing daemon announces."""

    def __init__(
        self,
        cards: Sequence[Card],
        esp: EspBackend,
        interfaces: Sequence[str],
        post: Callable[[Event], None],
        notifier: Notifier,
    ) -> None:
        """Prepare it; ``cards`` are the node's card and that of its next key."""
        self._notifier = notifier
        self._cards = cards
        self._esp = esp
        self._interfaces = interfaces
        self._post = post
        self._rules = Nftables()
        self._held = HeldRules(HELD_TABLES, {name: one for name, one in kept().items() if name in HELD_TABLES})
        self.held_problem = ""
        """Why there is no second copy of the rules, which no other program can remove; empty if there is one."""
        self._applying = asyncio.Lock()
        self._were_in_force = False
        self.disturbed = 0
        """How often another program changed or removed the rules and they were restored."""
        self.tried = asyncio.Event()
        """Set after the first attempt to apply the rules, successful or not."""
        self.ending: Card | None = None
        """Card of the key that ended last: its addresses stay until ``give_back``."""
        self.address_problem = ""
        """Why an address could not be assigned or removed; empty if this node has exactly its own."""

    @property
    def own_addresses(self) -> tuple[Address, ...]:
        """Return the addresses that this node needs on its loopback device."""
        own = (address for card in self._cards for address in (*endpoints(card, self._esp), card.ipv4) if address)
        return tuple(dict.fromkeys(own))

    async def predecessors_rules(self) -> tuple[Event, ...]:
        """Return events about the addresses that a predecessor closed; its rules themselves are replaced."""
        return RulesObserved(await self._rules.found(self._esp)), RulesObserved(None)

    async def apply_rules(self, action: ApplyRules) -> Cause | None:
        """Replace the rules. Return why it failed; the previous rules are then in force."""
        async with self._applying:
            try:
                await self._rules.apply(action.rules)
                await self._hold(action.rules)
            except RulesError as error:
                return Cause(str(error))
            finally:
                self.tried.set()
            self._were_in_force = True
        return None

    async def _hold(self, rules: RulesSpec) -> None:
        """Hold a second copy of the rules, which no other program can remove.

        Without it, a program that removes the rules opens a short gap. The service manager keeps the copy's socket, so
        that the copy survives this process.
        """
        problem, before = "", dict(self._held.sockets)
        try:
            await asyncio.to_thread(self._held.apply, partial(render_held, rules))
        except HeldRulesError as error:
            problem = str(error)
            if problem != self.held_problem:
                _log.warning(
                    "the rules are not safe from other programs for the time it takes to restore them: %s", problem
                )
        self.held_problem = problem
        for table in self._held.sockets.keys() - before.keys():
            self._notifier.keep(table, self._held.sockets[table])
        for table in before.keys() - self._held.sockets.keys():
            self._notifier.let_go(table)

    async def beside_rules(self, change: Callable[[], None]) -> None:
        """Change a held table of another part. Two changes at once would take each other's socket for their own.

        Raises HeldRulesError.
        """
        async with self._applying:
            await asyncio.to_thread(change)

    async def counters(self) -> dict[str, int]:
        """Return packets dropped, or passed by the bypass list, by kind; empty if the counters cannot be read."""
        try:
            return await self._rules.counters()
        except RulesError:
            return {}

    @property
    def guard_problem(self) -> str:
        """Why the guard of the IKE daemon's ports is missing; empty if it is in force."""
        return self._rules.guard_problem

    async def guard_counters(self) -> dict[str, int]:
        """Return datagrams to the IKE daemon that the guard dropped, by reason; empty if that cannot be read."""
        try:
            return await self._rules.guard_counters()
        except RulesError:
            return {}

    async def contested(self) -> dict[IPv6Address, Contest]:
        """Return the peers' addresses in whose name more than one end answers; empty if that cannot be read."""
        try:
            return await self._rules.contested()
        except RulesError:
            return {}

    async def altered_rules(self) -> list[str]:
        """Return how the kernel's rules differ from the applied ones; empty if they do not."""
        return await self._rules.altered()

    async def rules_in_force(self) -> bool:
        """Return whether the applied rules are in the kernel."""
        return await self._rules.in_force() is not None

    async def watch_rules(self) -> None:
        """Restore the rules when others change or remove them, until cancelled."""
        await watch(netlink.ruleset_changes, self._check_rules)

    async def _check_rules(self) -> None:
        async with self._applying:
            if not self._were_in_force or await self.rules_in_force():
                return
            self._were_in_force = False
        self.disturbed += 1
        _log.warning("the rules were altered or removed by another program; they are set again")
        self._post(RulesObserved(None))

    async def watch_addresses(self) -> None:
        """Keep this node's addresses assigned, also on later interfaces, until cancelled."""
        await watch(netlink.address_changes, self.assign_addresses)

    async def give_back(self, card: Card) -> None:
        """Remove the addresses of a key that has ended."""
        self.ending = None
        try:
            taken = await netlink.take_off({card.address, card.locator} - set(self.own_addresses))
        except netlink.NetlinkError as error:
            _log.error("%s", error)
            return
        if taken:
            _log.info("took off %s", ", ".join(map(str, taken)))

    async def assign_addresses(self) -> None:
        """Assign missing addresses and remove those of other keys."""
        ipv6 = [address for card in self._cards for address in endpoints(card, self._esp)]
        try:
            added = await netlink.assign_addresses(ipv6, self._cards[0].ipv4, self._interfaces)
            stale = await netlink.take_off(await self.stale_addresses())
        except netlink.NetlinkError as error:
            if str(error) != self.address_problem:
                _log.error("%s", error)
            self.address_problem = str(error)
            return
        self.address_problem = ""
        if added:
            _log.info("assigned %s", ", ".join(added))
        if stale:
            _log.warning("took off lo what belongs to another key: %s", ", ".join(map(str, stale)))

    async def stale_addresses(self) -> frozenset[IPv6Address]:
        """Return this node's addresses that belong to other keys. Raises ``NetlinkError``."""
        ending = (self.ending.address, self.ending.locator) if self.ending else ()
        return identity.stale_addresses(await netlink.assigned(), {*self.own_addresses, *self._locators(), *ending})

    def _locators(self) -> set[IPv6Address]:
        return {card.locator for card in self._cards}


def endpoints(card: Card, esp: EspBackend) -> tuple[IPv6Address, ...]:
    """Return the addresses of one key."""
    return (card.address, card.locator) if esp is EspBackend.LIBIPSEC else (card.address,)


async def watch(changes: netlink.Changes, look: Callable[[], Awaitable[None]]) -> None:
    """Call ``look`` after each change, and sometimes without one, until cancelled."""
    changed = asyncio.Event()
    with changes(changed.set):
        while True:
            await _either(changed, AUDIT_INTERVAL)
            await asyncio.sleep(SETTLE)
            changed.clear()
            await look()
            await asyncio.sleep(PAUSE)


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return

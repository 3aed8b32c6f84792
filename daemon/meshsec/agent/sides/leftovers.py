"""Remove SAs that a killed IKE daemon left in the kernel.

Its successor does not know them, so they would stay until their lifetimes end, together with their keys. They carry
user data until new SAs exist, so they are removed only some time after the successor's start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from meshsec.adapters.kernel import xfrm
from meshsec.core.ike.drift_kernel import XfrmState, strange_states
from meshsec.core.ike.port import IkeError
from meshsec.core.values.model import Address, IkeSa

GRACE = 30.0
"""Seconds to negotiate new SAs."""

_log = logging.getLogger(__name__)


async def clear(sas: Callable[[], Awaitable[Mapping[str, Sequence[IkeSa]]]], own: Collection[Address]) -> None:
    """Remove the kernel's SAs of ``own`` addresses that the IKE daemon lacks, if they are the same before and after
    ``GRACE``.

    ``sas`` returns the IKE daemon's present SAs; it may raise IkeError.
    """
    try:
        before = await _strange(sas, own)
        if not before:
            return
        await asyncio.sleep(GRACE)
        still = {state.spi for state in await _strange(sas, own)}
        left = [state for state in before if state.spi in still]
        await xfrm.remove(left)
    except (IkeError, xfrm.XfrmError) as error:
        _log.warning("SAs that an IKE daemon before may have left: %s", error)
        return
    if left:
        _log.info("took away %d SAs that an IKE daemon before has left in the kernel", len(left))


async def _strange(
    sas: Callable[[], Awaitable[Mapping[str, Sequence[IkeSa]]]], own: Collection[Address]
) -> list[XfrmState]:
    """Return the SAs that only the kernel has. It is asked first, so that newer SAs are not among them."""
    states = await xfrm.states()
    return list(strange_states(states, await sas(), own))

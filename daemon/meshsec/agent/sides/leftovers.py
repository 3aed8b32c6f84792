"""SAs that an IKE daemon left in the kernel when it was killed.

The next one does not know them, and they would stay until their lifetimes end, keys and all. Until others stand they
carry user data, so they go a while after it was met, and not before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from meshsec.adapters.kernel import xfrm
from meshsec.core.ike.drift_kernel import XfrmState, strange_states
from meshsec.core.ike.port import IkeError
from meshsec.core.values.model import Address, IkeSa

GRACE = 30.0
"""Seconds for other SAs to be negotiated."""

_log = logging.getLogger(__name__)


async def clear(sas: Callable[[], Awaitable[Mapping[str, Sequence[IkeSa]]]], own: Collection[Address]) -> None:
    """Take away what no SA of the IKE daemon has, now and after ``GRACE``, of ``own`` addresses.

    ``sas``: those of the IKE daemon now; it may raise IkeError.
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
    """The kernel is asked first, so that what comes meanwhile is not taken for strange."""
    states = await xfrm.states()
    return list(strange_states(states, await sas(), own))

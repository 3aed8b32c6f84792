"""Make the client of the configured IKE daemon."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from meshsec.adapters.ike.pluto import Pluto
from meshsec.adapters.ike.vici import Vici
from meshsec.core.config.settings import IkeSettings
from meshsec.core.ike.port import IkePort
from meshsec.core.values.ike_daemon import IkeDaemon


def make(ike: IkeSettings, clock: Callable[[], float], packets: Callable[[], Awaitable[Mapping[str, int]]]) -> IkePort:
    """Return the client. ``clock`` is the monotonic clock in seconds that SAs are dated by.

    ``packets`` reads the kernel's packet counts by SPI, for a daemon that does not report them.
    """
    match ike.daemon:
        case IkeDaemon.STRONGSWAN:
            return Vici(Path(ike.vici), clock)
        case IkeDaemon.LIBRESWAN:
            return Pluto(Path(ike.pluto), clock, packets)

"""Open rtnetlink(7) for the adapters that set addresses, routes and rules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pyroute2.iproute.linux import AsyncIPRoute


@asynccontextmanager
async def route_socket(refused: type[OSError]) -> AsyncIterator[Any]:
    """Open a socket that raises every pyroute2 error as ``refused``; some of them are no OSError."""
    try:
        async with AsyncIPRoute() as ipr:  # type: ignore[no-untyped-call]
            yield ipr
    except refused:
        raise
    except Exception as error:
        raise refused(f"rtnetlink: {error}") from error

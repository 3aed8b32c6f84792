"""Open rtnetlink(7) for the adapters that set addresses, routes and rules."""

from collections.abc import AsyncIterator, Collection
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


async def answered(request: Any) -> None:
    """Read the kernel's answers to a request: its refusal is one of them."""
    async for _ in await request:
        pass


async def asked(request: Any, what: str, refused: type[OSError], gone: Collection[int] = ()) -> None:
    """Wait for a request. Its refusal is raised as ``refused`` with ``what``, but for the error numbers in ``gone``."""
    try:
        await request
    except Exception as error:  # pyroute2's are of many kinds
        if getattr(error, "code", None) not in gone:
            raise refused(f"{what}: {error}") from error

"""``meshsec-page``: the page in the browser. It serves by HTTP what meshsecd tells those who only look."""

import asyncio
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import uvicorn

from meshsec.adapters.files import config_file, key_store
from meshsec.adapters.sockets.notify import Notifier
from meshsec.core.access.shared_address import addresses_of
from meshsec.core.config.settings import Settings
from meshsec.core.names.names import DOMAIN
from meshsec.core.trust.identity import make_card
from meshsec.core.values.model import Address, Card
from meshsec.page import assets
from meshsec.page.connection import MAX_HEAD, Connection
from meshsec.page.feed import Feed
from meshsec.page.web import Web

ASSETS = Path("/usr/share/meshsec/page")
_FREEBIND = {4: (socket.IPPROTO_IP, 15), 6: (socket.IPPROTO_IPV6, 78)}
"""IP_FREEBIND and IPV6_FREEBIND (ip(7), ipv6(7)): meshsecd may assign the address later."""
_LOCAL = ("127.0.0.1", "::1")


class ListenError(Exception):
    """An address cannot be listened at."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="MESHSEC_CONFIG",
    default=config_file.DEFAULT_PATH,
    show_default=True,
    help="The configuration file.",
)
@click.option(
    "--assets",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=ASSETS,
    show_default=True,
    help="The directory of the files that a browser loads.",
)
@click.version_option(package_name="meshsec", prog_name="meshsec-page", message="%(prog)s %(version)s")
def main(config: Path, directory: Path) -> None:
    """Show this node in the browser, at this machine's own address and at the node's mesh addresses.

    Runs in the foreground. It needs no privilege but to open meshsecd's socket for those who only look.
    """
    _set_up_logging()
    try:
        settings = config_file.load(config)
        card = make_card(settings.node.name, key_store.load_public(Path(settings.paths.key)), settings.node.ipv4)
        found = assets.load(directory)
        listeners = [_listener(one, settings.page.port) for one in addresses(settings, card)]
    except (config_file.ConfigError, key_store.KeyStoreError, assets.AssetError, ListenError) as error:
        raise click.ClickException(str(error)) from error
    feed = Feed(Path(settings.paths.view_socket))
    clients = settings.access.networks if settings.page.access else None
    web = Web(feed, found, clients=clients, clients_log_in=settings.page.clients_log_in)
    asyncio.run(_run(feed, Server(_configured(web, card), feed), listeners))


def addresses(settings: Settings, card: Card) -> Iterator[str]:
    """Yield where the page is: on this machine, in the mesh, and for clients where the configuration says so."""
    mesh: list[Address | None] = [card.address, card.ipv4]
    yield from (*_LOCAL, *(str(one) for one in mesh if one is not None))
    if settings.page.access:
        yield from (str(one.ip) for one in addresses_of(settings.access.networks))


def _listener(address: str, port: int) -> socket.socket:
    version = 6 if ":" in address else 4
    listener = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(*_FREEBIND[version], 1)
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise ListenError(f"{address} port {port}: {error.strerror}; [page] port chooses another one") from error
    return listener


def _configured(web: Web, card: Card) -> uvicorn.Config:
    return uvicorn.Config(
        web.app(f"{card.name}.{DOMAIN}"),
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD,
        timeout_graceful_shutdown=1,
    )


async def _run(feed: Feed, server: uvicorn.Server, listeners: list[socket.socket]) -> None:
    """Serve until a signal. A feed that fails ends the process, so that the service manager starts another."""
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(feed.run())
        await server.serve(listeners)
        following.cancel()


class Server(uvicorn.Server):
    """uvicorn, which tells the service manager that it is ready, and lets browsers go before it ends."""

    def __init__(self, config: uvicorn.Config, feed: Feed) -> None:
        super().__init__(config)
        self._feed = feed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._feed.end()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        notifier = Notifier()
        notifier.ready()
        notifier.close()


def _set_up_logging() -> None:
    """Set up logging. The journal adds the time itself."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    logging.getLogger("meshsec").setLevel(logging.INFO)
    # What strangers send in place of requests is no news of this node's.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)

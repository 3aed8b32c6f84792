"""``meshsec monitor cot --send``: Cursor on Target events for a group or a server, again and again."""

import time

import click

from meshsec.adapters.files import config_file
from meshsec.adapters.sockets.cot_sender import CotError, CotSender, Target, refuse_mesh, target
from meshsec.cli.app import App
from meshsec.cli.client import Client, DaemonAbsentError, DaemonError
from meshsec.core.monitoring import cot


def run(app: App, url: str, interface: str, every: float) -> None:
    """Send until interrupted. What is wrong from the beginning ends it; what goes wrong later is said once."""
    try:
        found = target(url, interface)
        _send(app, found)
    except CotError as error:
        raise click.ClickException(str(error)) from error
    said = ""
    while True:
        time.sleep(every)
        try:
            _send(app, found)
            said = ""
        except (CotError, config_file.ConfigError, DaemonAbsentError, DaemonError) as error:
            if str(error) != said:
                said = str(error)
                click.echo(said, err=True)


def _send(app: App, found: Target) -> None:
    """Send the events once.

    Whether the way is protected is judged each time, because the trust may have ended, and an interface may be one of
    the mesh's by now.
    """
    interfaces = config_file.load(app.config).routing.interfaces
    with Client(app.socket) as client:
        status, positions = client.call("status"), client.call("positions")
    ends = (status["node"], *status["peers"])
    protected = {one[name] for one in ends for name in ("address", "ipv4") if one[name] is not None}
    refuse_mesh(found, interfaces, protected)
    with CotSender(found) as sender:
        sender.send(cot.events(positions, time.time()))

"""``meshsec threat``: the operator's word by which levels of authentication rise."""

from typing import Any

import click

from meshsec.cli.app import App
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json


@click.command
@click.argument("level", type=click.Choice(["high", "normal"]), required=False)
@json_option
@click.pass_obj
def threat(app: App, level: str | None, as_json: bool) -> None:
    """Show or say how high the threat is, which levels of authentication rise with.

    It stays until you say otherwise, also over restarts. A key that was copied raises it as well, while the proof
    counts. SAs below the level that is asked for then are replaced without an interruption, or closed after half a
    minute if the peer cannot follow. `meshsec status -v` shows each peer's level, `meshsec explain PEER` why it has it.
    """
    with Client(app.socket) as client:
        view: Any = client.call("threat", {} if level is None else {"threat": level})
    if as_json:
        print_json(view)
        return
    click.echo(view["threat"] + (f": {view['why']}" if view["why"] else ""))

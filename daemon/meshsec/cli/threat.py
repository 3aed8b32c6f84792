"""``meshsec threat``: the operator's word by which levels of authentication rise."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from meshsec.cli.app import App
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_prose


@click.command
@click.argument("level", type=click.Choice(["high", "normal"]), required=False)
@json_option
@click.pass_obj
def threat(app: App, level: str | None, as_json: bool) -> None:
    """Show or say how high the threat is. The levels of authentication rise with it.

    It stays until you say otherwise, also over restarts. A key that was copied raises it as well, while the proof
    counts. SAs below the level that is asked for then are replaced without an interruption. A pair that cannot have
    the level loses its SA after half a minute: the peers of which this node knows it are named with the command that
    helps. `meshsec status -v` shows each peer's level, `meshsec explain PEER` why it has it.
    """
    with Client(app.socket) as client:
        view: Any = client.call("threat", {} if level is None else {"threat": level})
    if as_json:
        print_json(view)
        return
    click.echo(view["threat"] + (f": {view['why']}" if view["why"] else ""))
    for one in unable_lines(view["unable"]):
        print_prose(one, "yellow")


def unable_lines(unable: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each reason why peers lose their SA, or have none, with the command that helps."""
    by_reason: dict[tuple[bool, str], list[str]] = {}
    for one in unable:
        by_reason.setdefault((one["ends"], one["why"]), []).append(one["peer"])
    return [
        f"Peers {'that lose their SA within half a minute' if ends else 'without an SA'}: {', '.join(names)}. {why}"
        for (ends, why), names in by_reason.items()
    ]

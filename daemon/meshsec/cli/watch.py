"""``meshsec watch``: what happens, as it happens."""

import json
from collections.abc import Mapping
from datetime import datetime

import click

from meshsec.cli.app import App
from meshsec.cli.client import Client
from meshsec.cli.views import STATE_COLOURS


@click.command
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line instead of text.")
@click.pass_obj
def watch(app: App, as_json: bool) -> None:
    """Print what changes, until interrupted."""
    with Client(app.socket) as client:
        client.call("watch")
        try:
            for event in client.events():
                click.echo(json.dumps(event, ensure_ascii=False) if as_json else _line(event))
        except KeyboardInterrupt:
            return


def _line(event: Mapping[str, str]) -> str:
    time = datetime.now().astimezone().strftime("%H:%M:%S.%f")[:-3]
    state = event["state"] or event["kind"]
    who = event["peer"] or event.get("service", "")
    return f"{time}  {who:<16}  {click.style(f'{state:<11}', fg=STATE_COLOURS.get(state))}  {event['reason']}"

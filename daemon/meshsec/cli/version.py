"""``meshsec version``."""

import click

from meshsec import __version__
from meshsec.cli.output import json_option, print_json

SCHEMA = "meshsec-version-1"


@click.command
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        print_json({"schema": SCHEMA, "version": __version__})
    else:
        click.echo(f"meshsec {__version__}")

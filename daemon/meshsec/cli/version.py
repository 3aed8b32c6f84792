"""``meshsec version``."""

import click

from meshsec import __version__
from meshsec.cli.output import json_option, print_json


@click.command
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        print_json({"version": __version__})
    else:
        click.echo(f"meshsec {__version__}")

"""``meshsec check``: whether a configuration would be taken, before anything takes it."""

from pathlib import Path

import click

from meshsec.adapters.files import config_file
from meshsec.cli.app import App


@click.command
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.pass_obj
def check(app: App, file: Path | None) -> None:
    """Check a configuration and the profiles it names; nothing is changed.

    FILE may be /dev/stdin; without it the configuration of this node. A line for each problem, and exit code 1.
    """
    path = file or app.config
    config_file.load(path)
    click.echo(f"{path}: nothing is wrong")

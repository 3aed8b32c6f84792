"""The command ``bench`` and its subcommands."""

import click

from meshsec.cli.bench.crypto import crypto
from meshsec.cli.bench.latency import latency
from meshsec.cli.bench.path import path
from meshsec.cli.bench.sa_setup import sa_setup
from meshsec.cli.bench.serve import serve
from meshsec.cli.bench.throughput import throughput


@click.group
def bench() -> None:
    """Measure this node.

    Each benchmark writes NAME.json (every sample), NAME.csv and NAME.svg into the directory meshsec-bench, or that of
    --into. What was measured is kept after each step, so that an interrupted run loses nothing: --resume goes on.
    """


for one in (throughput, serve, sa_setup, path, crypto, latency):
    bench.add_command(one)

"""The command ``bench`` and its subcommands."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click

from meshsec.cli.bench.crypto import crypto
from meshsec.cli.bench.latency import latency
from meshsec.cli.bench.path import path
from meshsec.cli.bench.sa_setup import sa_setup
from meshsec.cli.bench.serve import serve
from meshsec.cli.bench.throughput import throughput


@click.group
@click.pass_context
def bench(context: click.Context) -> None:
    """Measure this node.

    Each benchmark writes NAME-TIME.json (every sample), .csv and .svg into the directory meshsec-bench, or that of
    --into. What cannot share a picture, such as another unit, is in NAME-TIME-2.svg, -3.svg and so on. What was
    measured is kept after each step, so that an interrupted run loses nothing: --resume goes on.

    Tables, records and pictures have the 95 % interval of each median. Fewer than six samples allow none: there it is
    from the least to the greatest.
    """
    context.with_resource(_ending_in_order())


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C meanwhile, so that a closed ssh session leaves no program behind.

    A signal that was ignored when the command began, as nohup(1) has it, stays ignored.
    """
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    heeded = {one: handler for one, handler in before.items() if handler is not signal.SIG_IGN}
    for one in heeded:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one, handler in heeded.items():
            signal.signal(one, handler)


for one in (throughput, serve, sa_setup, path, crypto, latency):
    bench.add_command(one)

"""``meshsec monitor``: this node in the formats of programs that watch networks (docs/guide/monitoring.md)."""

import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

import meshsec
from meshsec.cli.app import App
from meshsec.cli.client import Client, DaemonAbsentError, DaemonError
from meshsec.cli.output import print_json
from meshsec.core.monitoring import cot as events
from meshsec.core.monitoring import meshviewer as freifunk
from meshsec.core.monitoring import metrics
from meshsec.core.monitoring.netjson import METHODS as NETJSON_METHODS
from meshsec.core.monitoring.netjson import network_graph

_EXPENSIVE = 30.0
"""Seconds for an answer: ``doctor`` looks at much of the node."""


@click.group
def monitor() -> None:
    """Print this node in the format of a program that watches networks."""


@monitor.command
@click.pass_obj
def prometheus(app: App) -> None:
    """Print the metrics of meshsecd, olsrv2d and overlayd for Prometheus.

    For node_exporter's textfile collector, and to look at them. A node whose meshsecd does not answer has one metric:
    meshsec_up is 0.
    """
    answers = _answered(app)
    click.echo(metrics.exposition(metrics.node(answers) if "status" in answers else metrics.absent()), nl=False)


@monitor.command
@click.pass_obj
def netjson(app: App) -> None:
    """Print the mesh as a NetworkGraph of NetJSON.

    netdiff and netjsongraph.js read it. Each link says how user data on it is protected.
    """
    print_json(network_graph(_answers(app, NETJSON_METHODS), meshsec.__version__))


@monitor.command
@click.pass_obj
def meshviewer(app: App) -> None:
    """Print the mesh as meshviewer of Freifunk reads it: meshviewer.json.

    With the positions of this node and its peers: publish it only where everybody may know them.
    """
    answers = _answers(app, (*freifunk.METHODS, "positions"))
    print_json(freifunk.meshviewer(answers, meshsec.__version__, time.time()))


@monitor.command
@click.option("--send", "url", metavar="URL", help="Send the events to udp://ADDRESS:PORT or tcp://ADDRESS:PORT.")
@click.option("--interface", default="", help="The interface by which they leave; none of the mesh's.")
@click.option("--every", default=10.0, show_default=True, type=click.FloatRange(1, 3600), help="Seconds between them.")
@click.pass_obj
def cot(app: App, url: str | None, interface: str, every: float) -> None:
    """Print where this node and its peers are, as Cursor on Target events for ATAK.

    With --send, send them until interrupted: to ATAK's group udp://239.2.3.1:6969 on the network of this node's phones,
    or to a TAK server. They are refused where the mesh would carry them in the clear.
    """
    if url is None:
        for event in events.events(_answers(app, events.METHODS)["positions"], time.time()):
            click.echo(event)
        return
    sending = import_module("meshsec.cli.cot_sending")
    sending.run(app, url, interface, every)


def _answered(app: App) -> Mapping[str, Any]:
    """Return what meshsecd answers, without what it cannot find out now."""
    answers: dict[str, Any] = {}
    for method in metrics.METHODS if _answers_at_all(app) else ():
        with suppress(DaemonAbsentError, DaemonError), Client(app.socket, _EXPENSIVE) as client:
            answers[method] = client.call(method)
    return answers


def _answers_at_all(app: App) -> bool:
    try:
        with Client(app.socket) as client:
            client.call("ping")
    except (DaemonAbsentError, DaemonError):
        return False
    return True


def _answers(app: App, methods: tuple[str, ...]) -> Mapping[str, Any]:
    with Client(app.socket, _EXPENSIVE) as client:
        return {method: client.call(method) for method in methods}

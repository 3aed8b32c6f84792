"""``meshsec monitor``: this node in the formats of programs that watch networks (docs/guide/monitoring.md)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

import meshsec
from meshsec.cli.app import App
from meshsec.cli.client import Client, DaemonAbsentError, DaemonError
from meshsec.cli.output import print_json
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

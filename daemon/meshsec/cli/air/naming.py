"""Name the stations that meshsecd knows: neighbours by the next hops of their routes, and this node."""

import asyncio
from collections.abc import Mapping
from typing import Any

from meshsec.adapters.files.config_file import ConfigError
from meshsec.adapters.kernel.stations import Stations, StationsError, stations
from meshsec.cli.app import App
from meshsec.cli.client import Client, DaemonAbsentError, DaemonError
from meshsec.core.air.summary import Names


def names(app: App) -> Names:
    """Return the names of stations by link-layer address; none where no meshsecd answers, as on a desk."""
    try:
        with Client(app.socket) as client:
            status, topology = client.call("status"), client.call("topology")
        return named(status["node"]["name"], topology, asyncio.run(stations()))
    except (ConfigError, DaemonAbsentError, DaemonError, StationsError):
        return {}


def named(own: str, topology: Mapping[str, Any], known: Stations) -> Names:
    """Return this node's name for its own addresses, and the names of neighbours that have one."""
    found = dict.fromkeys(known.own, own)
    for route in topology["routes"]:
        name = topology["names"].get(route["destination"].partition("/")[0])
        address = known.neighbours.get((route["interface"], route["next_hop"]))
        if name and address and route["hops"] == 1:
            found[address] = name
    return found

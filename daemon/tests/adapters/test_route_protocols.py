"""Each part of the kernel's tables has an owner, which removes what it does not know at its start."""

from meshsec.adapters.kernel import clients, islands, tunnel
from meshsec.adapters.overlay import routes
from meshsec.agent.sides.routing import ROUTE_PROTOCOL


def test_no_two_owners_of_routes_have_the_same_protocol() -> None:
    numbers = [ROUTE_PROTOCOL, routes.PROTOCOL, tunnel.PROTOCOL, clients.PROTOCOL, islands.PROTOCOL]
    assert len(set(numbers)) == len(numbers)

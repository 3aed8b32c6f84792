"""The parts of the agent that requests at the control socket read and command."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from meshsec.adapters.kernel.nft import Table
from meshsec.agent.driver import Driver
from meshsec.agent.sides.access import AccessSide
from meshsec.agent.sides.bench import BenchSide
from meshsec.agent.sides.clear_port import ClearPort
from meshsec.agent.sides.configuration import ConfigurationFile
from meshsec.agent.sides.fleet import FleetSide
from meshsec.agent.sides.gateway import GatewaySide
from meshsec.agent.sides.gateway_watch import GatewayWatch
from meshsec.agent.sides.ike import IkeSide
from meshsec.agent.sides.ike_ports import IkePorts
from meshsec.agent.sides.islands import IslandsSide
from meshsec.agent.sides.joining import JoiningSide
from meshsec.agent.sides.kernel import KernelSide
from meshsec.agent.sides.levels import LevelsSide
from meshsec.agent.sides.modes import ModeChoice
from meshsec.agent.sides.names import NamesSide
from meshsec.agent.sides.networks import NetworksSide
from meshsec.agent.sides.overlay import OverlaySide
from meshsec.agent.sides.paths import PathsSide
from meshsec.agent.sides.peer_talk import PeerTalk
from meshsec.agent.sides.positions import PositionsSide
from meshsec.agent.sides.routing import Routing
from meshsec.agent.sides.scheduling import Scheduling
from meshsec.agent.sides.services import ServicesSide
from meshsec.agent.sides.trust import Trust
from meshsec.agent.sides.twins import TwinsSide
from meshsec.agent.start import Start
from meshsec.core.policy.capability import LeftOut, left_out


@dataclass(frozen=True, slots=True)
class Sides:
    """All that a request may use of the agent."""

    start: Start
    driver: Driver
    configuration: ConfigurationFile
    trust: Trust
    names: NamesSide
    fleet: FleetSide
    joining: JoiningSide
    port: ClearPort
    twins: TwinsSide
    ike: IkeSide
    ports: IkePorts
    routing: Routing
    kernel: KernelSide
    overlay: OverlaySide
    networks: NetworksSide
    gateway: GatewaySide
    gateway_watch: GatewayWatch
    access: AccessSide
    talk: PeerTalk
    services: ServicesSide
    positions: PositionsSide
    paths: PathsSide
    levels: LevelsSide
    islands: IslandsSide
    modes: ModeChoice
    bench: BenchSide
    scheduling: Scheduling
    reload: Callable[[], Awaitable[tuple[str, ...]]]
    """Reads the trust store and the configuration again and returns the problems; empty if there are none."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables that meshsecd has beside the fail-closed rules: of flows, the uplink and clients."""
        return self.networks.table, self.gateway.table, self.access.kernel.table

    async def altered_tables(self) -> list[str]:
        """Return in words how these tables differ from what was applied last; empty if they do not."""
        return [text for table in self.tables for text in await table.altered()]

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what of the policy the IKE daemon cannot do."""
        policy = self.driver.engine.known.policy
        return left_out(policy.ike_proposals, policy.esp_proposals, self.ike.daemon.algorithms)

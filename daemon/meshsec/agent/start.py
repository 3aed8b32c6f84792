"""What meshsecd is started with."""

from dataclasses import dataclass
from pathlib import Path

from meshsec.adapters.kernel.esp_probe import EspProbe
from meshsec.agent.sides.trust import Side
from meshsec.core.config.settings import Settings
from meshsec.core.values.model import Card


@dataclass(frozen=True, slots=True)
class Start:
    """The start parameters, all of them checked."""

    config: Path
    settings: Settings
    card: Card
    esp: EspProbe
    sides: tuple[Side, ...] = (Side(),)
    """The node's key and, during a change of the key, the next one (ADR 0041)."""
    ended: Card | None = None
    """Card of the key that the present one replaced: its addresses are removed."""
    aes: bool | None = None
    """Whether this processor has AES-GCM instructions; None if that is not known."""

    @property
    def cards(self) -> tuple[Card, ...]:
        """All cards of this node."""
        return (self.card, *(side.card for side in self.sides[1:] if side.card))

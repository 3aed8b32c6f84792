"""What meshsecd is started with."""

from dataclasses import dataclass
from pathlib import Path

from meshsec.adapters.kernel.esp_probe import EspProbe
from meshsec.agent.sides.trust import Side
from meshsec.core.config.settings import Settings
from meshsec.core.values.model import Card


@dataclass(frozen=True, slots=True)
class Start:
    """All of it was checked before."""

    config: Path
    settings: Settings
    card: Card
    esp: EspProbe
    sides: tuple[Side, ...] = (Side(),)
    """The node's key and, while it is being changed, the next one (ADR 0041)."""
    ended: Card | None = None
    """Of the key whose place the present one took: its addresses are given back."""
    aes: bool | None = None
    """Whether this processor has instructions for AES-GCM; None: nobody knows."""

    @property
    def cards(self) -> tuple[Card, ...]:
        """All cards of this node."""
        return (self.card, *(side.card for side in self.sides[1:] if side.card))

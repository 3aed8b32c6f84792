"""Write what was seen on the air for programs (docs/reference/schema/meshsec-air-1.json)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meshsec.core.air import mac
from meshsec.core.air.assembler import Assembler
from meshsec.core.air.capture import Packet
from meshsec.core.air.exchange import Exchange
from meshsec.core.air.frames import FrameError
from meshsec.core.air.summary import Names, Summary, warnings

SCHEMA = "meshsec-air-1"


@dataclass(slots=True)
class Air:
    """One capture, from the first packet to the last."""

    assembler: Assembler = field(default_factory=Assembler)
    summary: Summary = field(default_factory=Summary)
    refused: int = 0
    """Packets that are no frame of 802.11."""
    first_refused: str = ""
    """Number and fault of the first one."""

    def take(self, packets: Iterable[Packet]) -> Iterator[Exchange]:
        """Take packets, and yield the exchanges that have ended."""
        for packet in packets:
            try:
                frame = mac.decode(packet.content, packet.octets, packet.clock_ns)
            except FrameError as error:
                self.first_refused = self.first_refused or f"packet {packet.number}: {error}"
                self.refused += 1
                continue
            yield from self._counted(self.assembler.handle(frame))

    def finish(self) -> Iterator[Exchange]:
        """Yield the exchanges that have not ended yet."""
        yield from self._counted(self.assembler.finish())

    def _counted(self, exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
        for one in exchanges:
            self.summary.take([one])
            yield one

    @property
    def microseconds(self) -> float:
        """From the beginning of the first frame to the end of the last one."""
        return self.assembler.latest - (self.assembler.first or 0.0)

    def warnings(self) -> list[str]:
        """Return what limits the figures, in sentences."""
        found = warnings(self.assembler.counts, self.assembler, self.summary)
        if self.refused:
            found.append(f"{self.refused} packets are no frames of 802.11, such as {self.first_refused}.")
        return found

    def document(
        self, source: Mapping[str, Any], names: Names, exchanges: Sequence[Exchange] | None = None
    ) -> Mapping[str, Any]:
        """Return everything for JSON. ``exchanges``: those to list; None: they are not listed."""
        counts, length = self.assembler.counts, self.microseconds
        airtime = counts.occupied + sum(one.airtime for one in self.summary.neighbours.values())
        return {
            "schema": SCHEMA,
            **source,
            "seconds": round(length / 1e6, 6),
            "frames": counts.frames,
            "clock": self._clock(),
            "busy_share": round(airtime / length, 4) if length > 0 else None,
            "stray": counts.stray,
            "damaged": counts.damaged,
            "refused": self.refused,
            "warnings": self.warnings(),
            **self.summary.documents(length, names),
            "exchanges": None if exchanges is None else [exchange(one) for one in exchanges],
        }

    def _clock(self) -> str:
        counts = self.assembler.counts
        return {0: "radio", counts.frames: "machine"}.get(counts.without_tsft, "both") if counts.frames else "none"


def exchange(one: Exchange) -> Mapping[str, Any]:
    """Return one exchange for JSON."""
    return {
        "number": one.number,
        "transmitter": one.transmitter,
        "receiver": one.receiver,
        "pattern": one.pattern,
        "start_us": round(one.start, 1),
        "access_us": None if one.access is None else round(one.access, 1),
        "idle": one.idle,
        "retries_us": round(one.retries, 1),
        "rts_cts_us": round(one.rts_cts, 1),
        "data_us": round(one.data, 1),
        "ack_us": round(one.ack, 1),
        "total_us": round(one.total, 1),
        "airtime_us": round(one.airtime, 1),
        "attempts": one.attempts,
        "frames": one.frames,
        "mpdus": one.mpdus,
        "retried": one.retried,
        "octets": one.octets,
        "answered": one.answered,
        "rate": one.rate.label if one.rate else None,
        "clock": "radio" if one.exact else "machine",
    }

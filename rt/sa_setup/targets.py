"""What bench-sa-setup is to reach, and whether a result does: said plainly, as a figure, never as a test."""

from collections.abc import Iterator, Mapping

from rt.measure.results import Cell, Result, percentile
from rt.sa_setup.policy import OURS

OVER_IDLE = 1.5
"""The governor's p99 with the receiver loaded at nice -20, over its own idle median."""
IDLE_BEYOND_PATH_MS = 4.0
LOSS_P95_MS = 1000.0
FRAMES_POINTS = 1.0
JUDGED_ENCODER = "keeping"
"""One that keeps up with its camera. The other takes all of a core and loses frames alone: whatever else runs on that
core is missing in its frames, so what it loses is the set-ups' CPU time, not what scheduling did to it."""
LIVE = "saturating"
"""The load of the cells that are judged."""
UNASKED, UNSEEN = "in the capture, and not waited for", "not in the capture"
"""Set-ups that are in no figure: one came after it was given up or was begun by the other end; a packet is missing."""
_CALM: Mapping[str, object] = {"place": "none", "apart": "receiver"}
"""No load, and the receiver where it is when it is loaded."""


def judged(result: Result) -> list[str]:
    """Return one line for each target whose cells were measured."""
    return [line for check in (_receiver, _relay, _idle, _loss, _frames, _clocks, _given_up) for line in check(result)]


def _receiver(result: Result) -> Iterator[str]:
    idle, loaded = _of(result, profile="governor", **_CALM), _of(result, profile="governor", nice=-20)
    if idle and loaded:
        over = percentile(loaded, 99) / _middle(idle)
        yield _line(f"governor, receiver loaded at nice -20: p99 {over:.2f} times its idle median", OVER_IDLE, over)
    stock, stock_loaded = _of(result, profile="stock", **_CALM), _of(result, profile="stock", nice=-20)
    if stock and stock_loaded:
        yield f"stock in the same place: median {_middle(stock_loaded) / _middle(stock):.1f} times its idle median"


def _relay(result: Result) -> Iterator[str]:
    for profile in ("stock", "governor"):
        idle = _of(result, profile=profile, place="none", apart="relay")
        loaded = _of(result, profile=profile, nice=-20, place="relay")
        if idle and loaded:
            yield (
                f"{profile}, relay loaded at nice -20: median {_middle(loaded):.1f} ms, idle {_middle(idle):.1f} ms "
                f"({min(idle):.1f} to {max(idle):.1f})"
            )


def _idle(result: Result) -> Iterator[str]:
    for profile in ("stock", "governor"):
        if idle := _of(result, profile=profile, **_CALM, what="total beyond two round trips"):
            middle = _middle(idle)
            said = f"{profile}, no load: median {middle:.2f} ms beyond the two round trips of the path"
            yield _line(said, IDLE_BEYOND_PATH_MS, middle)


def _loss(result: Result) -> Iterator[str]:
    for retransmission in ("ours", "stock"):
        found = _of(result, part="loss", loss=5, retransmission=retransmission)
        if found:
            late = percentile(found, 95)
            yield _line(f"5 % loss, {retransmission} repetition: p95 {late:.0f} ms", LOSS_P95_MS, late)


def _frames(result: Result) -> Iterator[str]:
    for kind in ("keeping", "saturating"):
        for profile in ("stock", "governor"):
            about = {"part": "stream", "load": kind, "profile": profile, "what": "frames missing"}
            calm, busy = _of(result, **about, rate=0), _of(result, **about, rate=5)
            if calm and busy:
                more = _middle(busy) - _middle(calm)
                said = f"{profile}, {kind} encoder, 5 set-ups a second: {more:+.2f} points of frames missing"
                yield _line(said, FRAMES_POINTS, more) if kind == JUDGED_ENCODER else said


def _clocks(result: Result) -> Iterator[str]:
    """Say how many set-ups each of the two clocks has timed, and what is in no figure."""
    capture, vici = (
        sum(len(cell.samples) - cell.given_up for cell in result.cells if _fits(cell, {"what": what, "source": source}))
        for what, source in (("total", "capture"), ("ike_auth", "vici"))
    )
    if capture:
        yield (
            f"two clocks: the capture timed {capture} set-ups, charon's log over VICI {vici} of them "
            f"(no phase whose two lines came together)"
        )
    for what in (UNASKED, UNSEEN):
        if count := sum(cell.samples[0] for cell in result.cells if _fits(cell, {"what": what})):
            yield f"{what}: {count:.0f} set-ups, which are in no figure"


def _given_up(result: Result) -> Iterator[str]:
    """Name the cells whose greatest times are lower bounds."""
    for cell in result.cells:
        if cell.given_up:
            about = ", ".join(
                str(cell.key[name]) for name in ("profile", "suite", "place", "load", "nice") if name in cell.key
            )
            yield f"{about}: {cell.given_up} set-ups were given up, and count as {max(cell.samples) / 1000:g} s"


def _of(result: Result, **wanted: object) -> list[float]:
    """Return the sorted samples of the one cell that fits; by default of set-ups on the receiver."""
    about = {"part": "priority", "place": "receiver", "what": "total", **wanted}
    if about["part"] == "priority":
        about = {"suite": OURS, **about}
        if about["place"] != "none":
            about = {"load": LIVE, **about}
    if about["part"] != "priority" and "place" not in wanted:
        del about["place"]
    found = [cell for cell in result.cells if _fits(cell, about)]
    return sorted(found[0].samples) if found else []


def _fits(cell: Cell, about: Mapping[str, object]) -> bool:
    return all(cell.key.get(name) == value for name, value in about.items())


def _middle(ordered: list[float]) -> float:
    return percentile(ordered, 50)


def _line(said: str, limit: float, value: float) -> str:
    return f"{'reached' if value <= limit else 'MISSED'} (at most {limit:g}): {said}"

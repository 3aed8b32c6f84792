"""Response time by level of authentication: the wish with which the paper of 2007 ends, as a figure.

Cold set-ups on a line a - b - c with real charons, each level in turn as the floor of both ends, without a load and
with an encoder at nice -20 on the receiver. A level is what the ends prove (the key on the card; with "secret" the
second secret too, RFC 8784) and the weakest key exchange. A fleet's signature is judged before anything is sent, so it
takes no time here. Levels and loads are taken in rounds, every other one backwards.
"""

import sys
from collections.abc import Mapping
from functools import partial
from itertools import product

from rt.loads import encoder
from rt.measure import plot
from rt.measure.frame import Bench
from rt.measure.results import QUICK, MeasurementError, Result
from rt.sa_setup.rig import SAMPLE_TIMEOUT, Circumstances, Load, Rig
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import PolicyValue

SUITES: list[Mapping[str, str | int]] = [
    {"name": "modp4096", "ike": "aes256gcm16-prfsha384-modp4096", "esp": "aes256gcm16-modp4096"},
    {"name": "p384", "ike": "aes256gcm16-prfsha384-ecp384", "esp": "aes256gcm16-ecp384"},
    {"name": "x25519", "ike": "aes256gcm16-prfsha256-x25519", "esp": "aes256gcm16-x25519"},
]
LEVELS: Mapping[str, tuple[bool, str]] = {
    "card, x25519": (False, "x25519"),
    "secret, x25519": (True, "x25519"),
    "card, p384": (False, "p384"),
    "secret, p384": (True, "p384"),
    "card, modp4096": (False, "modp4096"),
    "secret, modp4096": (True, "modp4096"),
}
"""Whether each level asks for the second secret, and its key exchange."""
QUICK_LEVELS = ("card, x25519", "secret, x25519", "secret, modp4096")
LOADS: Mapping[str, Load | None] = {"idle": None, "receiver encodes at nice -20": Load("receiver", -20)}
PROFILES = ("stock", "governor")
DEADLINE_MS = 100.0
ROUNDS, SAMPLES = (1, 4) if QUICK else (3, 17)
SECRET = "5a" * 32


def main() -> int:
    """Visit every level, with and without the load, in every round."""
    bench = Bench("levels", __doc__, ROUNDS, "how often every level is visited")
    bench.flags.add_argument("--samples", type=int, default=SAMPLES, help="set-ups at each visit")
    options = bench.parse()
    bench.need(encoder.missing())
    with bench.measuring(), Rig() as rig:
        for _, (profile, level, load) in bench.in_rounds(planned(quick=QUICK)):
            measure = partial(_take, rig, profile, level, LOADS[load], options.samples)
            key = {"profile": profile, "level": level, "load": load}
            times, overdue = bench.visit(", ".join(key.values()), measure)
            for what, found in times.items():
                bench.take({**key, "what": what}, "ms", found, overdue if what == "total" else 0)
            bench.take({**key, "what": "given up"}, "set-ups", [overdue])
    params = {
        "samples": options.samples,
        "rounds": options.rounds,
        "deadline_ms": DEADLINE_MS,
        "given_up_after_s": SAMPLE_TIMEOUT,
        "hops": 2,
    }
    return bench.finish(bench.result({**params, "esp": capabilities.probe().esp}), _draw)


def planned(*, quick: bool) -> list[tuple[str, str, str]]:
    """Return each profile, level and load that is visited; a quick run leaves out levels only."""
    return [*product(PROFILES, QUICK_LEVELS if quick else LEVELS, LOADS)]


def _prepare(node: Node, *, second: bool) -> None:
    """Give a node the second secret or take it away: ends that both have it use it at every level."""
    path = node.directory / "given"
    path.write_text(SECRET)
    node.meshsec("secret", *(("set", str(path)) if second else ("remove",)))


def policy(level: str) -> Mapping[str, PolicyValue]:
    """Return the policy whose floor is a level, and whose only key exchange is the level's."""
    second, suite = LEVELS[level]
    asked: Mapping[str, str | int] = {"name": "measured", "second_secret": second, "suite": suite}
    return {"suites": [one for one in SUITES if one["name"] == suite], "levels": [asked], "deadline_ms": DEADLINE_MS}


def _take(rig: Rig, profile: str, level: str, load: Load | None, samples: int) -> tuple[dict[str, list[float]], int]:
    """Return the times of cold set-ups at a level, after making sure that they are of it, and how many were given up.

    Those are the last ones in the total, with the time after which they were.
    """
    for node in (rig.initiator, rig.responder):
        _prepare(node, second=LEVELS[level][0])
    block = rig.take(Circumstances(profile, load, policy=policy(level)), samples)
    for node, peer in ((rig.initiator, rig.responder), (rig.responder, rig.initiator)):
        (sa,) = node.charon.sas_with(peer.name)[:1] or (None,)
        if sa is None or sa.second_secret is not LEVELS[level][0]:
            raise MeasurementError(f"{node.name}'s SA is not of the level {level}: {sa}")
    seen = [times for times, _ in block.timed]
    times: dict[str, list[float]] = {
        "total": [1000 * one.total for one in seen] + [1000 * SAMPLE_TIMEOUT] * block.overdue,
        "ike_sa_init": [1000 * one.ike_sa_init for one in seen],
        "ike_auth": [1000 * one.ike_auth for one in seen],
    }
    return times, block.overdue


def _draw(result: Result) -> None:
    """Draw the response time of each level, a panel for each scheduling profile."""
    profiles = [*dict.fromkeys(str(cell.key["profile"]) for cell in result.cells)]
    width, height = plot.PANEL
    title = "Response time by level of authentication: median, bars from the least to the greatest"
    size = (2 * width, height * len(profiles))
    about = plot.footer([cell for cell in result.cells if cell.key["what"] == "total"])
    with plot.page(result.name, plot.marked(title, result), size, about, nrows=len(profiles)) as axes:
        for one, profile in zip(axes, profiles, strict=True):
            series: dict[str, dict[str, list[float]]] = {}
            for cell in result.cells:
                if cell.key["profile"] == profile and cell.key["what"] == "total":
                    found = series.setdefault(str(cell.key["load"]), {})
                    found[str(cell.key["level"]).replace(", ", "\n")] = list(cell.samples)
            plot.points(one, series, f"level (scheduling: {profile})", "cold set-up, ms (less is better)")
            one.set_yscale("log")
            plot.decimal(one.yaxis)
            one.axhline(DEADLINE_MS, color="black", linestyle="--", linewidth=1, label=f"deadline, {DEADLINE_MS:g} ms")


if __name__ == "__main__":
    sys.exit(main())

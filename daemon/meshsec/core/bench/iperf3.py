"""Read what ``iperf3 --json --get-server-output`` reports (iperf3 3.12 of Debian 12, 3.18 of Debian 13).

The end that sends knows what it sent again and its congestion window; the end that receives knows what arrived. So each
figure comes from the end that knows it, which is the server, whose report the client's contains, for half of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from meshsec.core.bench.record import Key, Taken

_SHORTEST = 0.5
"""Seconds of an interval; iperf3 ends with one of some milliseconds, which means nothing."""


def refusal(report: Any) -> str:
    """Return why iperf3 measured nothing; empty if it did."""
    found = report.get("error", "") if isinstance(report, Mapping) else "its report is no object"
    return str(found)


def stream(report: Any, key: Key, *, reverse: bool) -> list[Taken]:
    """Return what a TCP stream carried, sent again, and had as its window, for each second. Raises ValueError.

    ``reverse``: the server sends.
    """
    try:
        here, there = report, report["server_output_json"]
        sender, receiver = (there, here) if reverse else (here, there)
        found = [Taken(key, "Mbit/s", [*_each(receiver, "bits_per_second", 1e-6)])]
        found.append(Taken(key, "segments sent again in a second", [*_rates(sender, "retransmits")]))
        found.append(Taken(key, "kB of congestion window", [*_each(sender, "snd_cwnd", 1e-3)]))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"iperf3's report lacks what it should have: {type(error).__name__}: {error}") from error
    if not found[0].samples:
        raise ValueError("iperf3 reported no second")
    return [one for one in found if one.samples]


def datagrams(report: Any, key: Key) -> list[Taken]:
    """Return what of a load of UDP arrived, what was lost, and the jitter (RFC 3550, section 6.4.1). Raises ValueError.

    Where nothing arrived, there is no jitter.
    """
    try:
        sent, received = report["end"]["sum_sent"], report["end"]["sum_received"]
        counted = _number(received["packets"]) - _number(received["lost_packets"])
        offered, seconds = _number(sent["packets"]), _number(received["seconds"])
        length = _number(report["start"]["test_start"]["blksize"])
        jitter = _number(received["jitter_ms"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"iperf3's report lacks what it should have: {type(error).__name__}: {error}") from error
    if not offered or not seconds:
        raise ValueError("iperf3 sent no datagram")
    arrived = max(0.0, min(counted, offered))
    found = [
        Taken(key, "Mbit/s", [arrived * length * 8 / seconds / 1e6]),
        Taken(key, "% lost", [100 * (1 - arrived / offered)]),
    ]
    return [*found, Taken(key, "ms of jitter", [jitter])] if arrived else found


def _intervals(report: Any) -> Iterator[tuple[float, Mapping[str, Any]]]:
    for interval in report["intervals"]:
        one = interval["streams"][0]
        if (seconds := _number(one["seconds"])) >= _SHORTEST:
            yield seconds, one


def _each(report: Any, name: str, factor: float) -> Iterator[float]:
    return (_number(one[name]) * factor for _, one in _intervals(report))


def _rates(report: Any, name: str) -> Iterator[float]:
    return (_number(one[name]) / seconds for seconds, one in _intervals(report))


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value) or value < 0:
        raise ValueError(f"iperf3's report has {value!r} instead of a number")
    return float(value)


def version(text: str) -> str:
    """Return the version from ``iperf3 --version``; empty if there is none."""
    words: Sequence[str] = text.split()
    return words[1] if len(words) > 1 and words[0] == "iperf" else ""

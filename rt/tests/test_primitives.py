"""What bench-primitives reads from the programs that measure, and what it refuses."""

import json

import pytest

from rt.measure.results import MeasurementError
from rt.primitives import programs
from rt.primitives.programs import PACKET, SALSA, SWITCHING, Taken
from tests.lab.basics.programs import ProgramMissingError

pytestmark = pytest.mark.thorough

HASH = "+H:16\n+F:6:sha256:171076440.00\n"
RSA = "+R1:15647:1024:1.00\n+F2:1:1024:16459.459459:267790.476190\n"
CJDROUTE = """\
1700000000 INFO Benchmark.c: starting
Benchmark salsa20/poly1305 in 8153ms. 147185 kilobits per second
Benchmark Switching in 17107ms. 59858 packets per second
"""
"""With the lines that tomesh prints."""


def test_openssls_bytes_are_printed_in_thousands() -> None:
    assert programs.rate("sha256", HASH) == pytest.approx(171076.44)


def test_signatures_and_verifications_are_those_of_the_size() -> None:
    assert programs.pair("rsa1024", RSA) == pytest.approx((16459.459459, 267790.476190))
    with pytest.raises(MeasurementError, match="no figure for rsa2048"):
        programs.pair("rsa2048", RSA)


@pytest.mark.parametrize("text", ["", "+F:6:sha512:1.0", "+F:6:sha256", "+F:6:sha256:nan", "+F:6:sha256:-1"])
def test_a_hash_without_a_figure_is_refused(text: str) -> None:
    with pytest.raises(MeasurementError, match="openssl speed gave"):
        programs.rate("sha256", text)


def test_the_overlays_figures_have_units_that_can_be_compared() -> None:
    figures = [
        {"name": "sealed and opened", "per_second": 500.0, "megabits": 4.0},
        {"name": "frames switched", "per_second": 9.0, "megabits": None},
        {"name": "packets sent by a node", "per_second": 7.0, "megabits": 2.0},
    ]
    assert list(programs.overlay(json.dumps({"schema": 1, "figures": figures}))) == [
        Taken("overlayd", "sealed and opened", "kbit/s", 4000, PACKET),
        Taken("overlayd", "frames switched", "packets/s", 9),
        Taken("overlayd", "packets sent by a node", "kbit/s", 2000, PACKET),
        Taken("overlayd", "packets sent by a node", "packets/s", 7),
    ]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"figures": [{"name": "x"}]}'])
def test_what_overlayd_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(MeasurementError, match="overlayd bench gave no figures"):
        list(programs.overlay(text))


def test_cjdroutes_lines_are_found_among_others() -> None:
    assert list(programs.cjdns(CJDROUTE)) == [
        Taken("cjdroute", SALSA, "kbit/s", 147185),
        Taken("cjdroute", SWITCHING, "packets/s", 59858),
    ]


def test_half_of_cjdroutes_benchmark_is_refused() -> None:
    with pytest.raises(MeasurementError, match=SWITCHING):
        list(programs.cjdns(CJDROUTE.partition("Benchmark Switching")[0]))


def test_openssl_and_overlayd_of_this_machine_are_understood() -> None:
    first, *_ = programs.hashes("sha256", 1)
    signed = list(programs.signatures("rsa1024", 1))
    assert (first.what, first.octets, first.unit) == ("sha256", 16, "kB/s")
    assert [one.what for one in signed] == ["rsa1024 sign", "rsa1024 verify"]
    try:
        names = {one.what for one in programs.overlayd(0.02)}
    except ProgramMissingError as error:
        pytest.skip(str(error))
    assert "frames switched" in names
    assert any(name.startswith("sealed and opened: CryptoAuth") for name in names)

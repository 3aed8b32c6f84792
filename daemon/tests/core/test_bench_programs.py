"""What openssl speed and cyclictest print, as seen on Debian 12 and 13, and what it says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.bench import cyclictest, hackbench, openssl, oslat
from meshsec.core.bench.record import Taken

CIPHER = "+R:1215077:AES-128-GCM:0.710000\n+H:1500\n+F:25:AES-128-GCM:2567064084.51\n"
SEEN = {
    "rsa2048": "+F2:2:2048:4477.777778:76257.777778",
    "ecdsap256": "+F4:3:256:66330.188679:23117.021277",
    "ecdhp256": "+F5:3:256:29940.740741:0.000033",
    "ecdhx25519": "+R9:10892:253:Ed25519:0.70\n+F5:22:253:40684.313725:0.000025",
    "ed25519": "+F6:0:253:Ed25519:43378.787879:15560.000000",
    "ML-KEM-768": "+R17:28779:ML-KEM-768:0.98\n+F9:13:29026.530612:45321.052632:29366.326531",
}


def test_throughput_is_in_megabits() -> None:
    assert openssl.throughput(CIPHER) == pytest.approx(20536.5, abs=0.1)


@pytest.mark.parametrize("text", ["", "+F:25:AES-128-GCM:x", "+F:25:AES:0.00", "+F:1:nan", "+F:25:AES:inf", "+H:16"])
def test_no_figure_is_told_from_a_figure_of_nothing(text: str) -> None:
    assert openssl.throughput(text) is None


@pytest.mark.parametrize(
    ("algorithm", "found"),
    [
        ("rsa2048", {"signatures": 4477.777778, "verifications": 76257.777778}),
        ("ecdsap256", {"signatures": 66330.188679, "verifications": 23117.021277}),
        ("ecdhp256", {"agreements": 29940.740741}),
        ("ecdhx25519", {"agreements": 40684.313725}),
        ("ed25519", {"signatures": 43378.787879, "verifications": 15560.0}),
        (
            "ML-KEM-768",
            {"key generations": 29026.530612, "encapsulations": 45321.052632, "decapsulations": 29366.326531},
        ),
    ],
)
def test_operations_are_found_by_name(algorithm: str, found: dict[str, float]) -> None:
    taken = openssl.operations(algorithm, SEEN[algorithm])
    assert {str(one.key["what"]): one.samples[0] for one in taken} == found
    assert {one.unit for one in taken} == {"1/s"}


def test_figures_of_another_kind_are_no_figures() -> None:
    assert openssl.operations("ecdhx25519", SEEN["ed25519"]) == []
    assert openssl.operations("ed25519", "+F6:0:253:Ed25519:x:1") == []


def test_a_set_up_costs_two_agreements_a_signature_and_a_verification() -> None:
    cells = [*openssl.operations("ecdhx25519", SEEN["ecdhx25519"]), *openssl.operations("ed25519", SEEN["ed25519"])]
    whole = openssl.set_ups(cells)
    assert whole == pytest.approx(1 / (2 / 40684.31 + 1 / 43378.79 + 1 / 15560), rel=1e-4)
    assert openssl.set_ups(cells[:2]) is None
    assert openssl.set_ups([Taken({"load": "idle"}, "us", [1.0])]) is None


@given(st.text(alphabet="+F0123456789:.x\n", max_size=80))
def test_no_text_breaks_the_readers(text: str) -> None:
    openssl.throughput(text)
    for algorithm in openssl.OPERATIONS:
        openssl.operations(algorithm, text)


def report(**thread: object) -> dict[str, object]:
    one = {"cpu": 0, "histogram": {"3": 98, "10": 1, "200": 1}, "max": 200, "cycles": 100, **thread}
    return {"thread": {"0": one}}


def test_percentiles_are_those_of_the_histogram() -> None:
    found = cyclictest.merged(cyclictest.read(report()))
    assert [found.percentile(share) for share in (0.5, 0.98, 0.99, 0.995)] == [3, 3, 10, 200]


def test_a_wake_up_beyond_the_histogram_is_the_latest() -> None:
    found = cyclictest.merged(cyclictest.read(report(histogram={"3": 99}, max=20_000)))
    assert (found.percentile(0.5), found.percentile(0.999), found.most) == (3, 20_000, 20_000)


def test_processors_count_together() -> None:
    both = {"thread": {"0": report()["thread"]["0"], "1": {**report()["thread"]["0"], "cpu": 1, "max": 500}}}  # type: ignore[index]
    found = cyclictest.merged(cyclictest.read(both))
    assert (found.most, found.cycles, found.histogram[3]) == (500, 200, 196)


@pytest.mark.parametrize(
    "said",
    [None, {}, {"thread": {}}, report(cycles=0), report(histogram=None), report(max="x"), report(histogram={"-1": 5})],
)
def test_a_report_that_makes_no_sense_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="cyclictest"):
        cyclictest.read(said)


@pytest.mark.parametrize(("most", "enough"), [(1250, True), (1251, False)])
def test_the_verdict_is_by_a_tenth_of_the_deadline(most: int, enough: bool) -> None:
    assert ("enough room" in cyclictest.verdict(most, 100.0)) is enough


COUNTED = {"1": 144721254, "9": 6, "10": 4, "128": 7}
OSLAT = {"thread": {"0": {"cpu": 0, "max": 52967, "duration": 3.004, "histogram": COUNTED}}}


def test_interruptions_of_ten_microseconds_are_long() -> None:
    assert oslat.read(OSLAT) == [oslat.Interruptions(52967, 11, 3.004)]


@pytest.mark.parametrize(
    "report",
    [None, {}, {"thread": {}}, {"thread": {"0": {}}}, {"thread": {"0": {"max": 1, "duration": 0, "histogram": {}}}}],
)
def test_what_is_no_report_of_oslat_is_refused(report: Any) -> None:
    with pytest.raises(ValueError, match="oslat"):
        oslat.read(report)


def test_hackbench_prints_seconds() -> None:
    assert hackbench.milliseconds("Running in process mode\nTime: 0.119\n") == pytest.approx(119)
    with pytest.raises(ValueError, match="no time"):
        hackbench.milliseconds("Time: soon")


def test_wake_ups_are_counted_by_powers_of_two_and_those_beyond_the_histogram_too() -> None:
    late = cyclictest.Lateness({0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 32}, most=1000, cycles=64)
    assert late.doubled() == {1: 3, 2: 4, 4: 24, 8: 32, 1024: 1}
    assert sum(late.doubled().values()) == late.cycles

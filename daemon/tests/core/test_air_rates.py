"""The time of frames on the air, computed by hand from the formulas of IEEE 802.11-2020."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.air.rates import Phy, Rate, aggregated


def ofdm(mbit: float, width: int = 20, *, extended: bool = False) -> Rate:
    return Rate(Phy.OFDM, mbit, width=width, extended=extended)


@pytest.mark.parametrize(
    ("rate", "octets", "microseconds"),
    [
        pytest.param(Rate(Phy.DSSS, 1.0), 14, 192 + 112, id="DSSS: an ack at 1 Mbit/s"),
        pytest.param(Rate(Phy.DSSS, 1.0, short_preamble=True), 14, 304, id="DSSS: 1 Mbit/s has no short preamble"),
        pytest.param(Rate(Phy.DSSS, 2.0, short_preamble=True), 14, 96 + 56, id="HR/DSSS: short preamble"),
        pytest.param(Rate(Phy.DSSS, 5.5), 100, 192 + 146, id="HR/DSSS: 800 / 5.5 = 145.5, rounded up"),
        pytest.param(Rate(Phy.DSSS, 11.0), 1536, 192 + 1118, id="HR/DSSS: 12288 / 11 = 1117.1, rounded up"),
        pytest.param(ofdm(6), 14, 20 + 4 * 6, id="OFDM: 134 bits in 6 symbols of 24"),
        pytest.param(ofdm(24), 14, 20 + 4 * 2, id="OFDM: an ack at 24 Mbit/s"),
        pytest.param(ofdm(54), 1536, 20 + 4 * 57, id="OFDM: 12310 bits in 57 symbols of 216"),
        pytest.param(ofdm(24, extended=True), 14, 34, id="ERP: the signal extension of 6"),
        pytest.param(ofdm(12, 10), 14, 40 + 8 * 2, id="OFDM in 10 MHz: twice as slow"),
        pytest.param(ofdm(6, 5), 14, 80 + 16 * 2, id="OFDM in 5 MHz: four times as slow"),
        pytest.param(Rate(Phy.HT, mcs=0), 14, 36 + 4 * 6, id="HT20 MCS 0: 134 bits in 6 symbols of 26"),
        pytest.param(Rate(Phy.HT, mcs=7), 1564, 36 + 4 * 49, id="HT20 MCS 7: 12534 bits in 49 symbols of 260"),
        pytest.param(Rate(Phy.HT, mcs=7, short_gi=True), 1564, 36 + 180, id="HT20 SGI: 49 * 3.6 = 176.4, to 180"),
        pytest.param(Rate(Phy.HT, mcs=15, width=40), 1564, 40 + 4 * 12, id="HT40 MCS 15: 12534 bits, 1080 a symbol"),
        pytest.param(Rate(Phy.HT, mcs=31, width=40), 1564, 48 + 4 * 6, id="HT40 MCS 31: two encoders, 2160 a symbol"),
        pytest.param(Rate(Phy.HT, mcs=7, greenfield=True), 1564, 24 + 4 * 49, id="HT greenfield"),
        pytest.param(Rate(Phy.HT, mcs=7, stbc=True), 1564, 40 + 4 * 50, id="HT STBC: an even number of symbols"),
        pytest.param(Rate(Phy.HT, mcs=32, width=40), 14, 36 + 4 * 6, id="HT duplicate: 24 bits a symbol"),
        pytest.param(Rate(Phy.VHT, mcs=9, width=80), 1564, 40 + 4 * 9, id="VHT80 MCS 9: 12534 bits, 1560 a symbol"),
        pytest.param(Rate(Phy.VHT, mcs=0, streams=8, width=160), 1564, 68 + 4 * 7, id="VHT160 with 8 streams"),
    ],
)
def test_a_frame_takes_the_time_of_the_standard(rate: Rate, octets: int, microseconds: float) -> None:
    assert rate.airtime(octets) == microseconds


@pytest.mark.parametrize(
    ("rate", "mbit", "label"),
    [
        (Rate(Phy.HT, mcs=7), 65.0, "HT20 MCS 7"),
        (Rate(Phy.HT, mcs=15, width=40, short_gi=True), 300.0, "HT40 MCS 15 SGI"),
        (Rate(Phy.VHT, mcs=9, streams=2, width=80, short_gi=True), 866.667, "VHT80 MCS 9x2 SGI"),
        (Rate(Phy.DSSS, 5.5), 5.5, "5.5 Mbit/s"),
        (Rate(Phy.HT, mcs=32, width=40), 6.0, "HT40 MCS 32"),
    ],
)
def test_rates_are_those_of_the_standards_tables(rate: Rate, mbit: float, label: str) -> None:
    assert rate.mbit == pytest.approx(mbit, rel=1e-5)
    assert rate.label == label


@pytest.mark.parametrize(("octets", "taken"), [(1, 8), (4, 8), (5, 12), (1564, 1568), (1565, 1572)])
def test_frames_of_a_burst_are_padded_to_four_octets(octets: int, taken: int) -> None:
    assert aggregated(octets) == taken


@given(st.integers(0, 31), st.sampled_from([20, 40]), st.booleans(), st.integers(14, 65535))
def test_a_longer_frame_takes_no_less_time(mcs: int, width: int, short: bool, octets: int) -> None:
    rate = Rate(Phy.HT, mcs=mcs, width=width, short_gi=short)
    assert rate.preamble < rate.airtime(octets - 1) <= rate.airtime(octets)

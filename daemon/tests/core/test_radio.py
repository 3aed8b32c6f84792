"""How a radio joins the mesh: obstacles, the steps there and back, and faults afterwards."""

import errno
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from meshsec.core.config.radio_settings import Mode, RadioSettings, RtsThreshold, Security
from meshsec.core.radio import plan
from meshsec.core.radio.observed import RTS_OFF, Band, Channel, Interface, MeshParameters, Observed, Phy
from meshsec.core.radio.obstacles import obstacles, wants_country
from meshsec.core.radio.steps import (
    Join,
    Leave,
    SetMcastRate,
    SetMeshParameters,
    SetRtsThreshold,
    SetTxPower,
    SetType,
    SetUp,
    Span,
    StartSupplicant,
    Step,
    StopSupplicant,
    span,
)

OPEN = RadioSettings("rescue", 2412, Security.OPEN)
SAE = structs.replace(OPEN, security=Security.SAE)
RATES = (1.0, 6.0, 54.0)
LOW = Band({mhz: Channel(mhz, power_max=20.0) for mhz in range(2412, 2463, 5)}, RATES, ht=0x107E)
HIGH = Band({mhz: Channel(mhz, power_max=23.0) for mhz in range(5180, 5241, 20)}, RATES[1:], ht=0x107E, vht=True)
PHY = Phy(0, "phy0", frozenset({"managed", "mesh point"}), mesh_auth=True, rts_threshold=RTS_OFF, bands=(LOW, HIGH))
IDLE = Observed("mesh0", exists=True, wireless=True, interface=Interface(7, "mesh0", "managed"), phy=PHY)
QUIET = MeshParameters(forwarding=False, path_discovery=False, rssi_threshold=0, forget_seconds=60)
JOINED = replace(
    IDLE,
    interface=Interface(
        7, "mesh0", "mesh point", up=True, carrier=True, frequency=2412, width=1, center=2412, tx_power=20.0
    ),
    mesh=QUIET,
)


def with_phy(**changes: Any) -> Observed:
    return replace(IDLE, phy=replace(PHY, **changes))


def with_channel(frequency: int, **changes: Any) -> Observed:
    bands = tuple(
        replace(band, channels={**band.channels, frequency: replace(band.channels[frequency], **changes)})
        if frequency in band.channels
        else band
        for band in PHY.bands
    )
    return with_phy(bands=bands)


def own(seen: Observed, **changes: Any) -> Observed:
    assert seen.interface
    return replace(seen, interface=replace(seen.interface, **changes))


def test_an_idle_interface_is_made_a_mesh_point_and_joins() -> None:
    assert obstacles(OPEN, IDLE) == []
    assert plan.plan(OPEN, IDLE) == (
        SetUp(up=False),
        SetType("mesh point"),
        SetUp(up=True),
        Join(b"rescue", 2412, Mode.HT20, Span(1, 2412, (2412,))),
        SetMeshParameters(0, 60),
    )


def test_with_a_password_wpa_supplicant_joins_and_what_is_asked_for_is_set_before_anything_is_sent() -> None:
    wish = structs.replace(SAE, tx_power=10, rts_threshold=500, mcast_rate=6, rssi_threshold=-80)
    assert plan.plan(wish, IDLE) == (
        SetUp(up=False),
        SetType("mesh point"),
        SetRtsThreshold(500),
        SetTxPower(10),
        SetUp(up=True),
        StartSupplicant(),
        SetMeshParameters(-80, None),
        SetMcastRate(6),
    )


@pytest.mark.parametrize(
    ("wish", "step"),
    [(OPEN, Join(b"rescue", 2412, Mode.HT20, Span(1, 2412, (2412,)), 100)), (SAE, StartSupplicant(100))],
)
def test_a_radio_that_is_an_access_point_too_has_one_beacon_interval_for_both(wish: RadioSettings, step: Step) -> None:
    assert step in plan.plan(wish, IDLE, beacon_interval=100)


def test_a_mesh_that_another_program_joined_is_left_first() -> None:
    assert plan.plan(OPEN, JOINED)[0] == Leave()
    assert plan.plan(OPEN, own(JOINED, carrier=False))[0] == SetUp(up=False)


@pytest.mark.parametrize(
    ("wish", "seen", "words"),
    [
        (OPEN, Observed("mesh0"), "no wireless stack"),
        (OPEN, Observed("mesh0", wireless=True), "no interface mesh0"),
        (OPEN, Observed("mesh0", exists=True, wireless=True), "mesh0 is not wireless"),
        (OPEN, with_phy(modes=frozenset({"managed"})), "no mesh mode (it can: managed)"),
        (SAE, with_phy(mesh_auth=False), "cannot do SAE"),
        (OPEN, replace(IDLE, soft_blocked=True), "rfkill unblock wlan"),
        (OPEN, replace(IDLE, hard_blocked=True), "switched off by hardware"),
        (OPEN, own(IDLE, carrier=True), "in use as managed"),
        (OPEN, own(IDLE, type="AP", carrier=True), "in use as AP"),
        (
            structs.replace(OPEN, country="DE"),
            IDLE,
            "stays in regulatory domain 00, not DE; fix: install wireless-regdb",
        ),
        (
            structs.replace(OPEN, country="DE"),
            with_phy(self_managed=True),
            "keeps its own regulatory domain, 00, not DE",
        ),
        (
            structs.replace(OPEN, frequency=2413),
            IDLE,
            "no channel at 2413 MHz; fix: [radio] frequency, one of: 2412, 2417",
        ),
        (OPEN, with_channel(2412, disabled=True), "2412 MHz is disabled"),
        (OPEN, with_channel(2412, no_ir=True), "on 2412 MHz only listening is allowed"),
        (OPEN, with_channel(2412, radar=True), "2412 MHz must make way for radar"),
        (structs.replace(OPEN, mode=Mode.HT40_PLUS), with_channel(2412, no_ht40_plus=True), "HT40+ around 2412 MHz"),
        (
            structs.replace(OPEN, frequency=2462, mode=Mode.HT40_MINUS),
            with_channel(2462, no_ht40_minus=True),
            "HT40- around 2462 MHz",
        ),
        (
            structs.replace(OPEN, frequency=5180, mode=Mode.VHT80),
            with_channel(5180, no_80mhz=True),
            "VHT80 around 5180 MHz",
        ),
        (
            structs.replace(OPEN, frequency=5180, mode=Mode.VHT80),
            with_channel(5240, no_ir=True),
            "on 5240 MHz only listening",
        ),
        (structs.replace(OPEN, frequency=5240, mode=Mode.HT40_PLUS), IDLE, "5260 MHz is disabled"),
        (
            structs.replace(OPEN, mode=Mode.VHT80),
            IDLE,
            "cannot do VHT80 on 2412 MHz; fix: [radio] mode, one of: NOHT, HT20",
        ),
        (
            OPEN,
            with_phy(bands=(replace(LOW, ht=None),)),
            "cannot do HT20 on 2412 MHz; fix: [radio] mode, one of: NOHT",
        ),
        (
            structs.replace(OPEN, mode=Mode.HT40_PLUS),
            with_phy(bands=(replace(LOW, ht=0x107C),)),
            "cannot do HT40+ on 2412 MHz; fix: [radio] mode, one of: NOHT, HT20",
        ),
        (structs.replace(OPEN, tx_power=21), IDLE, "21 dBm is too strong for 2412 MHz; fix: [radio] tx_power <= 20"),
        (
            structs.replace(OPEN, frequency=5180, mcast_rate=1),
            IDLE,
            "no 1 Mbit/s on 5180 MHz; fix: [radio] mcast_rate, one of: 6",
        ),
    ],
)
def test_each_obstacle_is_named_with_its_fix_and_nothing_is_planned(
    wish: RadioSettings, seen: Observed, words: str
) -> None:
    (found,) = obstacles(wish, seen)
    assert words in str(found)
    assert found.fix
    with pytest.raises(ValueError, match="obstacles"):
        plan.plan(wish, seen)


def test_all_obstacles_are_reported_at_once() -> None:
    seen = replace(own(IDLE, type="AP", carrier=True), soft_blocked=True)
    assert len(obstacles(structs.replace(OPEN, frequency=2413, country="DE"), seen)) == 4


def test_a_country_is_suggested_only_where_it_can_help() -> None:
    german = structs.replace(OPEN, country="DE")
    assert wants_country(german, IDLE)
    assert not wants_country(german, replace(IDLE, country="DE"))
    assert not wants_country(german, with_phy(self_managed=True))
    assert not wants_country(OPEN, IDLE)


@pytest.mark.parametrize(
    ("frequency", "mode", "expected"),
    [
        (2412, Mode.NOHT, Span(0, 2412, (2412,))),
        (2437, Mode.HT40_MINUS, Span(2, 2427, (2417, 2437))),
        (2437, Mode.HT40_PLUS, Span(2, 2447, (2437, 2457))),
        (5180, Mode.VHT80, Span(3, 5210, (5180, 5200, 5220, 5240))),
        (5240, Mode.VHT80, Span(3, 5210, (5180, 5200, 5220, 5240))),
        (5805, Mode.VHT80, Span(3, 5775, (5745, 5765, 5785, 5805))),
        (5190, Mode.VHT80, None),
        (5825, Mode.VHT80, None),
    ],
)
def test_the_whole_channel_around_the_primary_one_is_computed(
    frequency: int, mode: Mode, expected: Span | None
) -> None:
    assert span(frequency, mode) == expected


def test_the_way_back_ends_where_it_began() -> None:
    wish = structs.replace(OPEN, tx_power=10, rts_threshold=500)
    before = own(IDLE, up=True)
    assert plan.undo(plan.plan(wish, before), before) == (
        Leave(),
        SetUp(up=False),
        SetTxPower(None),
        SetRtsThreshold(RTS_OFF),
        SetType("managed"),
        SetUp(up=True),
    )
    assert plan.undo((StartSupplicant(),), before) == (StopSupplicant(),)


def carried_out(steps: tuple[Step, ...], seen: Observed) -> Observed:
    """Return the state after the steps, in a simple kernel that refuses what the real one refuses."""
    for step in steps:
        interface = seen.interface
        assert interface
        match step:
            case SetUp(up=up):
                seen = own(seen, up=up, carrier=False)
            case SetType(type=kind):
                assert not interface.up
                seen = own(seen, type=kind)
            case SetRtsThreshold(octets=octets):
                assert seen.phy
                seen = replace(seen, phy=replace(seen.phy, rts_threshold=octets))
            case Join() | StartSupplicant():
                assert interface.up
                assert not interface.carrier
                seen = own(seen, type="mesh point", carrier=True)
            case Leave() | StopSupplicant():
                seen = own(seen, carrier=False)
    return seen


@given(
    st.sampled_from([OPEN, SAE, structs.replace(OPEN, rts_threshold=0, tx_power=1, mcast_rate=6)]),
    st.sampled_from([IDLE, own(IDLE, up=True), own(IDLE, type="IBSS"), own(JOINED, carrier=False)]),
    st.integers(0, 9),
)
def test_undoing_leads_back_from_any_step(wish: RadioSettings, before: Observed, stop: int) -> None:
    done = plan.plan(wish, before)[:stop]
    assert carried_out(plan.undo(done, before), carried_out(done, before)) == before


def test_only_values_that_were_read_back_are_believed() -> None:
    assert plan.differences(OPEN, JOINED) == []
    for seen, words in (
        (Observed("mesh0"), "mesh0 is gone"),
        (own(JOINED, carrier=False), "mesh0 has left the mesh"),
        (own(JOINED, carrier=False, up=False), "mesh0 was set down"),
        (replace(own(JOINED, up=False, carrier=False), soft_blocked=True), "mesh0 was switched off by rfkill"),
        (own(JOINED, type="managed"), "mesh0 was made managed by another program"),
        (own(JOINED, frequency=2417), "frequency is 2417, not 2412"),
        (own(JOINED, width=2), "channel width is 2, not 1"),
        (own(JOINED, center=2422), "centre frequency is 2422, not 2412"),
        (replace(JOINED, mesh=replace(QUIET, forwarding=True)), "forwarding by 802.11s is True, not False"),
        (replace(JOINED, mesh=replace(QUIET, path_discovery=True)), "path discovery by 802.11s is True, not False"),
        (replace(JOINED, mesh=replace(QUIET, rssi_threshold=-70)), "RSSI threshold is -70, not 0"),
        (replace(JOINED, mesh=replace(QUIET, forget_seconds=1800)), "a silent station is forgotten is 1800, not 60"),
    ):
        (told,) = plan.differences(OPEN, seen)
        assert words in told


def test_with_a_password_wpa_supplicant_decides_when_a_silent_station_is_forgotten() -> None:
    assert plan.differences(SAE, replace(JOINED, mesh=replace(QUIET, forget_seconds=0))) == []


def test_a_driver_that_sends_with_other_settings_is_reported_and_not_refused() -> None:
    assert plan.remarks(structs.replace(OPEN, tx_power=20, rts_threshold=None), JOINED) == []
    told = plan.remarks(structs.replace(OPEN, tx_power=10, rts_threshold=500), JOINED)
    assert told == ["the driver sends with 20 dBm, not 10", "the RTS threshold is off, not 500"]
    asking = replace(JOINED, phy=replace(PHY, rts_threshold=500))
    assert plan.remarks(structs.replace(OPEN, rts_threshold=RtsThreshold.OFF), asking) == [
        "the RTS threshold is 500, not off"
    ]


def test_a_measured_rts_threshold_begins_off_and_the_way_back_leads_to_the_drivers() -> None:
    asking = replace(IDLE, phy=replace(PHY, rts_threshold=300))
    for wish in RtsThreshold:
        steps = plan.plan(structs.replace(OPEN, rts_threshold=wish), asking)
        assert SetRtsThreshold(RTS_OFF) in steps
        assert SetRtsThreshold(300) in plan.undo(steps, asking)
    assert not any(isinstance(step, SetRtsThreshold) for step in plan.plan(OPEN, asking))


def test_the_summary_names_an_rts_threshold_that_is_in_force_or_was_decided_on() -> None:
    assert "RTS" not in plan.summary(JOINED, ())
    assert plan.summary(replace(JOINED, phy=replace(PHY, rts_threshold=500)), ()).endswith("RTS threshold 500")
    reason = "measured: fewer than 10 % of the frames are repeated"
    assert plan.summary(JOINED, (), reason).endswith(f"RTS threshold off ({reason})")


def test_error_numbers_are_explained() -> None:
    other = Interface(8, "wlan0", "AP", up=True)
    assert "CAP_NET_ADMIN" in plan.hint(errno.EPERM, IDLE)
    beside = plan.hint(errno.EBUSY, replace(IDLE, others=(other,)))
    assert "wlan0 (AP)" in beside
    assert "[access] radio shares = 'mesh0'" in beside
    assert "shares" not in plan.hint(errno.EBUSY, replace(IDLE, others=(replace(other, type="managed"),)))
    assert "rfkill" in plan.hint(errno.ERFKILL, IDLE)
    assert plan.hint(errno.EBUSY, IDLE) == plan.hint(None, IDLE) == ""

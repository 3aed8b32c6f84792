"""Drop-ins have the profile's classes in systemd's words; systemd itself reads them in ``cli/test_export.py``."""

import configparser

import pytest

from meshsec.core.formats.drop_ins import UNITS, drop_ins, realtime_units
from meshsec.core.scheduling.profiles import SERVICES, STOCK, Placement, Profile, SchedulingClass, SchedulingPolicy
from meshsec.core.values.ike_daemon import IkeDaemon

IKE = [daemon.traits.unit for daemon in IkeDaemon]
FIFO30 = SchedulingClass(SchedulingPolicy.FIFO, priority=30)


def settings(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return dict(parser["Service"]) if parser.has_section("Service") else {}


def of_charon(placement: Placement) -> dict[str, str]:
    """Return the settings of both IKE daemons' units, which are the same."""
    texts = drop_ins(Profile("mine", "d", {"charon": placement}))
    ours, theirs = (texts[f"{unit}.d/50-meshsec-scheduling.conf"] for unit in IKE)
    assert ours == theirs
    return settings(ours)


def test_a_nice_value_comes_with_its_weight() -> None:
    assert of_charon(Placement(SchedulingClass(nice=-10))) == {"Nice": "-10", "CPUWeight": "931"}
    assert of_charon(Placement(SchedulingClass(nice=10), weight=300)) == {"Nice": "10", "CPUWeight": "300"}


@pytest.mark.parametrize(("service", "reset"), [("charon", "no"), ("olsrv2d", "yes")])
def test_a_real_time_class_comes_with_a_watchdog(service: str, reset: str) -> None:
    profile = Profile("mine", "d", {service: Placement(FIFO30, cpus=(0, 2))})
    texts = drop_ins(profile)
    for unit in UNITS[service]:
        assert settings(texts[f"{unit}.d/50-meshsec-scheduling.conf"]) == {
            "CPUSchedulingPolicy": "fifo",
            "CPUSchedulingPriority": "30",
            "CPUSchedulingResetOnFork": reset,
            "LimitRTTIME": "5s",
            "CPUAffinity": "0 2",
        }


def test_meshsecd_does_not_begin_in_the_real_time_class_that_it_takes_later() -> None:
    profile = Profile("mine", "d", {"meshsecd": Placement(FIFO30, weight=200)})
    found = [settings(text) for text in drop_ins(profile).values() if settings(text)]
    assert found == [{"CPUWeight": "200", "LimitRTTIME": "5s"}]


def test_every_unit_has_a_file_so_that_nothing_of_another_profile_stays() -> None:
    texts = drop_ins(STOCK)
    assert len(texts) == len(SERVICES) + 2, "the IKE daemon is one of two, and the router has a signer"
    assert all(settings(text) == {} for text in texts.values())
    assert all("profile stock" in text for text in texts.values())


def test_kernel_threads_and_the_ladder_are_not_for_systemd() -> None:
    profile = Profile("mine", "d", {"irq": Placement(FIFO30)}, ladder=(SchedulingClass(nice=-10),))
    assert all(settings(text) == {} for text in drop_ins(profile).values())


def test_a_service_that_may_get_a_real_time_class_has_the_watchdog_from_the_start() -> None:
    """The watchdog also bounds threads that a killed meshsecd left raised."""
    profile = Profile("mine", "d", {"charon": Placement(SchedulingClass(nice=-5), weight=100)}, ladder=(FIFO30,))
    found = {path: settings(text) for path, text in drop_ins(profile).items() if settings(text)}
    assert list(found.values()) == [{"Nice": "-5", "CPUWeight": "100", "LimitRTTIME": "5s"}] * 2
    alone = Profile("mine", "d", {}, ladder=(FIFO30,))
    assert [settings(text) for text in drop_ins(alone).values() if settings(text)] == [{"LimitRTTIME": "5s"}] * 2


def test_units_that_cannot_start_where_real_time_classes_are_refused_are_named() -> None:
    nice = Placement(SchedulingClass(nice=-5))
    placements = {"charon": Placement(FIFO30), "olsrv2d": nice, "meshsecd": Placement(FIFO30), "irq": Placement(FIFO30)}
    assert realtime_units(Profile("mine", "d", placements)) == IKE, "meshsecd takes its class itself"
    assert realtime_units(Profile("mine", "d", {"charon": nice}, ladder=(FIFO30,))) == []

"""sd_notify, the ESP probe, and strongswan.conf."""

import asyncio
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from meshsec.adapters.ike import strongswan_conf
from meshsec.adapters.ike.strongswan_conf import PluginMissingError, plugins_for, render
from meshsec.adapters.kernel import esp_probe
from meshsec.adapters.sockets import client_frames
from meshsec.adapters.sockets.notify import Notifier, watchdog_interval
from meshsec.core.access.clients import Sighting
from meshsec.core.ike import guard
from meshsec.core.values.model import EspBackend
from namespaces import ip, needs_root, wait_for

from .conftest import CHARON


def test_the_service_manager_is_notified_of_the_daemons_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notifier = Notifier()
        notifier.ready()
        notifier.alive()
        notifier.stopping()
        assert [manager.recv(64) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]
        notifier.close()


def test_a_service_manager_that_does_not_read_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the first message is not ASCII: the service manager reads UTF-8."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notifier = Notifier()
        notifier.status("in the mesh 'Zürich 東京'")
        for _ in range(10_000):  # More than any net.unix.max_dgram_qlen.
            notifier.alive()
        assert manager.recv(64).decode() == "STATUS=in the mesh 'Zürich 東京'"
        assert manager.recv(64) == b"WATCHDOG=1"
        notifier.close()


def test_without_a_service_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Notifier().ready()


@pytest.mark.parametrize(
    ("usec", "pid", "interval"),
    [
        ("30000000", "", 15.0),
        ("30000000", "1", None),
        ("", "", None),
        ("soon", "", None),
        ("0", "", None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_it_asks(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str, interval: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid or str(os.getpid()))
    assert watchdog_interval() == interval


@needs_root
def test_the_probe_finds_a_backend_with_its_reason_and_leaves_nothing_behind(inside: str) -> None:
    found = asyncio.run(esp_probe.probe())
    accepted = "accepts" in found.reason
    assert accepted == (found.backend is EspBackend.KERNEL)
    assert ip("xfrm", "state", "list", check=False) == ""


@needs_root
def test_a_kernel_that_accepts_an_esp_state_does_esp(
    inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ip"
    program.write_text('#!/bin/sh\necho "$@" >> "$0.log"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert asyncio.run(esp_probe.probe()).backend is EspBackend.KERNEL
    added, deleted = (tmp_path / "ip.log").read_text().splitlines()
    assert " add " in added
    assert " delete " in deleted
    assert re.findall("spi \\S+", added) == re.findall("spi \\S+", deleted)


def test_without_ip_and_without_a_tun_device_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(esp_probe, "TUN_DEVICE", Path("/nonexistent/tun"))
    found = asyncio.run(esp_probe.probe())
    assert found.backend is EspBackend.LIBIPSEC
    assert "ip: No such file or directory" in found.reason
    assert found.problem == "/nonexistent/tun: No such file or directory"
    assert "ip: No such file" in found.forced(EspBackend.KERNEL).problem


def test_a_plugin_that_is_not_installed_is_named_with_its_package() -> None:
    plugins = set(plugins_for(EspBackend.LIBIPSEC)) - {"kernel-libipsec"}
    with pytest.raises(PluginMissingError, match=r"lacks kernel-libipsec; .*libcharon-extra-plugins"):
        render(EspBackend.LIBIPSEC, Path("/run/x"), plugins=plugins)
    assert "kernel-libipsec" not in render(EspBackend.KERNEL, Path("/run/x"), plugins=plugins)


def test_each_esp_backend_has_its_routes(tmp_path: Path) -> None:
    plugins = plugins_for(EspBackend.LIBIPSEC)
    kernel = render(EspBackend.KERNEL, tmp_path / "vici", plugins=plugins)
    libipsec = render(EspBackend.LIBIPSEC, tmp_path / "vici", plugins=plugins)
    assert "install_routes = no" in kernel
    assert "routing_table = 0" in kernel
    assert "install_routes = yes" in libipsec
    assert libipsec.index("kernel-libipsec") < libipsec.index("kernel-netlink")
    assert kernel.count("{") == kernel.count("}")


@needs_root
@pytest.mark.parametrize("backend", list(EspBackend))
def test_charon_takes_the_configuration_without_complaint(inside: str, tmp_path: Path, backend: EspBackend) -> None:
    """Every plugin of the list loads, and charon logs no complaint about an option."""
    log = tmp_path / "log"
    plugins = strongswan_conf.installed_plugins()
    (tmp_path / "conf").write_text(render(backend, tmp_path / "vici", log, plugins=plugins))
    charon = subprocess.Popen(
        [CHARON], env=dict(os.environ, STRONGSWAN_CONF=str(tmp_path / "conf")), stdout=subprocess.DEVNULL
    )
    try:
        wait_for((tmp_path / "vici").exists, "charon to listen")
        wait_for(lambda: "loaded plugins" in log.read_text(), "charon to list its plugins")
    finally:
        charon.kill()
        charon.wait()
    (loaded,) = re.findall("loaded plugins: (.*)", log.read_text())
    assert loaded.split() == ["charon-systemd", *plugins_for(backend)]
    # strongSwan 6 says of this machine's kernel what it lacks; that is no complaint about the configuration.
    said = [line for line in log.read_text().splitlines() if "[KNL]" not in line]
    assert not [line for line in said if re.search("failed|unknown|error", line)]


def test_half_open_sas_block_no_peer_and_redirects_are_off() -> None:
    """The limits of half-open SAs rise in an order that lets no attacker block a peer."""
    for backend in EspBackend:
        text = render(backend, Path("/run/vici"), plugins=plugins_for(backend))
        numbers = {name: int(found[1]) for name in _LIMITS if (found := re.search(rf"\n  {name} = (\d+)\n", text))}
        assert numbers.keys() == set(_LIMITS)
        assert numbers["block_threshold"] > numbers["init_limit_half_open"] > numbers["cookie_threshold"]
        per_address = numbers["half_open_timeout"] * guard.COOKIE_RATE + guard.COOKIE_BURST
        assert per_address * 4 < numbers["init_limit_half_open"], "one attacked peer leaves room for others"
        assert 10 <= numbers["half_open_timeout"] <= guard.ATTEMPT_S, "as long as its initiator tries"
        assert "\n  follow_redirects = no\n" in text


_LIMITS = ("block_threshold", "init_limit_half_open", "cookie_threshold", "half_open_timeout")


def test_names_of_clients_are_remembered_until_they_are_too_many_and_of_many_the_newest() -> None:
    names = client_frames._Names()
    for number in range(2 * client_frames.NAMES_MAX):
        names.learn(f"mac{number}", f"name{number}")
        names.learn("mac0", "name")
    names.learn("mac0", "")
    assert len(names._by_mac) == client_frames.NAMES_MAX
    assert names.named(Sighting("mac0")).name == "name"
    assert names.named(Sighting("mac1")).name == ""

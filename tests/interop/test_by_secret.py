"""charon, driven by meshsecd, and libreswan, configured by the export, authenticate each other by the pair's secret.

The claim is the IKE_SA, because a host's kernel may have no ESP.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.lab.lab import Lab
from tests.lab.node import capabilities, libreswan
from tests.lab.node.libreswan import Pluto
from tests.lab.node.node import Node
from tests.lab.node.options import Options

SECONDS = 120.0
PLUTOS_WORDS = "established IKE SA; authenticated peer using authby=secret"
CHARONS_WORDS = "with pre-shared key successful"

_LOG = "charon-ike.log"
_LAB = """\
charon-systemd {{
  filelog {{
    lab {{
      path = {log}
      flush_line = yes
      default = 1
    }}
  }}
}}
"""

MISSING = capabilities.probe().missing()
pytestmark = [
    pytest.mark.skipif(not libreswan.suites(), reason="libreswan is not unpacked: tools/setup system"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
]


@dataclass
class Ends:
    """``driven`` has charon and meshsecd; ``exported`` has a router, and pluto, which is not started."""

    driven: Node
    exported: Node
    old_card: str
    """The card of ``exported`` from before it had libreswan."""

    @property
    def pluto(self) -> Pluto:
        """Return the pluto of ``exported``."""
        return self.exported.daemons.pluto

    def trust(self, card: str) -> None:
        """Give meshsecd this card of the other."""
        self.driven.meshsec("peer", "add", self.exported.name, card)

    def wait_authenticated(self) -> None:
        """Wait until each reports that it has authenticated the other."""
        self.pluto.wait_said(PLUTOS_WORDS, SECONDS)
        self.wait_charon_authenticated()

    def wait_charon_authenticated(self) -> None:
        """Wait until charon reports that it has authenticated libreswan."""
        self.driven.wait_for(f"{CHARONS_WORDS!r}", lambda: CHARONS_WORDS in self.charons_log() or None, SECONDS)

    def restart_charon(self) -> None:
        """Kill charon and start one that knows nothing."""
        self.driven.daemons.charon.kill()
        self._log.write_text("")
        self.driven.daemons.charon.start()
        self.driven.daemons.charon.wait_ready()

    def charons_log(self) -> str:
        """Return charon's output since its last start."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def _log(self) -> Path:
        return self.driven.logs / _LOG

    def wait_doctor(self) -> None:
        """Wait until doctor reports a failed authentication."""
        self.driven.wait_for("doctor's finding", lambda: "authentication" in self._checks() or None, SECONDS)

    def _checks(self) -> list[str]:
        found = json.loads(self.driven.meshsec("doctor", "--json", check=False).stdout)
        return [check["name"] for check in found["checks"]]


@contextmanager
def joined(libreswan_begins: bool) -> Iterator[Ends]:
    """Start both with a route to each other; meshsecd runs and trusts nobody."""
    with Lab("by-secret", [("a", "b")], Options(esp="kernel")) as lab:
        nodes = sorted(lab.set_up().nodes.values(), key=lambda node: node.fingerprint)
        exported, driven = nodes if libreswan_begins else reversed(nodes)
        old_card = exported.card
        exported.become(replace(lab.options, libreswan=next(iter(libreswan.suites()))))
        exported.install_card(driven)
        exported.meshsec("export", "libreswan", "--into", str(exported.etc / "ipsec"))
        exported.assign_addresses()
        with (driven.etc / "strongswan.conf").open("a", encoding="utf-8") as conf:
            conf.write(_LAB.format(log=driven.logs / _LOG))
        lab.start("router").start("charon", "meshsecd", nodes=[driven])
        exported.wait_route(driven)
        yield Ends(driven, exported, old_card)


@pytest.mark.parametrize("libreswan_begins", [False, True], ids=["charon begins", "libreswan begins"])
def test_each_authenticates_the_other_whichever_begins(libreswan_begins: bool) -> None:
    """They do so again after a restart of charon, which gets the secret again."""
    with joined(libreswan_begins) as ends:
        ends.trust(ends.exported.card)
        ends.pluto.daemon.start()
        ends.wait_authenticated()
        assert ("initiating IKEv2 connection" in ends.pluto.log()) is libreswan_begins
        assert ends.driven.control.peer(ends.exported.name)["authentication"] == "secret"
        ends.restart_charon()
        ends.wait_charon_authenticated()


def test_a_card_of_before_the_daemon_was_changed_is_found_out_and_renewed() -> None:
    with joined(libreswan_begins=False) as ends:
        ends.trust(ends.old_card)
        ends.pluto.daemon.start()
        ends.wait_doctor()
        assert PLUTOS_WORDS not in ends.pluto.log()
        ends.trust(ends.exported.card)
        ends.wait_authenticated()


def test_who_has_another_secret_is_refused() -> None:
    with joined(libreswan_begins=True) as ends:
        secrets = ends.exported.etc / "ipsec/meshsec.secrets"
        text = secrets.read_text(encoding="ascii").rstrip()
        secrets.write_text(f"{text[:-1]}{'1' if text.endswith('0') else '0'}\n", encoding="ascii")
        ends.trust(ends.exported.card)
        ends.pluto.daemon.start()
        ends.wait_doctor()
        assert CHARONS_WORDS not in ends.charons_log()
        assert PLUTOS_WORDS not in ends.pluto.log()

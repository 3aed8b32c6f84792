"""libreswan reads what is exported for it, and two nodes of it authenticate each other by their cards alone."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from meshsec.core.ike import libreswan_suites as suites
from meshsec.core.policy.capability import left_out
from tests.lab.basics import programs
from tests.lab.basics.processes import Daemon
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net import namespaces
from tests.lab.net.instance import Instance
from tests.lab.node import capabilities, libreswan
from tests.lab.node.libreswan import Pluto

SECONDS = 120.0
CONFIG = """\
[node]
name = "{name}"
ipv4 = "{ipv4}"
[routing]
interfaces = ["mesh0"]
[ike]
esp = "kernel"
[paths]
peers = "peers"
state = "state"
run = "run"
[policy]
bypass = [{{ prefix = "fd12:3456:789a::/64", reason = "caméras # {{ \\"on\\" = deck }} include" }}]
"""
"""The reason becomes a comment in the export; the daemons must not read any word of it as a keyword."""
AUTHENTICATED = "established IKE SA; authenticated peer using authby=secret"

pytestmark = [
    pytest.mark.skipif(not libreswan.ADDCONN.exists(), reason="libreswan is not unpacked: tools/setup system"),
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
]


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
swanctl {{
  load = pem pkcs1 pkcs8 pubkey openssl
}}
"""
"""Settings without plugins that swanctl does not need: loading them takes seconds."""

needs_charon = pytest.mark.skipif(not programs.find("charon-systemd"), reason="strongSwan is not installed")


class Site:
    """A node's files; ``out`` has its exports."""

    def __init__(self, directory: Path) -> None:
        self.name, self.out, self.config = directory.name, directory / "out", directory / "meshsec.toml"

    def make(self, ipv4: str) -> str:
        """Make the node. Return its card."""
        self.out.mkdir(parents=True)
        self.config.write_text(CONFIG.format(name=self.name, ipv4=ipv4), encoding="utf-8")
        self.meshsec("init")
        return self.meshsec("key", "show").split()[1]

    def meshsec(self, *arguments: str) -> str:
        """Return the output of a command."""
        return run([programs.meshsec(), "--config", str(self.config), *arguments]).stdout

    @property
    def conf(self) -> Path:
        """Return the path of ipsec.conf."""
        return self.out / "meshsec.conf"

    @property
    def secrets(self) -> Path:
        """Return the path of ipsec.secrets."""
        return self.out / "meshsec.secrets"

    def values(self, key: str) -> list[str]:
        """Return the values of a keyword, in their order."""
        lines = (line.strip() for line in self.conf.read_text(encoding="utf-8").splitlines())
        return [line.removeprefix(f"{key}=") for line in lines if line.startswith(f"{key}=")]

    @property
    def address(self) -> str:
        """Return the address of the IKE daemon."""
        return self.values("left")[0]


@dataclass
class Ends:
    """The namespaces of the two nodes; the initiator is first."""

    namespaces: list[str]
    sockets: list[Path]
    daemons: list[Daemon]

    def pluto(self, number: int, site: Site) -> Pluto:
        """Return pluto of one of them, not started."""
        pluto = Pluto(self.namespaces[number], site.out, self.sockets[number])
        self.daemons.append(pluto.daemon)
        return pluto

    def charon(self, number: int, site: Site, *secret: str) -> "Charon":
        """Start charon of one of them, with what is exported for swanctl."""
        charon = Charon(self.namespaces[number], site, self.sockets[number], secret)
        self.daemons.append(charon.daemon)
        charon.daemon.start()
        charon.daemon.wait_ready()
        assert "loaded connection" in charon.swanctl("--load-all")
        return charon


class Charon:
    """charon without meshsecd; ``secret``: the peers that authenticate by the pair's secret."""

    def __init__(self, namespace: str, site: Site, sockets: Path, secret: Sequence[str]) -> None:
        self._vici, directory, conf = f"unix://{sockets}/vici", site.out / "swanctl", site.out / "strongswan.conf"
        (directory / "pkcs8").mkdir(parents=True)
        site.meshsec("export", "swanctl", "--into", str(directory), *(f"--secret={name}" for name in secret))
        (directory / "pkcs8/meshsec.key").symlink_to(site.config.parent / "state/node.key")
        (directory / "swanctl.conf").write_text("include conf.d/*.conf\n", encoding="ascii")
        text = re.sub(r"unix://\S+", self._vici, site.meshsec("export", "strongswan"))
        self.log = site.out / "charon-ike.log"
        conf.write_text(text + _LAB.format(log=self.log), encoding="utf-8")
        self._environment = {"STRONGSWAN_CONF": str(conf), "SWANCTL_DIR": str(directory)}
        self.daemon = Daemon(
            "charon", namespace, [programs.charon()], logs=site.out, sockets=sockets, env=self._environment
        )

    def wait_said(self, words: str, seconds: float) -> None:
        """Wait until the log contains these words."""
        wait_until(f"{words!r} in {self.log}", lambda: words in self.log.read_text() or None, (), seconds)

    def swanctl(self, *arguments: str) -> str:
        """Return the output of a swanctl command."""
        return run(["swanctl", *arguments, "--uri", self._vici], env={**os.environ, **self._environment}).stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two nodes that trust each other and have exported it. Tests work on copies."""
    directory = tmp_path_factory.mktemp("libreswan")
    sites = Site(directory / "one"), Site(directory / "other")
    cards = [site.make(ipv4) for site, ipv4 in zip(sites, ("10.77.0.1", "10.77.0.2"), strict=True)]
    for site, other, card in zip(sites, reversed(sites), reversed(cards), strict=True):
        site.meshsec("peer", "add", other.name, card)
        site.meshsec("export", "libreswan", "--into", str(site.out))
    return directory


@pytest.fixture
def pair(made: Path, tmp_path: Path) -> tuple[Site, Site]:
    """Return the two nodes; the first is the initiator."""
    directory = Path(shutil.copytree(made, tmp_path / "nodes"))
    one, other = Site(directory / "one"), Site(directory / "other")
    return (one, other) if one.values("auto")[0] == "start" else (other, one)


def checked(path: Path) -> tuple[int, str]:
    """Return exit code and output of ``ipsec addconn --checkconfig``."""
    command = [str(libreswan.ADDCONN), "--config", str(path), "--checkconfig"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def understood(kind: str, proposals: str) -> bool:
    """Return whether ``ipsec algparse`` understands the proposals: addconn does not check algorithms."""
    command = [str(libreswan.ALGPARSE), "-v2", "-pfs=yes", f"{kind}={proposals}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_libreswan_loads_the_export_without_a_message(pair: tuple[Site, Site]) -> None:
    for site in pair:
        assert checked(site.conf) == (0, "")
        assert "include" in site.conf.read_text(encoding="utf-8")
        for kind in ("ike", "esp"):
            assert all(understood(kind, proposals) for proposals in site.values(kind))
    assert [site.values("auto") for site in pair] == [["start", "start"], ["add", "add"]]


def test_libreswan_would_say_what_is_wrong(pair: tuple[Site, Site]) -> None:
    """The negative cases of the one above."""
    conf = pair[0].conf
    conf.write_text(
        conf.read_text(encoding="utf-8").replace("failureshunt=none", "failureshunt=nonee"), encoding="utf-8"
    )
    code, words = checked(conf)
    assert code
    assert "failureshunt" in words
    assert not understood("esp", "aes_gcm256-null-dh99")


@pytest.mark.parametrize("cipher", ["aes256gcm16", "aes192gcm16", "aes128gcm16", "chacha20poly1305"])
@pytest.mark.parametrize(
    "group", ["x25519", "ecp256", "ecp384", "ecp521", *(f"modp{1024 * n}" for n in (2, 3, 4, 6, 8))]
)
def test_what_is_translated_is_understood(cipher: str, group: str) -> None:
    assert understood("ike", suites.ike(f"{cipher}-prfsha256-{group}"))
    assert understood("esp", suites.esp(f"{cipher}-{group}"))


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
def test_so_are_ciphers_with_an_integrity_of_their_own(bits: int, digest: str) -> None:
    assert understood("ike", suites.ike(f"aes{bits}-{digest}-ecp256"))
    assert understood("esp", suites.esp(f"aes{bits}-{digest}"))
    assert understood("esp", suites.esp(f"aes{bits}ccm16"))


@pytest.mark.parametrize("cipher", ["aes256gcm16", "aes128ccm16", "chacha20poly1305"])
@pytest.mark.parametrize("group", ["x25519", "ecp384", "modp3072", "x448", "x25519-ke1_mlkem768"])
def test_what_meshsecd_sends_pluto_is_what_can_be_translated(cipher: str, group: str) -> None:
    proposal = f"{cipher}-prfsha256-{group}"
    assert bool(left_out([proposal], [], suites.ALGORITHMS)) == bool(suites.all_ike([proposal])[1])


def test_what_is_refused_libreswan_does_not_have() -> None:
    for words in ("aes_ccm256-sha2_256-dh31", "aes_gcm256-sha2_256-dh32", "aes_gcm256-sha2_256-mlkem768"):
        assert not understood("ike", words)


@pytest.fixture
def cable(pair: tuple[Site, Site]) -> Iterator[Ends]:
    """Connect the two nodes' namespaces and give them addresses; the daemons started there end with them."""
    instance = Instance()
    ends = Ends([instance.namespace(site.name) for site in pair], [instance.run / site.name for site in pair], [])
    try:
        for name, sockets in zip(ends.namespaces, ends.sockets, strict=True):
            namespaces.create(name)
            sockets.mkdir(mode=0o700)
        first, second = ends.namespaces
        run(["ip", "-n", first, "link", "add", "mesh0", "type", "veth", "peer", "name", "mesh0", "netns", second])
        for name, site, other in zip(ends.namespaces, pair, reversed(pair), strict=True):
            run(["ip", "-n", name, "link", "set", "mesh0", "up"])
            run(["ip", "-n", name, "address", "add", f"{site.address}/128", "dev", "mesh0", "nodad"])
            run(["ip", "-n", name, "route", "add", f"{other.address}/128", "dev", "mesh0"])
        yield ends
    finally:
        for daemon in ends.daemons:
            daemon.kill()
        instance.end()


@pytest.fixture
def link(pair: tuple[Site, Site], cable: Ends) -> tuple[Pluto, Pluto]:
    """Return pluto of both, not started."""
    first, second = (cable.pluto(number, site) for number, site in enumerate(pair))
    return first, second


def started(link: tuple[Pluto, Pluto]) -> None:
    """Start both, the responder first."""
    initiator, responder = link
    responder.daemon.start()
    responder.wait_said("adding UDP interface mesh0", SECONDS)
    initiator.daemon.start()


def test_two_nodes_authenticate_each_other_by_their_cards_alone(link: tuple[Pluto, Pluto]) -> None:
    """They go on to the CHILD_SAs, which a kernel without ESP refuses: the claim is ``ike`` alone."""
    started(link)
    for pluto in link:
        pluto.wait_said(AUTHENTICATED, SECONDS)


def test_who_does_not_know_the_secret_is_refused(link: tuple[Pluto, Pluto], pair: tuple[Site, Site]) -> None:
    secrets = pair[0].secrets
    text = secrets.read_text(encoding="ascii").rstrip()
    secrets.write_text(f"{text[:-1]}{'1' if text.endswith('0') else '0'}\n", encoding="ascii")
    started(link)
    link[1].wait_said("authentication failed: computed hash does not match", SECONDS)
    assert AUTHENTICATED not in link[0].log() + link[1].log()


@needs_charon
@pytest.mark.parametrize("number", [0, 1], ids=["strongSwan begins", "libreswan begins"])
def test_strongswan_and_libreswan_authenticate_each_other(pair: tuple[Site, Site], cable: Ends, number: int) -> None:
    """Either initiates, each configured by its export alone. A kernel without ESP refuses the CHILD_SAs that follow."""
    pluto = cable.pluto(1 - number, pair[1 - number])
    if number:
        cable.charon(1, pair[1], pair[0].name)
        pluto.daemon.start()
    else:
        pluto.daemon.start()
        pluto.wait_said("adding UDP interface mesh0", SECONDS)
        cable.charon(0, pair[0], pair[1].name)
    pluto.wait_said(AUTHENTICATED, SECONDS)


@needs_charon
def test_two_charons_authenticate_each_other_by_their_keys(pair: tuple[Site, Site], cable: Ends) -> None:
    """Each has the export for swanctl; the responder starts first."""
    responder = cable.charon(1, pair[1])
    initiator = cable.charon(0, pair[0])
    for charon, site in ((responder, pair[0]), (initiator, pair[1])):
        charon.wait_said(f"authentication of '{site.address}' with ED25519 successful", SECONDS)

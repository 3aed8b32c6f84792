"""`meshsec dns-sd` answers for services by a real dnsmasq, follows the file, and takes lines of one form alone."""

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.dns import DNS, DNSQR

from meshsec.core.formats import dns_sd
from namespaces import ip, needs_root, wait_for

DNSMASQ = shutil.which("dnsmasq") or "/usr/sbin/dnsmasq"
MESHSEC = (sys.executable, "-c", "from meshsec.cli import main; main()")
pytestmark = [needs_root, pytest.mark.skipif(not Path(DNSMASQ).exists(), reason="dnsmasq is not installed")]


@pytest.fixture
def offered(inside: str, tmp_path: Path) -> Path:
    ip("link", "set", "lo", "up")
    (tmp_path / "services").mkdir()
    return tmp_path / "services/offered"


@pytest.fixture
def answering(offered: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [*MESHSEC, "dns-sd", "--offered", str(offered), "--dnsmasq", DNSMASQ]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: answers("b._dns-sd._udp.mesh") == ["mesh."], "it answers")
            yield process
        finally:
            process.terminate()
    assert answers("b._dns-sd._udp.mesh") == [], "dnsmasq has ended, too"


def answers(name: str, kind: str = "PTR") -> list[str]:
    """Return what is answered; nothing where nobody answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.5)
        asking.connect((dns_sd.ADDRESS, dns_sd.PORT))
        try:
            asking.send(bytes(DNS(rd=1, qd=DNSQR(qname=name, qtype=kind))))
            found = DNS(asking.recv(4096))
        except OSError:
            return []
    return [(one.target if kind == "SRV" else one.rdata).decode() for one in found.an or ()]


def test_it_answers_by_the_file_and_by_what_was_in_it_while_that_is_wrong(
    offered: Path, answering: subprocess.Popen[str]
) -> None:
    assert answers("_http._tcp.mesh") == []
    replace(offered, "bravo wiki tcp 80\n")
    wait_for(lambda: answers("_http._tcp.mesh") == ["wiki on bravo._http._tcp.mesh."], "the change")
    assert answers("wiki on bravo._http._tcp.mesh", "SRV") == ["bravo.mesh."]
    assert answers("bravo.mesh", "SRV") == answers("other.example") == []
    replace(offered, "bravo chat tcp 80\nconf-file=/etc/shadow\n")
    assert answering.stderr
    assert next(line for line in answering.stderr if "line 2 is 'conf-file=/etc/shadow'" in line)
    assert answers("_http._tcp.mesh") == ["wiki on bravo._http._tcp.mesh."]
    replace(offered, "bravo chat tcp 80\n")
    wait_for(lambda: answers("_http._tcp.mesh") == ["chat on bravo._http._tcp.mesh."], "the change")
    offered.unlink()
    wait_for(lambda: answers("_http._tcp.mesh") == [], "the change")


def replace(path: Path, text: str) -> None:
    path.with_name("new").write_text(text, encoding="ascii")
    path.with_name("new").rename(path)


def test_when_dnsmasq_ends_it_ends_so_that_the_service_manager_begins_again(
    offered: Path, answering: subprocess.Popen[str]
) -> None:
    children = Path(f"/proc/{answering.pid}/task/{answering.pid}/children").read_text(encoding="ascii").split()
    (child,) = children
    subprocess.run(["kill", f"-{signal.SIGKILL}", child], check=True)
    assert answering.wait(10) == 1
    assert answering.stderr
    assert "dnsmasq ended with status -9" in answering.stderr.read()


def test_a_program_that_is_missing_is_named(offered: Path) -> None:
    argv = [*MESHSEC, "dns-sd", "--offered", str(offered), "--dnsmasq", "/missing/dnsmasq"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, "/missing/dnsmasq is not installed: apt install dnsmasq-base" in done.stderr) == (1, True)

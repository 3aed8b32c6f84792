"""Finding the UDP sockets of a network namespace in the real /proc."""

import os
import socket
from pathlib import Path

from meshsec.adapters.kernel import udp_sockets
from meshsec.core.ike.udp_ports import UdpSocket, parse


def test_a_socket_is_found_with_its_user_and_its_process() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as opened:
        opened.bind(("::1", 0))
        port, inode = opened.getsockname()[1], os.fstat(opened.fileno()).st_ino
        assert UdpSocket(port, os.geteuid(), inode) in parse(udp_sockets.table())
        assert udp_sockets.holder(inode) == (os.getpid(), Path("/proc/self/comm").read_text(encoding="ascii").strip())
    assert udp_sockets.holder(inode) is None
    assert UdpSocket(port, os.geteuid(), inode) not in parse(udp_sockets.table())


def test_a_process_is_in_the_unit_that_its_control_group_names() -> None:
    groups = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()[-1].rpartition(":")[2]
    assert not udp_sockets.is_in_unit(os.getpid(), "meshsec-ike.service")
    assert not udp_sockets.is_in_unit(2**22, "")
    for name in filter(None, groups.split("/")):
        assert udp_sockets.is_in_unit(os.getpid(), name)
        assert not udp_sockets.is_in_unit(os.getpid(), name[:-1])

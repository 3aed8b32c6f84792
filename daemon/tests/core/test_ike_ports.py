"""Finding who has the ports of IKE in the kernel's table."""

import pytest

from meshsec.core.ike.udp_ports import UdpSocket, judge, parse, problem

HEADER = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer"
LINE = " {port}: {address}:{port:04X} {zero}:0000 07 00000000:00000000 00:00000000 00000000 {uid:5} 0 {inode} 2 0000 0"
ZERO = "0" * 32
IKE, NATT = UdpSocket(500, 0, 7), UdpSocket(4500, 0, 8)
STRANGER = UdpSocket(4500, 65534, 9)


def line(one: UdpSocket) -> str:
    return LINE.format(port=one.port, address=ZERO, zero=ZERO, uid=one.uid, inode=one.inode)


def test_the_kernel_s_table_is_read_and_what_has_another_form_is_left_out() -> None:
    lines = [HEADER, line(IKE), "", "nonsense", line(STRANGER)[:60], line(STRANGER).replace("65534", "nobody")]
    assert parse("\n".join([*lines, line(STRANGER)])) == (IKE, STRANGER)
    assert not parse("")
    assert not parse(HEADER)


@pytest.mark.parametrize(
    ("sockets", "missing", "held"),
    [
        ((IKE, NATT), (), ()),
        ((IKE,), (4500,), ()),
        ((NATT,), (500,), ()),
        ((), (500, 4500), ()),
        ((IKE, STRANGER), (4500,), (STRANGER,)),
        ((IKE, NATT, STRANGER), (), (STRANGER,)),
        ((IKE, NATT, UdpSocket(4501, 65534, 1), UdpSocket(501, 1, 1)), (), ()),
    ],
)
def test_a_port_is_the_ike_daemon_s_when_root_has_it(
    sockets: tuple[UdpSocket, ...], missing: tuple[int, ...], held: tuple[UdpSocket, ...]
) -> None:
    state = judge(sockets)
    assert (state.missing, state.held) == (missing, held)


def test_the_fault_names_port_and_user() -> None:
    assert problem(judge((IKE, NATT)), "charon", is_up=True) == ""
    assert problem(judge((IKE, STRANGER)), "charon", is_up=True) == (
        "charon runs without UDP port 4500, held: UDP 4500 by user 65534"
    )
    assert problem(judge(()), "charon", is_up=True) == "charon runs without UDP port 500 and 4500"
    assert problem(judge(()), "charon", is_up=False) == ""
    assert problem(judge((STRANGER,)), "charon", is_up=False) == "held by others than charon: UDP 4500 by user 65534"
    assert "held by others" in problem(judge((IKE, NATT, STRANGER)), "charon", is_up=True)

"""What pluto says is read alike of both versions, from recordings (tests/vectors/libreswan)."""

from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core import pluto_status
from meshsec.core.pluto_status import Connection, StatusError

RECORDED = Path(__file__).parents[3] / "tests/vectors/libreswan"
NOW, WALL_CLOCK = 1000.0, 1795435320.0
both = pytest.mark.parametrize("version", ["4.10", "5.2"])


def recorded(version: str, name: str) -> str:
    return (RECORDED / version / f"{name}.txt").read_text(encoding="ascii")


def said(version: str, name: str) -> list[str]:
    return recorded(version, name).splitlines()


@both
def test_the_version_is_told(version: str) -> None:
    assert pluto_status.version(recorded(version, "loaded-status")) == version
    with pytest.raises(StatusError):
        pluto_status.version("")


@both
def test_connections_that_are_loaded(version: str) -> None:
    found = pluto_status.connections(recorded(version, "loaded-status"))
    assert found == {
        "meshsec-node-2.mesh": Connection("fc00::2", 14400),
        "meshsec-node-2.mesh4": Connection("fc00::2", 14400, is_tunnel=True),
    }
    assert pluto_status.ike_sas(recorded(version, "loaded-status"), "", NOW, WALL_CLOCK) == {}


@both
@pytest.mark.parametrize(("end", "peer", "remote"), [("initiator", 2, "fc00::2"), ("responder", 1, "fc00::1")])
def test_two_child_sas_of_one_peer_are_of_one_ike_sa(version: str, end: str, peer: int, remote: str) -> None:
    told = recorded(version, f"{end}-status"), recorded(version, f"{end}-trafficstatus")
    found = pluto_status.ike_sas(*told, NOW, WALL_CLOCK, {1})
    assert list(found) == [f"node-{peer}"]
    (sa,) = found[f"node-{peer}"]
    assert (sa.unique_id, sa.state, sa.initiator, sa.remote_id) == ("1", "ESTABLISHED", True, IPv6Address(remote))
    assert (sa.encryption, sa.key_exchange) == ("AES_GCM_16-256", "CURVE_25519")
    assert sa.established_at in (NOW - 5, NOW - 6)
    mesh, mesh4 = sa.children
    assert [(child.name, child.mode, child.state) for child in sa.children] == [
        ("mesh", "transport", "INSTALLED"),
        ("mesh4", "tunnel", "INSTALLED"),
    ]
    assert (mesh.bytes_in, mesh.bytes_out, mesh4.bytes_in, mesh4.bytes_out) == (192, 192, 168, 168)
    assert mesh.encryption == mesh4.encryption == "AES_GCM_16-256"
    assert NOW - 60 < mesh.installed_at < NOW


@both
def test_spis_of_one_end_are_the_others_reversed(version: str) -> None:
    def spis(end: str) -> dict[str, tuple[str, str]]:
        told = recorded(version, f"{end}-status"), recorded(version, f"{end}-trafficstatus")
        ((sa,),) = pluto_status.ike_sas(*told, NOW, WALL_CLOCK).values()
        return {child.name: (child.spi_in, child.spi_out) for child in sa.children}

    one, other = spis("initiator"), spis("responder")
    assert one == {name: (inward, outward) for name, (outward, inward) in other.items()}
    assert all(len(spi) == 8 for pair in one.values() for spi in pair)


def test_an_spi_has_its_leading_zeros() -> None:
    text = (
        '#4: "meshsec-a.mesh":500 ESTABLISHED_CHILD_SA (established Child SA); IKE SA #1; idle;\n'
        '#4: "meshsec-a.mesh" used 3s ago; esp:99901d6@fc00::2 esp:1@fc00::1 Traffic: ESPin=0B'
    )
    (state,) = pluto_status.states(text)
    assert (state.spi_in, state.spi_out) == ("00000001", "099901d6")


@both
def test_half_of_an_ike_sa(version: str) -> None:
    ((sa,),) = pluto_status.ike_sas(recorded(version, "half-open-status"), "", NOW, WALL_CLOCK).values()
    assert (sa.state, sa.initiator, sa.remote_id, sa.established_at) == ("CONNECTING", True, None, None)


@both
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("other-secret", "AUTHENTICATION_FAILED: told by the peer"),
        ("not-known-there", "NO_PROPOSAL_CHOSEN: told by the peer"),
        ("unknown", "the IKE daemon does not know the peer"),
        ("unanswered", ""),
        ("mesh", ""),
        ("mesh4", ""),
    ],
)
def test_why_a_negotiation_failed(version: str, name: str, reason: str) -> None:
    assert pluto_status.failure(said(version, f"initiate-{name}")) == reason


@pytest.mark.parametrize(
    ("version", "reason"),
    [("4.10", "TS_UNACCEPTABLE: told by the peer"), ("5.2", "the peer refused the CHILD_SA")],
)
def test_a_child_sa_that_is_refused(version: str, reason: str) -> None:
    assert pluto_status.failure(said(version, "initiate-no-esp")) == reason


@both
def test_pluto_that_would_try_again_is_heard(version: str) -> None:
    assert any(map(pluto_status.is_given_up, said(version, "initiate-other-secret")))
    assert not any(map(pluto_status.is_given_up, said(version, "initiate-mesh")))


@both
def test_whose_ike_sa_it_is(version: str) -> None:
    assert pluto_status.initiated(said(version, "initiate-mesh")) == 1
    assert pluto_status.initiated(said(version, "initiate-mesh4")) is None


@pytest.mark.parametrize("peer", ["a", "node-7", "a-mesh4", "node-7~", "node-7~^"])
@pytest.mark.parametrize("child", ["mesh", "mesh4"])
def test_names_of_connections_are_reversible(peer: str, child: str) -> None:
    assert pluto_status.peer_and_child(pluto_status.conn_name(peer, child)) == (peer, child)


@pytest.mark.parametrize("conn", ["", "office", "meshsec-node-7", "meshsec-.mesh", "meshsec-a.", "xmeshsec-a.mesh"])
def test_connections_of_others_are_not_ours(conn: str) -> None:
    assert pluto_status.peer_and_child(conn) is None


def test_sas_of_others_are_not_ours() -> None:
    text = recorded("5.2", "initiator-status").replace("meshsec-node-2", "office")
    assert pluto_status.ike_sas(text, recorded("5.2", "initiator-trafficstatus"), NOW, WALL_CLOCK) == {}


def test_a_line_about_an_sa_that_is_not_understood_is_an_error() -> None:
    """Passed over it would look as if there were no SA."""
    text = recorded("5.2", "initiator-status").replace('#2: "meshsec-node-2.mesh":500 ', "#2: meshsec-node-2.mesh ")
    with pytest.raises(StatusError, match="#2: meshsec-node-2"):
        pluto_status.states(text)
    with pytest.raises(StatusError, match="#3"):
        pluto_status.traffic('#3: "meshsec-node-2.mesh", type=ESP')


ODD = st.text(alphabet=st.sampled_from('#0123456789: "()=;,.@[]\n -abesptrTSV_'), max_size=200)


@given(st.one_of(ODD, ODD.map("#1: ".__add__), ODD.map('#1: "meshsec-a.b":500 ESTABLISHED_IKE_SA ('.__add__)), ODD)
def test_garbage_raises_nothing_but_its_error(status: str, traffic: str) -> None:
    with suppress(StatusError):
        pluto_status.ike_sas(status, traffic, NOW, WALL_CLOCK)
    pluto_status.failure(status.splitlines())
    pluto_status.initiated(status.splitlines())


@given(st.data())
def test_what_is_cut_or_altered_raises_nothing_but_its_error(data: st.DataObject) -> None:
    text = recorded(data.draw(st.sampled_from(["4.10", "5.2"])), "initiator-status")
    start = data.draw(st.integers(0, len(text)))
    altered = text[:start] + data.draw(ODD) + text[start + data.draw(st.integers(0, 300)) :]
    with suppress(StatusError):
        pluto_status.ike_sas(altered, "", NOW, WALL_CLOCK)

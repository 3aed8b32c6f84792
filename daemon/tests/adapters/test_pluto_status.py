"""Reading the status of pluto, libreswan 4.10 and 5.2 alike, on recordings (tests/vectors/libreswan)."""

import re
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.adapters.ike import pluto_sas, pluto_status
from meshsec.adapters.ike.pluto_status import StatusError
from meshsec.core.ike.drift import Configured, ConfiguredChild
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.sa_states import ChildSaState, IkeSaState

RECORDED = Path(__file__).parents[3] / "tests/vectors/libreswan"
NOW, WALL_CLOCK = 1000.0, 1795435320.0
both = pytest.mark.parametrize("version", ["4.10", "5.2"])


def recorded(version: str, name: str) -> str:
    return (RECORDED / version / f"{name}.txt").read_text(encoding="ascii")


def said(version: str, name: str) -> list[str]:
    return recorded(version, name).splitlines()


@both
def test_the_version_is_read(version: str) -> None:
    assert pluto_status.version(recorded(version, "loaded-status")) == version
    with pytest.raises(StatusError):
        pluto_status.version("")


@both
def test_loaded_connections_are_read(version: str) -> None:
    found = pluto_status.connections(recorded(version, "loaded-status"))
    mesh, mesh4 = (found[f"meshsec-node-2.{name}"] for name in ("mesh", "mesh4"))
    assert (mesh.remote_id, mesh.ike_lifetime, mesh.is_tunnel) == ("fc00::2", 14400, False)
    assert not mesh.is_kept_up
    assert pluto_status.connections(recorded(version, "initiator-status"))["meshsec-node-2.mesh"].is_kept_up
    assert not pluto_status.connections(recorded(version, "responder-status"))["meshsec-node-1.mesh"].is_kept_up
    assert (mesh4.remote_id, mesh4.ike_lifetime, mesh4.is_tunnel) == ("fc00::2", 14400, True)
    assert pluto_sas.ike_sas(recorded(version, "loaded-status"), "", NOW, WALL_CLOCK) == {}


@both
@pytest.mark.parametrize("name", ["loaded", "initiator"])
def test_the_configuration_of_connections_is_read(version: str, name: str) -> None:
    (found,) = pluto_status.configured(recorded(version, f"{name}-status"))
    assert found == Configured(
        name="node-2",
        local_addresses=("fc00::1",),
        remote_addresses=("fc00::2",),
        local_id="fc00::1",
        remote_id="fc00::2",
        local_authentication="secret",
        remote_authentication="secret",
        ike_version="IKEv2",
        ike_rekey_time=14400,
        dpd_delay=0,
        children=(
            ConfiguredChild("mesh", "transport", ("fc00::1/128",), ("fc00::2/128",), 3600),
            ConfiguredChild("mesh4", "tunnel", ("10.77.0.1/32",), ("10.77.0.2/32",), 3600),
        ),
    )


@both
def test_a_value_that_differs_in_any_of_a_peers_connections_is_reported(version: str) -> None:
    text = recorded(version, "loaded-status").replace("ike_life: 14400s", "ike_life: 99999s", 1)
    text = text.replace("their id=fc00::2", "their id=fc00::9", 1)
    (found,) = pluto_status.configured(text)
    assert (found.remote_id, found.ike_rekey_time) == ("fc00::2, fc00::9", 99999)


def test_the_owners_of_secrets_are_read() -> None:
    text = (
        "000 \n000 List of Pre-shared secrets (from /x)\n000 \n000     2: PSK fc00::2 fc00::1\n000     3: RSA (none)\n"
    )
    assert pluto_status.secrets(text) == {frozenset({"fc00::1", "fc00::2"})}
    assert pluto_status.secrets("") == frozenset()


@both
def test_of_a_rekeyed_child_sa_the_newest_is_installed_and_the_other_is_rekeyed(version: str) -> None:
    text = recorded(version, "initiator-status")
    lines = [line.replace("#3: ", "#7: ") for line in text.splitlines() if "#3: " in line]
    more = [re.sub(r"esp:[0-9a-f]{7}", "esp:abcdef0", line) for line in lines]
    (sa,) = pluto_sas.ike_sas("\n".join([text, *more]), "", NOW, WALL_CLOCK)["node-2"]
    assert [(child.name, child.state) for child in sa.children] == [
        ("mesh", ChildSaState.INSTALLED),
        ("mesh4", ChildSaState.INSTALLED),
        ("mesh4", ChildSaState.REKEYED),
    ]
    before, now = sa.children[2], sa.children[1]
    packets = {before.spi_in: 1, before.spi_out: 2, now.spi_in: 3}
    (sa,) = pluto_sas.counted((sa,), packets)
    counted = [(child.packets_in, child.packets_out) for child in sa.children]
    assert counted == [(0, 0), (3, 0), (1, 2)]


@both
@pytest.mark.parametrize(("end", "peer", "remote"), [("initiator", 2, "fc00::2"), ("responder", 1, "fc00::1")])
def test_two_child_sas_of_one_peer_are_of_one_ike_sa(version: str, end: str, peer: int, remote: str) -> None:
    told = recorded(version, f"{end}-status"), recorded(version, f"{end}-trafficstatus")
    found = pluto_sas.ike_sas(*told, NOW, WALL_CLOCK, {1})
    assert list(found) == [f"node-{peer}"]
    (sa,) = found[f"node-{peer}"]
    assert (sa.unique_id, sa.state, sa.initiator, sa.remote_id) == (
        "1",
        IkeSaState.ESTABLISHED,
        True,
        IPv6Address(remote),
    )
    assert (sa.encryption, sa.key_exchange) == ("AES_GCM_16-256", "CURVE_25519")
    assert sa.established_at in (NOW - 5, NOW - 6)
    mesh, mesh4 = sa.children
    assert [(child.name, child.mode, child.state) for child in sa.children] == [
        ("mesh", "transport", ChildSaState.INSTALLED),
        ("mesh4", "tunnel", ChildSaState.INSTALLED),
    ]
    assert (mesh.bytes_in, mesh.bytes_out, mesh4.bytes_in, mesh4.bytes_out) == (192, 192, 168, 168)
    assert mesh.encryption == mesh4.encryption == "AES_GCM_16-256"
    assert NOW - 60 < mesh.installed_at < NOW


@both
def test_spis_of_one_end_are_the_others_reversed(version: str) -> None:
    def spis(end: str) -> dict[str, tuple[str, str]]:
        told = recorded(version, f"{end}-status"), recorded(version, f"{end}-trafficstatus")
        ((sa,),) = pluto_sas.ike_sas(*told, NOW, WALL_CLOCK).values()
        return {child.name: (child.spi_in, child.spi_out) for child in sa.children}

    one, other = spis("initiator"), spis("responder")
    assert one == {name: (inward, outward) for name, (outward, inward) in other.items()}
    assert all(len(spi) == 8 for pair in one.values() for spi in pair)


def test_an_spi_keeps_its_leading_zeros() -> None:
    text = (
        '#4: "meshsec-a.mesh":500 ESTABLISHED_CHILD_SA (established Child SA); IKE SA #1; idle;\n'
        '#4: "meshsec-a.mesh" used 3s ago; esp:99901d6@fc00::2 esp:1@fc00::1 Traffic: ESPin=0B'
    )
    (state,) = pluto_status.states(text)
    assert (state.spi_in, state.spi_out) == ("00000001", "099901d6")


@both
def test_a_half_open_ike_sa_is_read(version: str) -> None:
    ((sa,),) = pluto_sas.ike_sas(recorded(version, "half-open-status"), "", NOW, WALL_CLOCK).values()
    assert (sa.state, sa.initiator, sa.remote_id, sa.established_at) == (IkeSaState.CONNECTING, True, None, None)


def test_an_ike_sa_that_is_being_closed_still_has_its_child_sas() -> None:
    """A closing IKE_SA has its CHILD_SAs, because the kernel keeps them until the peer confirms."""
    text = recorded("4.10", "initiator-status").replace("_ESTABLISHED_IKE_SA (established", "_IKE_SA_DELETE (deleting")
    ((sa,),) = pluto_sas.ike_sas(text, "", NOW, WALL_CLOCK).values()
    assert (sa.state, [child.name for child in sa.children]) == (IkeSaState.DELETING, ["mesh", "mesh4"])


IKE_SA = '#{}: "meshsec-{}":500 ESTABLISHED_IKE_SA (established IKE SA); REKEY in 9s; newest; idle;'
CHILD_SA = '#{}: "meshsec-{}":500 ESTABLISHED_CHILD_SA (established Child SA); IKE SA #{}; idle;'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], set()),
        ([IKE_SA.format(1, "a.x"), CHILD_SA.format(2, "a.x", 1)], set()),
        ([CHILD_SA.format(2, "a.x", 3), IKE_SA.format(3, "a.x")], set()),
        ([CHILD_SA.format(2, "a.x", 3), IKE_SA.format(3, "a.x"), IKE_SA.format(4, "a.x")], {3}),
        ([CHILD_SA.format(2, "a.x", 3), IKE_SA.format(3, "a.x"), IKE_SA.format(4, "a.y")], set()),
        ([CHILD_SA.format(2, "a.y", 3), IKE_SA.format(3, "a.x"), IKE_SA.format(4, "a.x")], set()),
        ([CHILD_SA.format(4, "a.x", 3), IKE_SA.format(3, "a.x"), IKE_SA.format(5, "a.x")], set()),
        ([CHILD_SA.format(2, "b.x", 3), IKE_SA.format(3, "b.x"), IKE_SA.format(4, "b.x")], set()),
    ],
)
def test_the_ike_sas_whose_end_crashes_libreswan_5_are_known(lines: list[str], expected: set[int]) -> None:
    """Closing an IKE_SA crashes libreswan 5 when a CHILD_SA of its connection is left and a newer IKE_SA exists."""
    assert pluto_sas.fatal(pluto_status.states("\n".join(lines)), "a") == expected


@both
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("other-secret", Cause("AUTHENTICATION_FAILED: sent by the peer", FailureKind.NOT_TRUSTED)),
        ("not-known-there", Cause("NO_PROPOSAL_CHOSEN: sent by the peer", FailureKind.NO_PROPOSAL)),
        ("unknown", Cause("the IKE daemon does not know the peer", FailureKind.OWN_DAEMON)),
        ("unanswered", None),
        ("mesh", None),
        ("mesh4", None),
    ],
)
def test_a_failed_negotiation_has_its_cause(version: str, name: str, cause: Cause | None) -> None:
    assert pluto_status.failure(said(version, f"initiate-{name}")) == cause


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        ("4.10", Cause("TS_UNACCEPTABLE: sent by the peer", FailureKind.SELECTORS)),
        ("5.2", Cause("the peer refused the CHILD_SA")),
    ],
)
def test_a_refused_child_sa_has_its_cause(version: str, cause: Cause) -> None:
    assert pluto_status.failure(said(version, "initiate-no-esp")) == cause


@both
def test_a_retry_that_pluto_announces_is_recognised(version: str) -> None:
    assert any(map(pluto_status.is_given_up, said(version, "initiate-other-secret")))
    assert not any(map(pluto_status.is_given_up, said(version, "initiate-mesh")))


@both
def test_an_ike_sa_is_found_by_its_number(version: str) -> None:
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
    assert pluto_sas.ike_sas(text, recorded("5.2", "initiator-trafficstatus"), NOW, WALL_CLOCK) == {}


def test_a_line_about_an_sa_that_is_not_understood_is_an_error() -> None:
    """Such a line is not skipped, because the SA would seem not to exist."""
    text = recorded("5.2", "initiator-status").replace('#2: "meshsec-node-2.mesh":500 ', "#2: meshsec-node-2.mesh ")
    with pytest.raises(StatusError, match="#2: meshsec-node-2"):
        pluto_status.states(text)
    with pytest.raises(StatusError, match="#3"):
        pluto_status.traffic('#3: "meshsec-node-2.mesh", type=ESP')


ODD = st.text(alphabet=st.sampled_from('#0123456789: "()=;,.@[]\n -abesptrTSV_'), max_size=200)


@given(st.one_of(ODD, ODD.map("#1: ".__add__), ODD.map('#1: "meshsec-a.b":500 ESTABLISHED_IKE_SA ('.__add__)), ODD)
def test_garbage_raises_nothing_but_its_error(status: str, traffic: str) -> None:
    with suppress(StatusError):
        pluto_sas.ike_sas(status, traffic, NOW, WALL_CLOCK)
    pluto_status.failure(status.splitlines())
    pluto_status.initiated(status.splitlines())


@given(st.data())
def test_what_is_cut_or_altered_raises_nothing_but_its_error(data: st.DataObject) -> None:
    text = recorded(data.draw(st.sampled_from(["4.10", "5.2"])), "initiator-status")
    start = data.draw(st.integers(0, len(text)))
    altered = text[:start] + data.draw(ODD) + text[start + data.draw(st.integers(0, 300)) :]
    with suppress(StatusError):
        pluto_sas.ike_sas(altered, "", NOW, WALL_CLOCK)

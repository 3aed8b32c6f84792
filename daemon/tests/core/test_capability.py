"""Proposals of a policy that an IKE daemon can use, and those left out."""

import tomllib
from pathlib import Path

import pytest
from msgspec import structs

from core.world import card, peer
from meshsec.core.channels.desired import connection_spec
from meshsec.core.policy.capability import OF_DEBIAN, LeftOut, NothingLeftError, left_out, possible
from meshsec.core.policy.policy import DEFAULT, Policy, decode_policy
from meshsec.core.values.model import ConnectionSpec, EspBackend

PROFILES = {path.stem: path for path in (Path(__file__).parents[3] / "policies").glob("*.toml")}


def spec(policy: Policy) -> ConnectionSpec:
    return connection_spec(card(1), peer(3), EspBackend.KERNEL, policy)


def of(ike: str, esp: str) -> Policy:
    return structs.replace(DEFAULT, ike_proposals=tuple(ike.split(",")), esp_proposals=tuple(esp.split(",")))


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_debian_can_do_every_profile_but_for_what_is_post_quantum(name: str) -> None:
    policy = decode_policy(tomllib.loads(PROFILES[name].read_text()))
    lost = left_out(policy.ike_proposals, policy.esp_proposals, OF_DEBIAN)
    assert all("mlkem" in one.proposal and one.lacks == ("ML_KEM_768",) for one in lost), lost
    told, out = possible(spec(policy), OF_DEBIAN)
    assert out == lost
    assert told.ike_proposals == tuple(one for one in policy.ike_proposals if "mlkem" not in one)


def test_each_algorithm_of_an_ike_proposal_must_be_known() -> None:
    ike = "aes256gcm16-prfsha384-x25519-ke1_mlkem768,aes128-sha256-modp2048,chacha20poly1305-prfsha256-ecp384"
    wanted = {
        *("AES_GCM_16", "PRF_HMAC_SHA2_384", "CURVE_25519", "ML_KEM_768"),
        *("AES_CBC", "HMAC_SHA2_256_128", "MODP_2048"),
        *("CHACHA20_POLY1305", "PRF_HMAC_SHA2_256", "ECP_384"),
    }
    assert left_out(ike.split(","), (), frozenset(wanted)) == ()
    for name in wanted:
        (lost,) = left_out(ike.split(","), (), frozenset(wanted - {name}))
        assert (lost.kind, lost.lacks) == ("ike", (name,))


def test_of_an_esp_proposal_only_the_key_exchange_must_be_known() -> None:
    """The kernel may do the ciphers."""
    assert left_out((), ("aes256ccm16-x25519",), frozenset({"CURVE_25519"})) == ()
    assert left_out((), ("aes256ccm16-x448",), frozenset({"CURVE_25519"})) == (
        LeftOut("esp", "aes256ccm16-x448", ("CURVE_448",)),
    )


def test_without_a_list_of_algorithms_nothing_is_left_out() -> None:
    given = spec(of("aes256gcm16-prfsha256-x25519-ke1_mlkem768", "aes256gcm16-x25519"))
    assert possible(given, None) == (given, ())


@pytest.mark.parametrize(
    ("ike", "esp"),
    [
        ("aes256gcm16-prfsha256-x448", "aes256gcm16-x25519"),
        ("aes256gcm16-prfsha256-x25519", "aes256gcm16-x448,aes128gcm16-x448"),
    ],
)
def test_with_nothing_left_there_is_no_connection_and_each_proposal_is_named(ike: str, esp: str) -> None:
    with pytest.raises(NothingLeftError, match="CURVE_448 is not there") as caught:
        possible(spec(of(ike, esp)), OF_DEBIAN - {"CURVE_448"})
    lost = (ike if "x448" in ike else esp).split(",")
    assert all(one in str(caught.value) for one in lost)

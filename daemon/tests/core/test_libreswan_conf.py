"""pluto's configuration where meshsecd drives it."""

import pytest
from msgspec import structs

from core.world import card, peer
from meshsec.core.channels.desired import connection_spec
from meshsec.core.formats import libreswan
from meshsec.core.formats.libreswan import NothingLeftError
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import ConnectionSpec, EspBackend

MIXED = "aes256-sha256-prfsha384-modp2048"
"""A proposal of known algorithms that libreswan lacks: it uses one hash for integrity and keys."""


def spec(*ike: str) -> ConnectionSpec:
    policy = structs.replace(DEFAULT, ike_proposals=ike, esp_proposals=("aes256gcm16-x25519",))
    return connection_spec(card(1), peer(3), EspBackend.KERNEL, policy)


def test_a_proposal_that_libreswan_cannot_do_is_left_out_and_named() -> None:
    given = spec(MIXED, "aes256gcm16-prfsha256-x25519")
    told = libreswan.driven("meshsec-n3.mesh", given, given.children[0])
    assert "ike=aes_gcm256-sha2_256-dh31\n" in told.conf
    (one,) = told.refused
    assert str(one) == f"IKE {MIXED}: libreswan takes the same hash for integrity and for keys"


def test_with_nothing_left_there_is_no_connection() -> None:
    given = spec(MIXED)
    with pytest.raises(NothingLeftError, match="libreswan can do no IKE proposal of the policy"):
        libreswan.driven("meshsec-n3.mesh", given, given.children[0])

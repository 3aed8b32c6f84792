"""The keys that the IKE daemon gets before, during and after a change of the node's key."""

from pathlib import Path

import pytest

from meshsec.adapters.files import key_store
from meshsec.adapters.files.key_store import NodeKey
from meshsec.agent.sides.keys import Keys
from meshsec.core.channels.desired import connection_spec
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.trust.identity import make_card
from meshsec.core.trust.pair_secret import pair_secret
from meshsec.core.values.model import ConnectionSpec, EspBackend, Peer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.key"


@pytest.fixture
def boat(tmp_path: Path) -> NodeKey:
    return key_store.create(tmp_path / "boat.key")


def spec(own: NodeKey, other: NodeKey, *, by_secret: bool = True) -> ConnectionSpec:
    peer = Peer("boat", make_card("boat", other.public_key, by_secret=by_secret))
    return connection_spec(make_card("node", own.public_key), peer, EspBackend.KERNEL, DEFAULT)


def theirs(other: NodeKey, own: NodeKey) -> bytes:
    """Return the pair's secret as the other end computes it."""
    return pair_secret(other.seed(), own.public_key)


def test_each_of_two_keys_has_a_secret_of_its_own_with_a_peer(path: Path, boat: NodeKey) -> None:
    present, following = key_store.create(path), key_store.create_next(path)
    keys = Keys(path, is_changing=True)
    assert keys.private() == [present.pkcs8_pem(), following.pkcs8_pem()]
    secrets = [keys.secret_for(spec(own, boat)) for own in (present, following)]
    assert secrets == [theirs(boat, present), theirs(boat, following)]
    key_store.end(path)
    assert Keys(path).secret_for(spec(following, boat)) == theirs(boat, following)


def test_a_pair_that_signs_has_no_secret(path: Path, boat: NodeKey) -> None:
    assert Keys(path).secret_for(spec(key_store.create(path), boat, by_secret=False)) is None

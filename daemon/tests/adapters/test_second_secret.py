"""The second secret (RFC 8784) between two real charons, and the file that it is in (ADR 0091)."""

from dataclasses import replace
from pathlib import Path

import pytest

from meshsec import files
from meshsec.adapters.files import second_secret_store, threat_store
from meshsec.adapters.ike import vici_transport
from meshsec.core.ike import drift
from meshsec.core.ike.drift import Configured, Wanted
from meshsec.core.ike.port import CommandError
from meshsec.core.trust import second_secret
from meshsec.core.trust.identity import public_key_of
from meshsec.core.values.failures import FailureKind
from meshsec.core.values.model import ConnectionSpec, SecondSecret
from meshsec.files import FileError
from namespaces import needs_root

from .conftest import IkeNode
from .test_vici import Pair, Watcher, run, watching

ONE, OTHER = bytes(range(32)), bytes(range(1, 33))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands a minute, because a charon on a busy machine answers late."""
    monkeypatch.setattr(vici_transport, "COMMAND_TIMEOUT", 60.0)


async def introduce(one: IkeNode, other: IkeNode, to: Watcher, secret: bytes | None, *, required: bool) -> None:
    """Configure ``one`` for ``other`` as meshsecd does."""
    await to.vici.load_keys([one.key.pkcs8_pem()])
    await to.vici.load_connection(*configuration(one, other, secret, required=required))


def configuration(
    one: IkeNode, other: IkeNode, secret: bytes | None, *, required: bool
) -> tuple[ConnectionSpec, bytes | None]:
    spec = one.towards(other)
    if secret is None:
        return spec, None
    ppk_id = second_secret.identity(second_secret.mark(secret), spec.local_public_key, spec.remote_public_key)
    of_pair = second_secret.of_pair(one.key.seed(), spec.remote_public_key, secret)
    return replace(spec, second_secret=SecondSecret(ppk_id, required=required)), of_pair


async def has_second(client: Watcher, peer: str) -> list[bool]:
    return [sa.second_secret for sa in (await client.vici.ike_sas(peer)).get(peer, ()) if sa.is_live]


@needs_root
@pytest.mark.parametrize(
    ("mine", "strict", "theirs", "strict_there", "mixed"),
    [
        (ONE, True, ONE, True, True),
        (ONE, True, ONE, False, True),
        (ONE, False, ONE, True, True),
        (ONE, False, ONE, False, True),
        (ONE, False, None, False, False),
        (None, False, ONE, False, False),
        (None, False, None, False, False),
    ],
)
def test_the_stricter_end_decides(  # noqa: PLR0917  # the columns of a table
    ike_pair: Pair, mine: bytes | None, strict: bool, theirs: bytes | None, strict_there: bool, mixed: bool
) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a, mine, required=strict)
            await introduce(charlie, alpha, c, theirs, required=strict_there)
            await a.vici.initiate("charlie", "mesh", 30)
            assert await has_second(a, "charlie") == [mixed]
            await c.until(lambda own: any("alpha" in str(event) for event in own.events))
            assert await has_second(c, "alpha") == [mixed]

    run(scenario)


@needs_root
@pytest.mark.parametrize(
    ("mine", "strict", "theirs", "strict_there", "at", "words"),
    [
        (ONE, True, None, False, "initiator", "the peer has none"),
        (None, False, ONE, True, "responder", "the peer has none"),
        (ONE, True, OTHER, True, "responder", "another second secret"),
        (ONE, False, OTHER, False, "responder", "another second secret"),
    ],
)
def test_who_has_less_than_the_other_asks_for_gets_no_sa_and_a_reason(  # noqa: PLR0917  # the columns of a table
    ike_pair: Pair, mine: bytes | None, strict: bool, theirs: bytes | None, strict_there: bool, at: str, words: str
) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(alpha, charlie, a, mine, required=strict)
            await introduce(charlie, alpha, c, theirs, required=strict_there)
            with pytest.raises(CommandError):
                await a.vici.initiate("charlie", "mesh", 30)
            assert await has_second(a, "charlie") == []
            assert await has_second(c, "alpha") == []
            asks, peer = (a, "charlie") if at == "initiator" else (c, "alpha")
            await asks.until(lambda own: own.log.failure(peer))
            cause = asks.log.failure(peer)
            assert cause is not None
            assert words in cause.words
            assert cause.kind is FailureKind.SECOND_SECRET
            if at == "responder":
                await a.until(lambda own: own.log.failure("charlie"))
                refused = a.log.failure("charlie")
                assert refused is not None
                assert refused.kind is FailureKind.NOT_TRUSTED

    run(scenario)


@needs_root
def test_a_stricter_level_negotiates_a_new_ike_sa_beside_the_old_one(ike_pair: Pair) -> None:
    """So that a level can rise without an interruption: charon does not take the old IKE_SA for the new connection."""

    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha, charlie) as (a, c):
            await introduce(charlie, alpha, c, ONE, required=False)
            await introduce(alpha, charlie, a, None, required=False)
            await a.vici.initiate("charlie", "mesh", 30)
            assert await has_second(a, "charlie") == [False]
            await introduce(alpha, charlie, a, ONE, required=True)
            await a.vici.initiate("charlie", "mesh", 30)
            assert sorted(await has_second(a, "charlie")) == [False, True]

    run(scenario)


@needs_root
def test_what_charon_has_of_a_second_secret_is_compared_with_what_it_should_have(ike_pair: Pair) -> None:
    async def scenario() -> None:
        alpha, charlie = ike_pair
        async with watching(alpha) as (a,):
            await introduce(alpha, charlie, a, ONE, required=True)
            strict, secret = configuration(alpha, charlie, ONE, required=True)
            lax, _ = configuration(alpha, charlie, ONE, required=False)
            assert await a.vici.configured() == (Configured.of(strict),)
            wanted = Wanted({"charlie": strict}, {}, (alpha.card.public_key,))
            assert not list(drift.credentials(wanted, await a.vici.credentials()))
            await a.vici.load_connection(lax, secret)
            found = list(drift.connections(wanted, await a.vici.configured()))
            assert [one.what for one in found] == ["second secret"]
            assert found[0].should.endswith(", required")

    run(scenario)


def test_the_file_has_the_secret_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / second_secret_store.NAME
    assert second_secret_store.find(path) is None
    second_secret_store.save(path, ONE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert second_secret_store.find(path) == ONE
    path.chmod(0o640)
    with pytest.raises(FileError, match="others may read it"):
        second_secret_store.find(path)
    assert second_secret_store.remove(path)
    assert not second_secret_store.remove(path)


@pytest.mark.parametrize("content", ["", "00" * 31, "00" * 33, "xy" * 32, "\u00e4" * 64])
def test_a_file_that_is_no_secret_is_refused_without_its_content(tmp_path: Path, content: str) -> None:
    path = tmp_path / second_secret_store.NAME
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(FileError) as refused:
        second_secret_store.find(path)
    assert str(path) in str(refused.value)
    assert not content or content not in str(refused.value)


def test_both_ends_of_a_pair_derive_the_same_and_no_other_pair_does() -> None:
    seeds = [bytes([value]) * 32 for value in (1, 2, 3)]
    keys = [public_key_of(seed) for seed in seeds]
    derived = {(i, j): second_secret.of_pair(seeds[i], keys[j], ONE) for i in range(3) for j in range(3) if i != j}
    assert all(derived[i, j] == derived[j, i] for i, j in derived)
    assert len(set(derived.values())) == 3
    assert second_secret.of_pair(seeds[0], keys[1], OTHER) != derived[0, 1]
    known = second_secret.mark(ONE)
    assert second_secret.identity(known, keys[0], keys[1]) == second_secret.identity(known, keys[1], keys[0])
    assert second_secret.identity(known, keys[0], keys[1]) != second_secret.identity(known, keys[0], keys[2])


def test_the_derivation_never_changes() -> None:
    """Nodes of different versions must agree, so a change needs another purpose in the derivation."""
    seeds = [bytes([value]) * 32 for value in (1, 2)]
    keys = [public_key_of(seed) for seed in seeds]
    assert (
        second_secret.of_pair(seeds[0], keys[1], ONE).hex()
        == "457c1ecb9efb1e7ddee83b22e06c64cf4a51d3e0a6f1c2480c9cbdd37709a432"
    )
    assert second_secret.identity(second_secret.mark(ONE), *keys) == "meshsec-4b448434cd9a8e47"


def test_what_is_removed_is_durably_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    secret, threat = tmp_path / second_secret_store.NAME, tmp_path / "threat"
    second_secret_store.save(secret, ONE)
    threat_store.save(threat, high=True)
    monkeypatch.setattr(files, "sync_directory", synced.append)
    assert second_secret_store.remove(secret)
    assert synced == [tmp_path]
    threat_store.save(threat, high=False)
    assert synced == [tmp_path, tmp_path]
    assert list(tmp_path.iterdir()) == []
    assert not second_secret_store.remove(secret)
    threat_store.save(threat, high=False)
    assert synced == [tmp_path, tmp_path], "there was nothing to remove"


def test_a_file_that_cannot_be_read_is_named_with_the_command(tmp_path: Path) -> None:
    absent, strange = tmp_path / "absent", tmp_path / "strange"
    with pytest.raises(FileError, match=r"absent: No such file or directory; `meshsec secret set`"):
        second_secret_store.load(absent)
    strange.mkdir(0o700)
    with pytest.raises(FileError, match=r"strange: .*; `meshsec secret set`"):
        second_secret_store.load(strange)
    with pytest.raises(FileError, match=r"strange: .*; `meshsec threat normal`"):
        threat_store.is_high(strange)

"""age's format: an implementation that is not ours opens what is written here, and the other way round."""

import pyrage.passphrase as other
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsec.core.formats import age
from meshsec.core.formats.age import AgeError

RANDOMNESS = bytes(range(age.RANDOM_LENGTH))
CHUNK = 64 * 1024


@pytest.fixture(autouse=True, scope="module")
def quick() -> object:
    """Make scrypt cheap. The file tells its reader the cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(age, "WORK", 10)
        yield


@pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 7])
def test_another_implementation_opens_what_is_written(length: int) -> None:
    plain = bytes(index % 251 for index in range(length))
    sealed = age.encrypt(plain, "correct horse", RANDOMNESS)
    assert other.decrypt(sealed, "correct horse") == plain
    assert age.decrypt(sealed, "correct horse") == plain


def test_what_another_implementation_writes_is_opened() -> None:
    assert age.decrypt(other.encrypt(b"node", "correct horse"), "correct horse") == b"node"


def test_another_passphrase_opens_nothing() -> None:
    with pytest.raises(AgeError, match="another passphrase"):
        age.decrypt(age.encrypt(b"node", "correct horse", RANDOMNESS), "correct hors")


def test_what_would_cost_much_memory_is_refused_before() -> None:
    sealed = age.encrypt(b"node", "p", RANDOMNESS).replace(b" 10\n", b" 21\n", 1)
    with pytest.raises(AgeError, match=r"2\^21 steps of scrypt; allowed: 2\^20"):
        age.decrypt(sealed, "p")


@pytest.mark.parametrize("cut", [1, 16, 17, CHUNK + 16, CHUNK + 17, 2 * CHUNK])
def test_a_cut_file_is_refused(cut: int) -> None:
    sealed = age.encrypt(bytes(2 * CHUNK), "p", RANDOMNESS)
    with pytest.raises(AgeError, match="cut or changed"):
        age.decrypt(sealed[:-cut], "p")


def test_exchanged_chunks_are_refused() -> None:
    sealed = age.encrypt(bytes(CHUNK) + b"\x01" * CHUNK + b"\x02" * CHUNK, "p", RANDOMNESS)
    length = CHUNK + 16
    start = len(sealed) - 3 * length
    chunks = [sealed[start + index * length :][:length] for index in (1, 0, 2)]
    with pytest.raises(AgeError, match="cut or changed"):
        age.decrypt(sealed[:start] + b"".join(chunks), "p")


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 400), bit=st.integers(0, 7))
def test_each_changed_bit_is_refused(position: int, bit: int) -> None:
    sealed = bytearray(age.encrypt(b"node", "p", RANDOMNESS))
    sealed[position % len(sealed)] ^= 1 << bit
    with pytest.raises(AgeError):
        age.decrypt(bytes(sealed), "p")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_other_octets_are_refused(octets: bytes) -> None:
    with pytest.raises(AgeError):
        age.decrypt(octets, "p")

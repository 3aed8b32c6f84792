"""The kernel's ciphers against those of a library, where this kernel gives them to programs; else what it lacks."""

import errno
import os
import socket

import pytest

from meshsec.adapters.kernel.ciphers import AEADS, HASHES, CipherError, KernelAead, KernelHash


def offered(kind: str, name: str) -> bool:
    try:
        with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0) as algorithm:
            algorithm.bind((kind, name))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("name", AEADS)
def test_a_message_is_sealed_as_it_should_be_and_a_forged_one_is_refused(name: str) -> None:
    if not offered("aead", AEADS[name].kernel):
        with pytest.raises(CipherError, match="CONFIG_CRYPTO_USER_API_AEAD"):
            KernelAead(name)
        return
    aead = KernelAead(name)
    for size in (1, 50, 1500, 8192):
        text = bytes(size)
        sealed = aead.seal(text)
        assert sealed == AEADS[name].reference(text)
        assert aead.open(sealed) == text
        with pytest.raises(OSError, match="Bad message"):
            aead.open(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    aead.close()


@pytest.mark.parametrize("name", HASHES)
def test_a_hash_is_that_of_the_library_or_said_to_be_missing(name: str) -> None:
    if not offered("hash", HASHES[name][0]):
        with pytest.raises(CipherError, match="CONFIG_CRYPTO_USER_API_HASH"):
            KernelHash(name)
        return
    one = KernelHash(name)
    assert one.digest(b"a") != one.digest(b"b")
    one.close()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EAFNOSUPPORT, "gives its ciphers to no program (CONFIG_CRYPTO_USER_API_AEAD is off)"),
        (errno.ENOENT, "has no ccm(aes), or does not give it to programs (`modprobe algif_aead`"),
        (errno.EPERM, "the kernel's ccm(aes): Operation not permitted"),
    ],
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, number: int, said: str) -> None:
    def refusing(*_: object) -> socket.socket:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "socket", refusing)
    with pytest.raises(CipherError) as caught:
        KernelAead("AES-128-CCM")
    assert said in str(caught.value)

"""The kernel's ``ccm(aes)``, reached by AF_ALG: a system call gives a message, another takes the result.

    python -m rt.ccm.kernel ROUNDS OCTETS...

prints a line of JSON for each figure, as the programs in Rust do.
"""

import json
import socket
import sys
import time
from collections.abc import Callable

from rt.measure.results import MeasurementError

_KEY, _NONCE, _TAG = bytes([0x2B] * 16), bytes(13), 8
"""Lengths of CCMP, as the other contenders have them."""
_ASSOCIATED = bytes([0x88] * 22)
_COUNTER = bytes([1]) + _NONCE + bytes(2)
"""A_0 of RFC 3610, section 2.3, which the kernel takes as its initialization vector."""
_BATCH = 200
VECTOR = (
    bytes(range(0xC0, 0xD0)),
    bytes([1]) + bytes.fromhex("00000003020100a0a1a2a3a4a5") + bytes(2),
    bytes(range(8)),
    bytes(range(8, 31)),
    bytes.fromhex("588c979a61c663d2f066d0c2c0f989806d5f6b61dac38417e8d12cfdf926e0"),
)
"""Packet vector 1 of RFC 3610: key, initialization vector, header, content, sealed content."""
NAME = "AES-128-CCM, kernel by AF_ALG"


def main() -> int:
    """Measure, or say what the kernel lacks."""
    if lacks := obstacle():
        print(lacks, file=sys.stderr)
        return 1
    rounds, *sizes = map(int, sys.argv[1:])
    for octets in sizes:
        for _ in range(rounds):
            for what, value in nanoseconds(octets).items():
                print(json.dumps({"what": what, "by": NAME, "octets": octets, "ns": value}))
    return 0


class KernelCcm:
    """A key in the kernel. Raises OSError where the kernel lacks AF_ALG, AEADs there, or CCM."""

    def __init__(self, key: bytes = _KEY, counter: bytes = _COUNTER, associated: bytes = _ASSOCIATED) -> None:
        self._counter, self._associated = counter, associated
        with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0) as algorithm:
            algorithm.bind(("aead", "ccm(aes)"))
            algorithm.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, key)
            algorithm.setsockopt(socket.SOL_ALG, socket.ALG_SET_AEAD_AUTHSIZE, None, _TAG)
            self._socket, _ = algorithm.accept()

    def seal(self, content: bytes) -> bytes:
        """Return ciphertext and tag."""
        return self._pass(socket.ALG_OP_ENCRYPT, content, len(content) + _TAG)

    def open(self, sealed: bytes) -> bytes:
        """Return the plaintext; raises OSError for a forged message."""
        return self._pass(socket.ALG_OP_DECRYPT, sealed, len(sealed) - _TAG)

    def _pass(self, operation: int, message: bytes, length: int) -> bytes:
        header = len(self._associated)
        self._socket.sendmsg_afalg([self._associated, message], op=operation, iv=self._counter, assoclen=header)
        return self._socket.recv(header + length)[header:]


def obstacle() -> str:
    """Return why the kernel's CCM cannot be measured, else nothing."""
    key, counter, associated, content, sealed = VECTOR
    try:
        made = KernelCcm(key, counter, associated).seal(content)
    except (OSError, AttributeError) as error:
        return f"this kernel gives no ccm(aes) by AF_ALG: {error}"
    if made != sealed:
        raise MeasurementError(f"the kernel's packet vector 1 is {made.hex()}")
    return ""


def nanoseconds(octets: int) -> dict[str, float]:
    """Measure one batch: nanoseconds for a message, with the system calls, which Python makes."""
    kernel = KernelCcm()
    content = bytes(octets)
    sealed = kernel.seal(content)
    return {
        "encryption": _each(lambda: kernel.seal(content)),
        "decryption": _each(lambda: kernel.open(sealed)),
    }


def _each(action: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    for _ in range(_BATCH):
        action()
    return (time.perf_counter_ns() - start) / _BATCH


if __name__ == "__main__":
    sys.exit(main())

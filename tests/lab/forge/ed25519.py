"""Ed25519 by arithmetic on its points (RFC 8032, section 5.1), for keys and signatures that no library makes.

Slow, and not for secrets.
"""

from dataclasses import dataclass
from hashlib import sha512

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
"""The order of the field, and that of the base point."""
_D = -121665 * pow(121666, -1, P) % P


@dataclass(frozen=True)
class Point:
    """A point in extended homogeneous coordinates (section 5.1.4)."""

    x: int
    y: int
    z: int = 1
    t: int = 0

    def __add__(self, other: "Point") -> "Point":
        a, b = (self.y - self.x) * (other.y - other.x) % P, (self.y + self.x) * (other.y + other.x) % P
        c, d = 2 * self.t * other.t * _D % P, 2 * self.z * other.z % P
        e, f, g, h = b - a, d - c, d + c, b + a
        return Point(e * f % P, g * h % P, f * g % P, e * h % P)

    def __rmul__(self, scalar: int) -> "Point":
        total, double = Point(0, 1), self
        while scalar:
            total = total + double if scalar & 1 else total
            double, scalar = double + double, scalar >> 1
        return total

    def __bytes__(self) -> bytes:
        inverse = pow(self.z, -1, P)
        return octets(self.y * inverse % P, self.x * inverse % P & 1)


def octets(y: int, sign: int = 0) -> bytes:
    """Encode a y coordinate, or a scalar, and the sign of x."""
    return (y | sign << 255).to_bytes(32, "little")


def point(y: int, sign: int = 0) -> Point | None:
    """Return the point with this y coordinate, if there is one; a sign of x = 0 is ignored."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square:
        return None
    x = x if x & 1 == sign else -x % P
    return Point(x, y % P, 1, x * y % P)


def known(y: int, sign: int = 0) -> Point:
    """Return the point that this y coordinate has."""
    found = point(y, sign)
    assert found is not None
    return found


BASE = known(4 * pow(5, -1, P) % P)
IDENTITY = octets(1)


def order(of: Point) -> int:
    """Return the order of a point of small order."""
    return next(number for number in (1, 2, 4, 8) if bytes(number * of) == IDENTITY)


def of_small_order() -> list[Point]:
    """Return the eight points whose order divides 8, by their encodings."""
    multiples = (L * one for one in map(point, range(2, 20)) if one is not None)
    eighth = next(one for one in multiples if order(one) == 8)
    return sorted((number * eighth for number in range(8)), key=bytes)


def hashed(*parts: bytes) -> int:
    """Return a hash as a number."""
    return int.from_bytes(sha512(b"".join(parts)).digest(), "little")


class Key:
    """A private key. `public` may be another point than the true one."""

    def __init__(self, seed: bytes) -> None:
        digest = sha512(seed).digest()
        self.scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | 1 << 254
        self.prefix, self.point = digest[32:], self.scalar * BASE
        self.public = bytes(self.point)

    def nonce(self, text: bytes) -> int:
        """Return r of section 5.1.6."""
        return hashed(self.prefix, text) % L

    def response(self, r: int, commitment: bytes, text: bytes, public: bytes) -> int:
        """Return S for an R and a public key, which may be false."""
        return (r + hashed(commitment, public, text) % L * self.scalar) % L

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text."""
        r = self.nonce(text)
        commitment = bytes(r * BASE)
        return commitment + octets(self.response(r, commitment, text, self.public))

    def address(self) -> bytes:
        """Return the node's address: the hash of its X25519 key (RFC 7748, section 4.1)."""
        y = int.from_bytes(self.public, "little") & (1 << 255) - 1
        return sha512(sha512(octets((1 + y) * pow(1 - y, -1, P) % P)).digest()).digest()[:16]

"""``bench crypto``: what this machine's processor does of the cryptography that channels need."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

import click

from meshsec.cli.bench.kept import again, begin
from meshsec.cli.bench.options import about, into_option, need, rounds_option, run
from meshsec.cli.bench.steps import Step, finished, in_rounds, measure
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.bench import openssl
from meshsec.core.bench.openssl import CIPHERS, HASHES, OPERATIONS, SIZES
from meshsec.core.bench.record import Record, Taken

_SECONDS = 1
"""Seconds for each figure, OpenSSL's least."""
_PATIENCE = 60.0
_DIRECTIONS = {"encryption": (), "decryption": ("-decrypt",)}


@click.command
@rounds_option(3)
@into_option
@json_option
def crypto(rounds: int, into: Path, resume: Path | None, as_json: bool) -> None:
    """Measure the cryptography of this machine, one processor alone.

    Ciphers by the size of the packet in both directions, hashes, signatures, key agreements, and ML-KEM where OpenSSL
    has it, with `openssl speed`. The kernel's ESP has ciphers of its own: `make bench-throughput` in meshsec's sources
    measures those. A round takes a minute and a half.
    """
    need("openssl", "openssl")
    steps = in_rounds(_steps(), rounds)
    version = run(["openssl", "version"], _PATIENCE).strip()
    record, place = begin(Record("crypto", {"rounds": rounds}, about(openssl=version)), into, resume)
    measure(record, steps, place)
    rate = openssl.set_ups(record.cells)
    if rate:
        record.note(
            f"One processor could set up {rate:.0f} IKE_SAs in a second with X25519 and Ed25519 if it did nothing else "
            "(calculated from the medians)."
        )
    if as_json:
        print_json(record.document(again()))
    elif record.cells:
        _print(record)
    finished(record, place, len(steps))


def _steps() -> list[Step]:
    """Return the steps of a round."""
    ciphers = [
        Step(f"{cipher.name}, {size} bytes, {what}", _SECONDS, partial(_cipher, cipher, size, what))
        for cipher, size, what in product(CIPHERS, SIZES, _DIRECTIONS)
    ]
    hashes = [
        Step(f"{one.name}, {size} bytes", _SECONDS, partial(_hash, one, size)) for one, size in product(HASHES, SIZES)
    ]
    others = [
        Step(name, (len(counted) + 0.5) * _SECONDS, partial(_operations, algorithm))
        for algorithm, (name, counted) in OPERATIONS.items()
    ]
    return [*ciphers, *hashes, *others]


def _speed(*arguments: str) -> str:
    return run(["openssl", "speed", "-mr", "-seconds", str(_SECONDS), *arguments], _PATIENCE)


def _cipher(cipher: openssl.Cipher, size: int, what: str) -> Iterator[Taken]:
    text = _speed("-bytes", str(size), "-aead", *_DIRECTIONS[what], "-evp", cipher.evp)
    yield _rate({"algorithm": cipher.name, "what": what, "bytes": size}, text)


def _hash(one: openssl.Cipher, size: int) -> Iterator[Taken]:
    yield _rate({"algorithm": one.name, "what": "hashing", "bytes": size}, _speed("-bytes", str(size), "-evp", one.evp))


def _rate(key: dict[str, str | int | float], text: str) -> Taken:
    rate = openssl.throughput(text)
    if rate is None:
        raise click.ClickException(f"openssl speed gave no figure for {key['algorithm']}")
    return Taken(key, "Mbit/s", [rate])


def _operations(algorithm: str) -> Iterator[Taken]:
    """Measure one algorithm; OpenSSL before 3.5 lacks ML-KEM."""
    if algorithm == "ML-KEM-768" and "ML-KEM-768" not in run(["openssl", "list", "-kem-algorithms"], _PATIENCE):
        return
    found = openssl.operations(algorithm, _speed(algorithm))
    if not found:
        raise click.ClickException(f"openssl speed gave no figure for {algorithm}")
    yield from found


def _print(record: Record) -> None:
    sized: dict[tuple[str, str], dict[int, float]] = {}
    for cell in record.cells:
        if "bytes" in cell.key:
            row = sized.setdefault((str(cell.key["algorithm"]), str(cell.key["what"])), {})
            row[int(cell.key["bytes"])] = median(cell.samples)
    print_table(
        ("MBIT/S BY BYTES", "", *(str(size) for size in SIZES)),
        ((name, what, *_row(row)) for (name, what), row in sized.items()),
    )
    others = [cell for cell in record.cells if "bytes" not in cell.key]
    if others:
        click.echo()
        print_table(
            ("EACH SECOND", "", "MEDIAN"),
            ((cell.key["algorithm"], cell.key["what"], f"{median(cell.samples):.0f}") for cell in others),
        )


def _row(row: dict[int, float]) -> Sequence[str | None]:
    return [f"{row[size]:.0f}" if size in row else None for size in SIZES]

"""``bench crypto``: what this machine's processor does of the cryptography that channels need."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

import click

from meshsec.adapters.kernel import ciphers
from meshsec.adapters.kernel.ciphers import CipherError, KernelAead, KernelHash
from meshsec.cli.bench.figures import explain, spread
from meshsec.cli.bench.kept import again, begin
from meshsec.cli.bench.options import about, into_option, need, rounds_option, run
from meshsec.cli.bench.steps import Step, finished, in_rounds, measure
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.bench import openssl
from meshsec.core.bench.interval import interval, number_of
from meshsec.core.bench.openssl import CIPHERS, HASHES, OPERATIONS, SIZES
from meshsec.core.bench.record import Record, Taken

_SECONDS = 1
"""Seconds for each figure, OpenSSL's least."""
_IN_KERNEL = 0.25
"""Seconds for each figure of the kernel's."""
_BATCH = 20
"""Messages between two looks at the clock."""
_PATIENCE = 60.0
_DIRECTIONS = {"encryption": (), "decryption": ("-decrypt",)}


@click.command
@rounds_option(3)
@into_option
@json_option
def crypto(rounds: int, into: Path, resume: Path | None, as_json: bool) -> None:
    """Measure the cryptography of this machine, one processor alone.

    Ciphers by the size of the packet in both directions, hashes, signatures, key agreements, and ML-KEM where OpenSSL
    has it, with `openssl speed`. The kernel's own ciphers, which its ESP uses, are measured where it gives them to
    programs: each message costs two system calls, which ESP does not need. What is missing is named. A round takes two
    minutes.
    """
    need("openssl", "openssl")
    lacking, kernel = _in_kernel()
    version = run(["openssl", "version"], _PATIENCE).strip()
    if not _has_ml_kem():
        lacking.append(f"ML-KEM-768 was not measured: {version} has none; OpenSSL has it since 3.5 (Debian 13).")
    steps = in_rounds([*_steps(), *kernel], rounds)
    params = {"rounds": rounds, "kernel": len(kernel)}
    record, place = begin(Record("crypto", params, about(openssl=version)), into, resume)
    for one in lacking:
        record.note(one)
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


def _in_kernel() -> tuple[list[str], list[Step]]:
    """Return what the kernel lacks, and the steps for what it has."""
    missing: dict[str, list[str]] = {}
    steps: list[Step] = []
    for name in (one.name for one in CIPHERS if one.name in ciphers.AEADS):
        try:
            KernelAead(name).close()
        except CipherError as error:
            missing.setdefault(str(error), []).append(name)
            continue
        steps += [
            Step(f"{name} of the kernel, {size} bytes, {what}", _IN_KERNEL, partial(_kernel_cipher, name, size, what))
            for size, what in product(SIZES, _DIRECTIONS)
        ]
    for name in (one.name for one in HASHES):
        try:
            KernelHash(name).close()
        except CipherError as error:
            missing.setdefault(str(error), []).append(name)
            continue
        steps += [
            Step(f"{name} of the kernel, {size} bytes", _IN_KERNEL, partial(_kernel_hash, name, size)) for size in SIZES
        ]
    return [f"{', '.join(names)} of the kernel: not measured: {why}." for why, names in missing.items()], steps


def _kernel_cipher(name: str, size: int, what: str) -> Iterator[Taken]:
    aead = KernelAead(name)
    try:
        message = bytes(size) if what == "encryption" else aead.seal(bytes(size))
        work = partial(aead.seal if what == "encryption" else aead.open, message)
        yield Taken({"algorithm": name, "what": what, "by": "kernel", "bytes": size}, "Mbit/s", [_timed(work, size)])
    finally:
        aead.close()


def _kernel_hash(name: str, size: int) -> Iterator[Taken]:
    one = KernelHash(name)
    try:
        rate = _timed(partial(one.digest, bytes(size)), size)
        yield Taken({"algorithm": name, "what": "hashing", "by": "kernel", "bytes": size}, "Mbit/s", [rate])
    finally:
        one.close()


def _timed(work: Callable[[], object], size: int) -> float:
    """Return the megabits in a second of an action on so many bytes."""
    begun, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - begun) < _IN_KERNEL:
        for _ in range(_BATCH):
            work()
        count += _BATCH
    return count * size * 8 / spent / 1e6


def _has_ml_kem() -> bool:
    """Return whether this OpenSSL has ML-KEM-768 (FIPS 203)."""
    return "ML-KEM-768" in run(["openssl", "list", "-kem-algorithms"], _PATIENCE)


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
    if algorithm == "ML-KEM-768" and not _has_ml_kem():
        return
    found = openssl.operations(algorithm, _speed(algorithm))
    if not found:
        raise click.ClickException(f"openssl speed gave no figure for {algorithm}")
    yield from found


def _print(record: Record) -> None:
    sized: dict[tuple[str, str], dict[int, Taken]] = {}
    for cell in record.cells:
        if "bytes" in cell.key:
            name = f"{cell.key['algorithm']}{' (kernel)' if 'by' in cell.key else ''}"
            row = sized.setdefault((name, str(cell.key["what"])), {})
            row[int(cell.key["bytes"])] = cell
    print_table(
        ("MBIT/S BY BYTES", "", "N", *(str(size) for size in SIZES)),
        ((name, what, *_row(row)) for (name, what), row in sized.items()),
    )
    explain((cell for row in sized.values() for cell in row.values()), "below each median, in per cent from it")
    others = [cell for cell in record.cells if "bytes" not in cell.key]
    if others:
        click.echo()
        print_table(
            ("EACH SECOND", "", "N", "MEDIAN"),
            (
                (cell.key["algorithm"], cell.key["what"], len(cell.samples), spread(cell, "{:.0f}".format))
                for cell in others
            ),
        )
        explain(others)


def _row(row: Mapping[int, Taken]) -> Sequence[str | None]:
    """Return the number of samples, and for each size the median above its interval."""
    counts = number_of([len(cell.samples) for cell in row.values()])
    return [counts, *(_above_its_interval(row[size]) if size in row else None for size in SIZES)]


def _above_its_interval(cell: Taken) -> str:
    middle = median(cell.samples)
    if len(cell.samples) == 1:
        return f"{middle:.0f}"
    low, high = (100 * (end - middle) / middle for end in interval(cell.samples))
    return f"{middle:.0f}\n{low:+.0f} {high:+.0f}"

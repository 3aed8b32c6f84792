"""Keep what a benchmark measured: JSON with every sample, CSV, and a picture."""

import csv
import io
import json
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from meshsec import files
from meshsec.core.bench.pictures import pictures
from meshsec.core.bench.record import Record, RecordError, continued

_LIMIT = 64 << 20
"""Bytes of a record that is read again."""
_MODE = 0o644


@dataclass(frozen=True)
class Place:
    """Where a run's files are: DIRECTORY/STEM.json and others beside it."""

    directory: Path
    stem: str

    def file(self, kind: str) -> Path:
        """Return the path of the file of a kind, ``.json`` for example."""
        return self.directory / f"{self.stem}{kind}"


def begin(new: Record, into: Path, resume: Path | None) -> tuple[Record, Place]:
    """Return a new record, or that of a run which ended early, and its place. Raises ClickException."""
    if resume is None:
        return new, Place(into, f"{new.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        return continued(json.loads(files.read(resume, _LIMIT)), new), Place(resume.parent, resume.stem)
    except (files.FileError, RecordError, ValueError) as error:
        raise click.ClickException(f"cannot go on with {resume}: {error}") from error


def keep(record: Record, place: Place) -> None:
    """Write what there is. Raises ClickException; what was written before stays."""
    document = json.dumps(record.document(again()), indent=1, ensure_ascii=False) + "\n"
    _write(place, {".json": document})


def finish(record: Record, place: Place) -> None:
    """Write everything, and say where it is."""
    keep(record, place)
    others = {".csv": _table(record), **pictures(record)}
    _write(place, others)
    click.echo(f"written: {place.file('.json')} (every sample), {', '.join(others)}", err=True)


def again() -> str:
    """Return the command that measures again from the beginning."""
    arguments = [one for one in sys.argv[1:] if not one.startswith("--resume=")]
    if "--resume" in arguments:
        del arguments[(at := arguments.index("--resume")) : at + 2]
    return shlex.join(["meshsec", *arguments])


def _write(place: Place, contents: Mapping[str, str]) -> None:
    try:
        files.make_directory(place.directory)
        for kind, content in contents.items():
            files.write(place.file(kind), content.encode(), _MODE)
    except files.FileError as error:
        raise click.ClickException(f"{error}; name another directory: --into DIRECTORY") from error


def _table(record: Record) -> str:
    rows = list(record.rows())
    columns = dict.fromkeys(column for row in rows for column in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*columns], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

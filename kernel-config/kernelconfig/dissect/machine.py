"""Anatomies for programs: JSON (docs/reference/schema/kernel-dissect-1.json) and CSV."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict

from kernelconfig.dissect.anatomy import Anatomy
from kernelconfig.dissect.dissertation import Row
from kernelconfig.dissect.grouping import counts

JSON_VERSION = 1


def as_json(anatomies: Sequence[Anatomy], rows: Sequence[Row]) -> str:
    """Return all that was found, and the dissertation's rows where they were asked for."""
    content = {
        "version": JSON_VERSION,
        "modules": [_fields(anatomy) for anatomy in anatomies],
        "dissertation": [asdict(row) for row in rows],
    }
    return json.dumps(content, indent=2)


def as_csv(anatomies: Sequence[Anatomy]) -> str:
    """Return one line for each symbol that a module needs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("module", "symbol", "subsystem", "provider", "references"))
    for anatomy in anatomies:
        for need in anatomy.needs:
            writer.writerow((anatomy.module.name, need.symbol, need.subsystem, need.provider, need.references))
    return text.getvalue().rstrip("\n")


def _fields(anatomy: Anatomy) -> dict[str, object]:
    module = asdict(anatomy.module)
    del module["undefined"]
    return {
        **module,
        "kernel": anatomy.kernel,
        "providers": anatomy.note,
        "needed_modules": anatomy.below,
        "subsystems": counts(anatomy.needs),
        "needs": [asdict(need) for need in anatomy.needs],
        "options": [{**asdict(option), "missing": option.is_missing} for option in anatomy.options],
        "ran": asdict(anatomy.run) if anatomy.run else None,
    }

"""Anatomies for people, in 100 columns."""

from collections.abc import Iterable, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelconfig.dissect.anatomy import Anatomy
from kernelconfig.dissect.dissertation import Row
from kernelconfig.dissect.grouping import OTHER, UNKNOWN, Rules, counts
from kernelconfig.dissect.module import Module

WIDTH = 100
_SIDE_BY_SIDE = 7
"""Drivers in one table of a comparison."""
_LARGEST = 5
_EXAMPLES = 3
"""Symbols of a subsystem that are named."""
_OTHERS = 40
"""The same of those that no rule fits: somebody may write a rule for them."""
_NAMES = 6
"""Names in one cell of a table before the rest is counted."""


def show(anatomy: Anatomy, rules: Rules, console: Console, *, symbols: bool) -> None:
    """Print one module; with ``symbols`` each symbol that it needs."""
    console.print(_line(_title(anatomy.module)))
    console.print(_grid(_facts(anatomy)))
    if anatomy.module.parameters:
        console.print(_parameters(anatomy.module))
    console.print(_needs(anatomy, rules))
    if symbols:
        console.print(_symbols(anatomy))
    if anatomy.options:
        console.print(_options(anatomy))
    console.print(_line(_verdict(anatomy)))


def compare(anatomies: Sequence[Anatomy], console: Console) -> None:
    """Print modules side by side."""
    for first in range(0, len(anatomies), _SIDE_BY_SIDE):
        console.print(_comparison(anatomies[first : first + _SIDE_BY_SIDE], anatomies))
    for anatomy in anatomies:
        console.print(_line(f"{anatomy.module.name}: {_verdict(anatomy)}"))


def show_dissertation(title: str, rows: Iterable[Row], module: Module, console: Console) -> None:
    """Print the dissertation's counts beside ours."""
    table = _table("caption", "what", "theirs", "ours", "why they differ")
    table.title = f"{title}, and {module.name} of Linux {module.release}"
    for row in rows:
        ours = "-" if row.ours is None else f"{row.ours:,}"
        theirs = f"{row.value:,}" if isinstance(row.value, int) else row.value
        table.add_row(*map(_line, (row.place, row.what, theirs, ours, row.why)))
    console.print(table)


def _line(text: str) -> Text:
    """Return a text whose brackets are no markup."""
    return Text(text)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left", title_style="bold")
    for name in columns:
        right = name in {"symbols", "references", "ours", "theirs"}
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    return table


def _grid(facts: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(_line(f"  {name}"), _line(value))
    return table


def _title(module: Module) -> str:
    return f"{module.name}: {module.field('description') or 'a module without description'}"


def _facts(anatomy: Anatomy) -> Iterable[tuple[str, str]]:
    module = anatomy.module
    packed = "" if module.packing == "plain" else f"{module.file_bytes:,} bytes {module.packing}, unpacked "
    yield "built for", f"{module.machine}, kernel {module.field('vermagic') or 'unknown: it has no vermagic'}"
    yield (
        "file",
        f"{packed}{module.elf_bytes:,} bytes, {f'signed ({module.signature})' if module.signature else 'not signed'}",
    )
    yield "in memory", ", ".join(f"{kind} {size:,}" for kind, size in module.sizes.items()) + " bytes"
    yield "functions", _functions(module)
    yield "symbols", f"{len(module.undefined)} needed, {len(module.exported)} exported, {module.table.entries} in all"
    yield "modules", ", ".join(anatomy.below or module.depends) or "none below it"
    yield "firmware", _some(module.info.get("firmware", ()))
    yield "devices", _some(module.info.get("alias", ()))
    yield "providers", anatomy.note
    if anatomy.run:
        ran, seen = len(anatomy.run.ran), len(anatomy.run.traceable)
        yield "ran", f"{ran} of {seen} functions that the tracer sees ({_percent(ran, seen)} %)"


def _functions(module: Module) -> str:
    sizes = [function.size for function in module.functions]
    if not sizes:
        return "none"
    largest = sorted(module.functions, key=lambda function: -function.size)[:_LARGEST]
    names = ", ".join(f"{function.name} {function.size:,}" for function in largest)
    return f"{len(sizes)}, {sum(sizes):,} bytes, median {median(sizes):,.0f}; the largest: {names}"


def _some(values: Sequence[str]) -> str:
    more = len(values) - _NAMES
    return ", ".join([*values[:_NAMES], *([f"{more} more"] if more > 0 else [])]) or "none"


def _percent(part: int, whole: int) -> int:
    return round(100 * part / whole) if whole else 0


def _parameters(module: Module) -> Table:
    table = _table("parameter", "type", "description")
    for parameter in module.parameters:
        table.add_row(*map(_line, (parameter.name, parameter.type, parameter.description)))
    return table


def _needs(anatomy: Anatomy, rules: Rules) -> Table:
    what = {rule.name: rule.what for rule in rules.subsystems}
    table = _table("needs of", "symbols", "references", "provided by", "such as")
    for name, number in counts(anatomy.needs).items():
        needs = [need for need in anatomy.needs if need.subsystem == name]
        often = sorted(needs, key=lambda need: -need.references)
        providers = ", ".join(dict.fromkeys(need.provider or "not looked up" for need in needs))
        references = str(sum(need.references for need in needs))
        shown = often[: _OTHERS if name == OTHER else _EXAMPLES]
        label = f"{name} ({what[name]})" if name in what else name
        table.add_row(_line(label), str(number), references, _line(providers),
                      _line(", ".join(need.symbol for need in shown)))  # fmt: skip
    return table


def _symbols(anatomy: Anatomy) -> Table:
    table = _table("symbol", "subsystem", "provided by", "references")
    for need in anatomy.needs:
        table.add_row(
            *map(_line, (need.symbol, need.subsystem, need.provider or "not looked up", str(need.references)))
        )
    return table


def _options(anatomy: Anatomy) -> Table:
    table = _table("option", "needed for", "our files", "found")
    for option in anatomy.options:
        state = f"{option.state}: {option.where}" if option.where else option.state
        users = _some(option.needed_for) + ("" if option.is_direct else ", below a module")
        table.add_row(*map(_line, (f"CONFIG_{option.symbol}", users, state, option.found or "-")))
    return table


def _verdict(anatomy: Anatomy) -> str:
    missing = [f"CONFIG_{option.symbol}" for option in anatomy.options if option.is_missing]
    unknown = [need.symbol for need in anatomy.needs if need.provider == UNKNOWN]
    where = "the named configuration" if any(option.found for option in anatomy.options) else "our own kernel"
    said = [f"{where} lacks {', '.join(missing)}"] if missing else [f"{where} has all options that are known for it"]
    if unknown:
        said.append(f"nothing exports {_some(unknown)}: this kernel cannot load it")
    return "; ".join(said)


def _comparison(shown: Sequence[Anatomy], everything: Sequence[Anatomy]) -> Table:
    """Return a table of some modules, with the rows of all of them."""
    table = _table("")
    for anatomy in shown:
        table.add_column(anatomy.module.name, justify="right", overflow="fold", max_width=11)
    by_module = {id(anatomy): counts(anatomy.needs) for anatomy in everything}
    for label, values in _measures(shown):
        table.add_row(label, *values)
    names = dict.fromkeys(name for found in by_module.values() for name in found)
    for name in sorted(names, key=lambda name: -sum(found.get(name, 0) for found in by_module.values())):
        table.add_row(_line(name), *(str(by_module[id(anatomy)].get(name, "")) for anatomy in shown))
    return table


def _measures(shown: Sequence[Anatomy]) -> Iterable[tuple[str, list[str]]]:
    for kind in ("text", "rodata", "data", "bss"):
        yield f"{kind} KiB", [f"{anatomy.module.sizes[kind] / 1024:.1f}" for anatomy in shown]
    yield "functions", [str(len(anatomy.module.functions)) for anatomy in shown]
    if any(anatomy.run for anatomy in shown):
        yield "  that ran", [str(len(anatomy.run.ran)) if anatomy.run else "" for anatomy in shown]
    yield "parameters", [str(len(anatomy.module.parameters)) for anatomy in shown]
    yield "symbols exported", [str(len(anatomy.module.exported)) for anatomy in shown]
    yield "symbols needed", [str(len(anatomy.needs)) for anatomy in shown]

"""The page: every caption with what the work shows, the picture, both sides' values, and how to repeat ours."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from rt.papers import rounds
from rt.papers.form import Entry, Made, Selector, Work
from rt.papers.judge import failed, missing, sayable, sentence, unfit, words
from rt.papers.kept import Results
from rt.papers.picture import draw, drawable

COLUMNS = 100
_WHAT_IT_MEANS = (
    "the intervals of two rounds do not overlap. Something changed between the rounds, and a further one may differ "
    "more than the interval of all samples says."
)
_INTRODUCTION = """\
# The papers, redrawn

Every table and figure of five works on secured meshes: the work's own values beside ours, from kept
results. {missing}`make papers` draws this page in seconds, without root; the first run in a
checkout needs `make setup`. `QUICK=1 make papers` measures again with few samples, at most three minutes for each
result, as root, and writes build/papers.{left_out} When it is interrupted, the same command goes on with what is left.

**How to read it.** The works' values are those that their texts state. Where a chart's numbers are
not in the text, the entry says so, and nothing is read off the chart. Ours are medians. An interval
is the 95 % confidence interval of the median by order statistics, which assumes no distribution; of
fewer than six samples it is their range. Kaplan's quotients are taken in each round, and the median
of these is shown. All others divide two medians, or subtract them, and their interval goes from the least to the
greatest that both intervals allow. Samples of one visit to a node are not independent of each other, so that the
interval may be too narrow. Where the intervals of two rounds do not overlap, the page names the cell.
A sentence that says more or less rests on intervals that do not overlap; else it says that there is no
difference beyond the interval. In pictures, ours are filled and the
works' are hollow; bars are intervals, and dotted lines only guide the eye between the values that a
text states. Axes start at 0 unless their label says logarithmic. A median that is "at least" so
much, and has \N{GREATER-THAN OR EQUAL TO} in pictures, is of set-ups half of which were given up after that time. A
work's own captions are in quotation marks. A listing without a caption is named by its headings, and
a finding without one in our words.

**How it was measured.** All that one result compares was measured alternately in one run. The
section [Results](#results) names the machine, the versions and the command of each. Others may use
the machine's processors, too, so quotients say more than absolute values. The raw data hold every
sample (`xz -dc` shows them). A test checks that this page is what the kept results give, that no caption of a work is
missing, and that each claim behind a sentence holds for the kept figures. The command
`.venv/bin/python -m rt.papers missing` lists what is left to do.
"""


def write(all_works: Mapping[str, Work], made: Mapping[str, Made], results: Results, into: Path) -> list[Path]:
    """Write papers.md and papers/*.svg below a folder, remove other pictures there, and return the paths."""
    pictures = into / "papers"
    written = [into / "papers.md"]
    parts = [_introduction(all_works, made, results), *_summary(all_works, results), *_contents(all_works, results)]
    for name, work in all_works.items():
        parts += _work(work)
        for entry in work.entry:
            path = pictures / f"{name}-{entry.id}.svg"
            if drawn := drawable(entry, results):
                draw(work, entry, results, path)
                written.append(path)
            parts += _entry(work, entry, results, path.name if drawn else "")
    parts += _results(all_works, made, results)
    for path in pictures.glob("*.svg"):
        if path not in written:
            path.unlink()
    into.mkdir(parents=True, exist_ok=True)
    written[0].write_text("\n".join(parts), encoding="utf-8")
    return written


def state(entry: Entry, results: Results) -> str:
    """Return in one word what became of the entry."""
    if any("is not kept" in lack for lack in missing(entry, results)):
        return "not measured yet"
    if entry.results():
        return "measured"
    return "cannot be had here" if entry.cannot else "set-up compared"


def _introduction(all_works: Mapping[str, Work], made: Mapping[str, Made], results: Results) -> str:
    """Return the head of the page, which says how many entries are not measured yet, and what no quick run measures."""
    states = [state(entry, results) for work in all_works.values() for entry in work.entry]
    absent = states.count("not measured yet")
    missing_now = f"Of {len(states)} entries, {absent} are not measured yet, and say so. " if absent else ""
    long_ones = ", ".join(name for name, one in made.items() if not one.quick)
    left_out = f" It leaves out what takes longer: {long_ones}." if long_ones else ""
    text = _INTRODUCTION.replace("{missing}", missing_now).replace("{left_out}", left_out)
    title, *others = text.strip().split("\n\n")
    return "\n".join((title + "\n", *map(_prose, others)))


def _summary(all_works: Mapping[str, Work], results: Results) -> Iterator[str]:
    yield "| work | what it found | what ours shows |"
    yield "|---|---|---|"
    for work in all_works.values():
        yield f"| {_link(work)} | {work.found} | {_shown_of(work, results)} |"
    yield ""


def _shown_of(work: Work, results: Results) -> str:
    """Return what ours shows, if the entries that it rests on are measured and their claims hold."""
    entries = [entry for entry in work.entry if entry.id in work.rests_on]
    if any(state(entry, results) == "not measured yet" for entry in entries):
        return "not measured yet"
    lacks = [lack for entry in entries for lack in (*unfit(entry, results), *failed(entry, results))]
    return "not in these results, see below" if lacks else work.ours


def _contents(all_works: Mapping[str, Work], results: Results) -> Iterator[str]:
    states = ("measured", "set-up compared", "cannot be had here", "not measured yet")
    yield "| work | entries | " + " | ".join(states) + " |"
    yield "|---|---:|" + "---:|" * len(states)
    for work in all_works.values():
        found = [state(entry, results) for entry in work.entry]
        counts = " | ".join(str(found.count(one)) for one in states)
        yield f"| {_link(work)} | {len(found)} | {counts} |"
    yield ""


def _link(work: Work) -> str:
    return f"[{work.short}](#{work.short.lower().replace(' ', '-')})"


def _work(work: Work) -> Iterator[str]:
    yield f"## {work.short}"
    yield ""
    yield _prose(f"{work.citation} {work.about}")
    if work.setup:
        yield "| set-up | theirs | ours | where in the text |"
        yield "|---|---|---|---|"
        for fact in work.setup:
            yield f"| {fact.what} | {fact.theirs} | {fact.ours} | {fact.where} |"
        yield ""


def _entry(work: Work, entry: Entry, results: Results, picture: str) -> Iterator[str]:
    yield f"### {work.short}, {entry.title.lower()}"
    yield ""
    mark = "**" if entry.kind in ("figure", "table") else "*"
    yield _prose(f"{mark}{entry.quoted}{mark}, {entry.where}. {entry.shows}")
    if picture:
        yield f"![{work.short}, {entry.title.lower()}](papers/{picture})"
        yield ""
    if entry.value:
        yield from _values(entry, results)
    if entry.cannot:
        yield _prose(f"**Cannot be had here:** {entry.cannot}")
    absent = [name for name in entry.results() if results.get(name) is None]
    if absent:
        yield _prose(f"**Not measured yet:** {', '.join(absent)}.")
    if lacks := list(unfit(entry, results)):
        yield _prose(f"**Not in this run:** {'; '.join(lacks)}.")
    if not absent and sayable(entry, results):
        yield from map(_prose, f"**Here:** {sentence(entry, results)}".split("\n\n"))
    yield from _rounds(entry, results)
    for claim in failed(entry, results):
        yield _prose(f"These results do not support that sentence: {claim}.")
    for name in entry.results():
        if name not in absent:
            yield _prose(_origin(name, entry, results))


def _values(entry: Entry, results: Results) -> Iterator[str]:
    rows = [(value, *words(value, results)) for value in entry.value]
    measured = any(interval for _, _, interval, _ in rows)
    yield "| what | unit | theirs | ours |" + (" 95 % interval | n |" if measured else "") + " where in the text |"
    yield "|---|---|---:|---:|" + ("---|---:|" if measured else "") + "---|"
    for value, median, interval, n in rows:
        shown = value.value if isinstance(value.value, str | tuple) else f"{value.value:,}"
        theirs = f"{shown[0]:g} to {shown[1]:g}" if isinstance(shown, tuple) else shown.removesuffix(".0")
        more = f" {interval} | {n} |" if measured else ""
        yield f"| {value.what} | {value.unit} | {theirs} | {median} |{more} {value.where} |"
    yield ""


def _origin(name: str, entry: Entry, results: Results) -> str:
    used = [selector for selector in entry.selectors() if selector.result == name]
    counts = {len(cell["samples"]) for selector in used for cell in results.cells(selector) or ()}
    n = f"n = {min(counts)}" + (f" to {max(counts)}" if len(counts) > 1 else "") if counts else "no sample"
    return f"*{n}, of [{name}](#results).*"


def _rounds(entry: Entry, results: Results) -> Iterator[str]:
    """Yield the warning of the cells of an entry whose rounds disagree."""
    for name in entry.results():
        if result := results.get(name):
            used = {id(cell): cell for select in entry.selectors() if select.result == name
                    for cell in _cells(select, results)}  # fmt: skip
            if found := list(rounds.disagreeing(result, used.values())):
                yield _prose(f"**Rounds that disagree.** In these cells of {name} {_WHAT_IT_MEANS}")
                yield "\n".join(_item(str(one)) for one in found) + "\n"


def _cells(select: Selector, results: Results) -> Iterator[Mapping[str, Any]]:
    """Yield the cells of a selector, and of what they are compared with."""
    yield from results.cells(select) or ()
    if other := select.over or select.less:
        yield from results.cells(Selector(select.result, other, select.unit)) or ()


def _all_rounds(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many of a result's cells have rounds that disagree, and those that do so by far."""
    cells = result["cells"]
    found = list(rounds.disagreeing(result, cells))
    if not found:
        return
    of = sum(bool(rounds.divided(result["params"], cell)) for cell in cells)
    worst = rounds.named(found)
    shown = " These differ at least twofold; of each visit, what differs most:" if worst else ""
    yield _prose(f"**Rounds that disagree, {name}.** In {len(found)} of {of} cells {_WHAT_IT_MEANS}{shown}")
    if worst:
        yield "\n".join(_item(str(one)) for one in worst) + "\n"


def _results(all_works: Mapping[str, Work], made: Mapping[str, Made], results: Results) -> Iterator[str]:
    """Yield the machine, the versions and the command of each result that an entry uses."""
    used = dict.fromkeys(name for work in all_works.values() for entry in work.entry for name in entry.results())
    there = {name: result for name in used if (result := results.get(name))}
    if not there:
        return
    yield "## Results"
    yield ""
    yield "| result | measured | machine | versions | repeat |"
    yield "|---|---|---|---|---|"
    for name, result in there.items():
        params = result["params"]
        marks = "; with QUICK=1, which is too few samples to quote" if params.get("quick") else ""
        marks += f"; the run was cut short: {params['cut_short']}" if params.get("cut_short") else ""
        where, versions = _where(result, made[name])
        day = str(params.get("at", "")).partition("T")[0]
        linked = f"[{name}]({results.link(name)})"
        yield f"| {linked} | {day}{marks} | {where} | {versions} | `{made[name].command}` |"
    yield ""
    for name, result in there.items():
        yield from _all_rounds(name, result)


def _where(result: Mapping[str, Any], made: Made) -> tuple[str, str]:
    """Return the machine and the versions of a result: the guest's, where one measured, and its host."""
    machine, known, guest = result["machine"], {**result["versions"], **result["peers"]}, dict(result.get("guest", {}))
    here = f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, {machine['system']}"
    if not made.guest:
        if guest:
            known["in a guest"] = ", ".join(f"{name} {text}" for name, text in guest.items())
        return here, _versions(known)
    # strongSwan and Python of the host have measured nothing.
    tree = {name: text for name, text in known.items() if name == "meshsec"}
    if not guest:
        return f"a guest: {made.guest_then} The host around it: {here}", _versions(tree)
    inside = f"a guest: Linux {guest.pop('kernel')}, {guest.pop('system')}. The host around it: {here}"
    return inside, _versions({**tree, **guest})


def _versions(known: Mapping[str, str]) -> str:
    return ", ".join(text if text.startswith(name) else f"{name} {text}" for name, text in known.items())


def _prose(text: str) -> str:
    return fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"


def _item(text: str) -> str:
    return fill(f"- {text}", COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)

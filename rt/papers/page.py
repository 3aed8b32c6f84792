"""The page: every caption with what the work shows, the picture, both sides' values, and how to repeat ours."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill

from rt.papers.form import Entry, Made, Work
from rt.papers.judge import failed, missing, sayable, sentence, unfit, words
from rt.papers.kept import Results
from rt.papers.picture import draw, drawable

COLUMNS = 100
_INTRODUCTION = """\
# The papers, redrawn

Every table and figure of five works on secured meshes: the work's own values beside ours, from kept
results. {missing}`make papers` draws this page in seconds, without root; the first run in a
checkout needs `make setup`. `QUICK=1 make papers` measures again with few samples, at most three minutes for each
result, as root, and writes build/papers.

**How to read it.** The works' values are those that their texts state. Where a chart's numbers are
not in the text, the entry says so, and nothing is read off the chart. Ours are medians. An interval
is the 95 % confidence interval of the median by order statistics, which assumes no distribution; of
fewer than six samples it is their range; of a quotient it goes from the least to the greatest that
both intervals allow. Samples of one visit to a node are not independent of each other, so that the
interval may be too narrow; the rounds are in the raw data. In pictures, ours are filled and the
works' are hollow; bars are intervals, and dotted lines only guide the eye between the values that a
text states. Axes start at 0 unless their label says logarithmic.

**How it was measured.** All that one result compares was measured alternately in one run, on the
machine that is named below each figure. Others may use its processors, too, so quotients say more
than absolute values. The raw data hold every sample, the machine and the versions (`xz -dc` shows
them). A test checks that this page is what the kept results give, that no caption of a work is
missing, and that each claim behind a sentence holds for the kept figures. The command
`.venv/bin/python -m rt.papers missing` lists what is left to do.
"""


def write(all_works: Mapping[str, Work], made: Mapping[str, Made], results: Results, into: Path) -> list[Path]:
    """Write papers.md and papers/*.svg below a folder, remove other pictures there, and return the paths."""
    pictures = into / "papers"
    written = [into / "papers.md"]
    parts = [_introduction(all_works, results), *_contents(all_works, results)]
    for name, work in all_works.items():
        parts += _work(work)
        for entry in work.entry:
            path = pictures / f"{name}-{entry.id}.svg"
            if drawn := drawable(entry, results):
                draw(work, entry, results, path)
                written.append(path)
            parts += _entry(work, entry, made, results, path.name if drawn else "")
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


def _introduction(all_works: Mapping[str, Work], results: Results) -> str:
    """Return the head of the page, which says how many entries are not measured yet."""
    states = [state(entry, results) for work in all_works.values() for entry in work.entry]
    absent = states.count("not measured yet")
    missing_now = f"Of {len(states)} entries, {absent} are not measured yet, and say so. " if absent else ""
    title, first, *others = _INTRODUCTION.replace("{missing}", missing_now).split("\n\n")
    return "\n\n".join((title, fill(first, COLUMNS), *others))


def _contents(all_works: Mapping[str, Work], results: Results) -> Iterator[str]:
    states = ("measured", "set-up compared", "cannot be had here", "not measured yet")
    yield "| work | entries | " + " | ".join(states) + " |"
    yield "|---|---:|" + "---:|" * len(states)
    for work in all_works.values():
        found = [state(entry, results) for entry in work.entry]
        anchor = work.short.lower().replace(" ", "-")
        counts = " | ".join(str(found.count(one)) for one in states)
        yield f"| [{work.short}](#{anchor}) | {len(found)} | {counts} |"
    yield ""


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


def _entry(work: Work, entry: Entry, made: Mapping[str, Made], results: Results, picture: str) -> Iterator[str]:
    yield f"### {work.short}, {entry.title.lower()}"
    yield ""
    yield _prose(f"**{entry.caption}** ({entry.where}). {entry.shows}")
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
        yield _prose(f"**Here:** {sentence(entry, results)}")
    for claim in failed(entry, results):
        yield _prose(f"These results do not support that sentence: {claim}.")
    for name in entry.results():
        if name not in absent:
            yield _prose(_origin(name, entry, made[name], results))


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


def _origin(name: str, entry: Entry, made: Made, results: Results) -> str:
    result = results.get(name)
    assert result
    machine, params = result["machine"], result["params"]
    known = {**result["versions"], **result["peers"]}
    versions = ", ".join(text if text.startswith(one) else f"{one} {text}" for one, text in known.items())
    day = str(params.get("at", "")).partition("T")[0]
    marks = "; measured with QUICK=1, which is too few samples to quote" if params.get("quick") else ""
    marks += f"; the run was cut short: {params['cut_short']}" if params.get("cut_short") else ""
    used = [selector for selector in entry.selectors() if selector.result == name]
    counts = {len(cell["samples"]) for selector in used for cell in results.cells(selector) or ()}
    n = f"n = {min(counts)}" + (f" to {max(counts)}" if len(counts) > 1 else "") if counts else "no sample"
    return (
        f"*{name}: {n}; {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, {machine['system']}; "
        f"{versions}; {day}{marks}. Repeat: `{made.command}`. [Raw data]({results.link(name)}).*"
    )


def _prose(text: str) -> str:
    return fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"

"""The form of works/NAME.toml, of captions.toml and of results.toml. A file that deviates is refused by file and field.

A work has an entry for every caption. An entry has the work's values, each with the place in its text, and says which
cells of which kept results answer them. A picture is a diagram or panels of series. All of it is data.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Literal, TypeVar

import msgspec

HERE = Path(__file__).parent
WORKS = HERE / "works"
T = TypeVar("T")


class FormError(Exception):
    """A file of the table cannot be used. The message names the file, the field and what is allowed."""


class Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cell of a kept result, or one series of cells."""

    result: str
    """Name of the kept result: kept/NAME.json.xz."""
    key: dict[str, str | int | float | bool]
    """Part of a cell's key; it must fit exactly one cell, or one cell for each place of a panel."""
    unit: str
    over: dict[str, str | int | float | bool] = {}
    """Key of a cell of the same unit; the figure is the quotient of the two medians."""
    less: dict[str, str | int | float | bool] = {}
    """Key of a cell of the same unit; the figure is the difference of the two medians."""
    scale: float = 1.0
    """What our unit is multiplied by to be the work's."""
    per: str = ""
    """The result's parameter that our figure is divided by, such as the seconds of a flow."""

    def __post_init__(self) -> None:
        if self.over and self.less:
            raise ValueError("`over` and `less` together are not allowed; allowed is one of them")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that the work's text states, and what is ours beside it."""

    what: str
    value: float | str | tuple[float, float]
    """A number, a range of two, or words."""
    where: str
    """The place in the text: a section, or a section and a page."""
    unit: str = ""
    name: str = ""
    """What sentences and claims call our figure."""
    ours: Selector | str | None = None
    """The cell that answers it, words where nothing is measured, or nothing."""
    panel: str = ""
    """Identifier of the panel in which it is drawn, with ``series`` and ``at``."""
    series: str = ""
    at: float | str = ""


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure of ours that the sentence needs and that is beside no value of the work."""

    name: str
    what: str
    ours: Selector
    unit: str = ""


class Series(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curve of ours: a cell for each place on the horizontal axis."""

    label: str
    select: Selector
    without: Selector | None = None
    """One cell, drawn as a dashed line across in the same colour: the time without load."""


class Panel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Axes of a picture. Both start at 0 unless they are logarithmic, which their label says."""

    id: str
    across: str
    """Name in the cells' keys of what is on the horizontal axis."""
    across_label: str
    up_label: str
    """With the unit."""
    series: tuple[Series, ...] = ()
    title: str = ""
    kind: Literal["lines", "bars"] = "lines"
    """Bars start at 0. A logarithmic axis has none, so that points are in their place there."""
    log_up: bool = False
    log_across: bool = False


class Box(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A box of a diagram; ``at`` is its centre in boxes' widths and heights from the lower left."""

    name: str
    at: tuple[float, float]
    text: str = ""
    dashed: bool = False


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An arrow or a line between two boxes, or a message between two ends."""

    ends: tuple[str, str]
    text: str = ""
    arrow: bool = True
    dashed: bool = False


class Diagram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network or, if ``sequence``, messages between ends in the order of time."""

    title: str
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...] = ()
    sequence: bool = False


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the sentence rests on: a quotient of two of our figures, or one figure, and its bounds. Tests check it.

    The bounds are of medians. A claim of more (a quotient of at least 1, a difference of at least 0) or of less (at
    most 1, at most 0) holds only if the two intervals do not overlap.
    """

    of: str
    over: str = ""
    at_least: float | None = None
    at_most: float | None = None
    same: bool = False
    """Whether the sentence says that there is no difference beyond the interval; the two intervals must overlap."""

    def __post_init__(self) -> None:
        if self.at_least is None and self.at_most is None and not self.same:
            raise ValueError("a claim without `at_least`, `at_most` and `same` claims nothing; allowed is one at least")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One caption of the work."""

    kind: Literal["figure", "table", "listing", "text"]
    """A listing is output of a program that the work prints without a number; its number is its place in the text. A
    text is a finding that has no caption; its number is its section, and its caption is in our words."""
    number: str
    caption: str
    where: str
    """Section, and page where the text has pages."""
    shows: str
    """What the work shows there, in our words."""
    says: str = ""
    """What the comparison shows, in paragraphs. {name} is our figure of that name with its unit."""
    cannot: str = ""
    """Why it cannot be had here; then the work's values are alone."""
    value: tuple[Value, ...] = ()
    figure: tuple[Figure, ...] = ()
    panel: tuple[Panel, ...] = ()
    diagram: tuple[Diagram, ...] = ()
    claim: tuple[Claim, ...] = ()

    @property
    def id(self) -> str:
        """``figure-8``."""
        return f"{self.kind}-{self.number.lower()}"

    @property
    def title(self) -> str:
        """``Figure 8``, or ``Section 6`` of a text."""
        if self.kind == "text":
            return f"Section {self.number}"
        return f"{self.kind.capitalize()} {self.number}"

    @property
    def quoted(self) -> str:
        """The work's caption in quotation marks; what has none there says so."""
        if self.kind == "text":
            return f"{self.caption} (in our words)"
        return f"{self.caption} (no caption)" if self.kind == "listing" else f'"{self.caption}"'

    @property
    def named(self) -> tuple[Value | Figure, ...]:
        """All that may be answered by a figure of ours."""
        return (*self.value, *self.figure)

    def selectors(self) -> Iterator[Selector]:
        """Yield all that the entry takes from kept results."""
        for value in self.named:
            if isinstance(value.ours, Selector):
                yield value.ours
        for panel in self.panel:
            for series in panel.series:
                yield series.select
                if series.without:
                    yield series.without

    def results(self) -> list[str]:
        """Return the names of the kept results that it takes something from, each once, in its order."""
        return list(dict.fromkeys(selector.result for selector in self.selectors()))


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the set-up: theirs beside ours."""

    what: str
    theirs: str
    ours: str
    where: str


class Work(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A work and all its captions."""

    short: str
    """``Uno and Oguchi 2007``."""
    citation: str
    about: str
    """What it asks, and how we ask it again."""
    entry: tuple[Entry, ...]
    setup: tuple[Fact, ...] = ()
    found: str = ""
    """What it found, for the summary."""
    ours: str = ""
    """What ours shows, for the summary. Claims of the entries in ``rests_on`` support it."""
    rests_on: tuple[str, ...] = ()
    """Identifiers of entries that have claims."""

    @property
    def year(self) -> str:
        """The last word of its short name."""
        return self.short.split()[-1]


class Made(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a kept result is measured."""

    command: str
    """What repeats it, from the repository's root."""
    minutes: int
    """How long that takes in full; with QUICK=1 it ends in under three minutes."""
    root: bool = True
    """Whether that needs root."""
    quick: bool = True
    """Whether QUICK=1 make papers runs it; one that takes long even with QUICK=1 is left out."""
    guest: bool = False
    """Whether it is measured in a guest, so that the result must say what the guest was."""
    guest_then: str = ""
    """What the guest was, of a result that was kept before guests were asked, as far as it is known."""


Captions = Mapping[str, Mapping[str, str]]
"""For each work the caption by ``figure 8``."""


def works() -> dict[str, Work]:
    """Return all works by the name of their file, the oldest first. Raises FormError."""
    found = {path.stem: work(path) for path in sorted(WORKS.glob("*.toml"))}
    return dict(sorted(found.items(), key=lambda item: item[1].year))


def work(path: Path) -> Work:
    """Return a work. Raises FormError, also if a sentence or claim uses a name that no value has."""
    found = _read(path, Work)
    for entry in found.entry:
        if wrong := list(_unknown(entry)):
            raise FormError(f"{path.name}: {entry.title}: {'; '.join(wrong)}")
    claiming = [entry.id for entry in found.entry if entry.claim]
    if wrong := sorted({*found.rests_on} - {*claiming}):
        raise FormError(f"{path.name}: rests_on: {', '.join(wrong)} is not allowed; allowed are {', '.join(claiming)}")
    return found


def captions(path: Path = HERE / "captions.toml") -> Captions:
    """Return the captions that the works have, typed from the works and not from our entries."""
    return _read(path, dict[str, dict[str, str]])


def results(path: Path = HERE / "results.toml") -> Mapping[str, Made]:
    """Return how each result is measured, by its name."""
    return _read(path, dict[str, Made])


def _unknown(entry: Entry) -> Iterator[str]:
    """Yield what sentences, claims and values name and the entry does not have."""
    names = {value.name for value in entry.named if value.name}
    panels = {panel.id for panel in entry.panel}
    in_sentence = {field for _, field, _, _ in Formatter().parse(entry.says) if field is not None}
    in_claims = {name for claim in entry.claim for name in (claim.of, claim.over) if name}
    for field, used in (("says", in_sentence), ("claim", in_claims)):
        if used - names:
            yield f"{field}: {', '.join(sorted(used - names))} is not allowed; allowed are {', '.join(sorted(names))}"
    for value in entry.value:
        if value.panel and value.panel not in panels:
            yield f"value {value.what!r}: panel {value.panel!r} is not allowed; allowed are {', '.join(sorted(panels))}"


def _read(path: Path, form: type[T]) -> T:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=form)
    except (OSError, msgspec.DecodeError) as error:
        raise FormError(f"{path.name}: {error}") from error

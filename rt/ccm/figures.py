"""The plots of bench-ccm: one message with and without AES instructions, messages over UDP, and the bare machine."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rt.ccm import paper
from rt.measure.plot import decimal, footer, marked, page, points
from rt.measure.results import Cell, Result, machine, percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WITH, WITHOUT = "AES instructions", "no AES instructions"
LOOPBACK = "UDP on loopback"
GUEST = "guest"
BARE, BARE_WITHOUT = "bare machine", "bare machine without AES instructions"
_PANELS = [(where, what) for where in (WITH, WITHOUT) for what in ("encryption", "decryption")]
_LENGTHS = "tag of 8 octets, nonce of 13"
_BARS = "Bars hold the middle half of the samples"
_PLAIN = "plain"
_PAPER = {"2016: bare machine, Ethernet": "bare", "2016: OpenSSL, Ethernet": "Linux"}
Curves = dict[str, dict[int, list[float]]]


def draw(result: Result) -> None:
    """Draw build/bench/ccm, ccm-udp and ccm-bare, each as SVG and PNG; what was not measured is left out.

    Bars hold the middle half of the samples, because other programs on the machine make some of them very slow.
    """
    if messages := [panel for panel in _PANELS if _per_octet(result.cells, *panel)]:
        title = marked(f"AES-CCM beside other AEADs, by size ({_LENGTHS})\n{_BARS}; {_where(result)}", result)
        with page(result.name, title, (13.0, 11.0), _footer(result, WITH), nrows=2, ncols=2) as axes:
            for one, (where, what) in zip(axes, messages, strict=False):
                _by_size(one, _per_octet(result.cells, where, what), "ns per octet (less is better)")
                one.set_title(f"{what}, {where}")
    if any(cell.key["where"] == LOOPBACK for cell in result.cells):
        title = (
            f"1000 messages over UDP on loopback ({_LENGTHS})\n{_BARS}, those of 2016 both other ends; {_where(result)}"
        )
        title = marked(title, result)
        with page(f"{result.name}-udp", title, (13.0, 6.0), _footer(result, LOOPBACK), ncols=2) as axes:
            for one, what in zip(axes, ("sending", "receiving"), strict=True):
                _messages(one, result.cells, what)
    if bare := _bare(result.cells):
        title = marked(f"AES-CCM on a bare machine that QEMU emulates ({_LENGTHS})", result)
        with page(f"{result.name}-bare", title, (13.0, 6.0), _footer(result, BARE)) as axes:
            _by_size(axes[0], bare, "emulated instructions per octet (no time)")


def _footer(result: Result, where: str) -> str:
    return footer([cell for cell in result.cells if str(cell.key["where"]).startswith(where)])


def _where(result: Result) -> str:
    """Say where it was measured, and how often."""
    rounds = max(len(cell.samples) for cell in result.cells if cell.unit == "ns")
    return f"{machine()['cpu']}, {result.peers.get('OpenSSL', 'OpenSSL')[:14]}, n = {rounds}"


def _by_size(axes: "Axes", curves: Curves, up: str) -> None:
    points(axes, curves, "octets of the message", up)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted({octets for curve in curves.values() for octets in curve}))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.tick_params(axis="x", labelrotation=45)
    decimal(axes.yaxis)


def _per_octet(cells: Iterable[Cell], where: str, what: str) -> Curves:
    curves: Curves = {}
    for cell in cells:
        if cell.unit == "ns" and (cell.key["where"], cell.key["what"]) == (where, what):
            octets = _octets(cell)
            curves.setdefault(str(cell.key["by"]), {})[octets] = [value / octets for value in _middle(cell)]
    return curves


def _bare(cells: Iterable[Cell]) -> Curves:
    curves: Curves = {}
    for cell in cells:
        if cell.key["where"] in (BARE, BARE_WITHOUT):
            label = f"{cell.key['what']}, {WITH if cell.key['where'] == BARE else WITHOUT}"
            curves.setdefault(label, {})[_octets(cell)] = [value / _octets(cell) for value in cell.samples]
    return curves


def _messages(axes: "Axes", cells: Iterable[Cell], what: str) -> None:
    curves: Curves = {}
    for cell in cells:
        if cell.key["where"] == LOOPBACK and str(cell.key["what"]).startswith(what):
            curves.setdefault(str(cell.key["by"]) or _PLAIN, {})[_octets(cell)] = _middle(cell)
    # The ciphers come first, so that they have the colours of the other figure.
    curves[_PLAIN] = curves.pop(_PLAIN)
    for label, end in _PAPER.items():
        curves[label] = paper.curve(end, f"{what}, sealed")
    points(axes, curves, "octets of the message", "ms for 1000 messages (less is better)")
    axes.set_title(what)
    axes.set_yscale("log")
    decimal(axes.yaxis)


def _middle(cell: Cell) -> list[float]:
    ordered = sorted(cell.samples)
    return [percentile(ordered, percent) for percent in (25, 50, 75)]


def _octets(cell: Cell) -> int:
    return int(str(cell.key["octets"]))

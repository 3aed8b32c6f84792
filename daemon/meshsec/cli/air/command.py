"""``meshsec air``: listen to a monitor interface or read a capture file, and split every exchange into its parts."""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meshsec import files
from meshsec.cli.air.naming import names as names_of
from meshsec.cli.air.sources import File, Interface, Source
from meshsec.cli.air.tables import heading, line, print_air
from meshsec.cli.app import DEGRADED, App
from meshsec.cli.output import json_option, print_json
from meshsec.core.air.exchange import Exchange
from meshsec.core.air.pictures import pictures
from meshsec.core.air.report import Air
from meshsec.core.air.summary import Names

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

_REFRESH = 2.0
"""Seconds between two tables on a terminal, and until names are asked for again."""
_LONG = 8 << 20
"""Bytes of a file that takes some seconds."""
_MOST_LISTED = 100_000
"""Exchanges in one JSON document."""
_MODE = 0o644


@click.command
@click.argument("interface", required=False)
@click.option(
    "--read",
    "file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Read a capture file instead; - is standard input.",
)
@click.option("--seconds", type=click.FloatRange(0.1), help="How long to listen; without it, until interrupted.")
@click.option("--exchanges", "listed", is_flag=True, help="List each exchange.")
@click.option(
    "--plot", "directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Draw pictures there."
)
@json_option
@click.pass_obj
@click.pass_context
def air(  # noqa: PLR0913, PLR0917  # one for each option
    ctx: click.Context,
    app: App,
    interface: str | None,
    file: Path | None,
    seconds: float | None,
    listed: bool,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Show what happens on the air, from monitor interface INTERFACE or a capture file.

    Each exchange of 802.11 is split into access delay, RTS/CTS, data, acknowledgement and retries, and summed up by
    neighbour. On a terminal the table is refreshed until interrupted. Capture files are pcap or pcapng with radiotap
    headers; --read - reads a stream. An interface needs CAP_NET_RAW; this reads frames without it:

    sudo tcpdump -i mon0 -U -w - | meshsec air --read -

    Exits with 3 when only a part of the capture could be read, or nothing was heard.
    """
    if (interface is None) == (file is None):
        raise click.UsageError("Name either a monitor interface or, with --read, a capture file.")
    if file is not None and seconds is not None:
        raise click.UsageError("--seconds is for an interface; a file is read to its end.")
    source: Source = File(file) if file is not None else Interface(str(interface), seconds)
    view = _View(app, source, listed=listed, as_json=as_json)
    with suppress(KeyboardInterrupt):
        view.run()
    view.end()
    if directory is not None:
        _draw(view, directory)
    if source.cut or not view.air.assembler.counts.frames:
        ctx.exit(DEGRADED)


@dataclass
class _View:
    """What is shown of a source."""

    app: App
    source: Source
    listed: bool
    as_json: bool
    air: Air = field(default_factory=Air)
    names: Names = field(default_factory=dict)
    _kept: list[Exchange] = field(default_factory=list)
    _shown: float = 0.0

    def run(self) -> None:
        """Take all packets, and show them meanwhile where somebody watches."""
        self.names = names_of(self.app)
        if self.listed and not self.as_json:
            click.echo(heading())
        watched = self.source.live and not self.as_json and not self.listed and sys.stdout.isatty()
        with self._progress() as progress:
            for packets in self.source.batches():
                self._take(self.air.take(packets))
                progress.update(self.source.done - progress.pos)
                if watched and time.monotonic() >= self._shown + _REFRESH:
                    self._refresh()

    def _progress(self) -> "ProgressBar[int]":
        """Return a bar on standard error, which is only seen on a terminal, and where a file takes its time."""
        hidden = self.source.size < _LONG or self.listed
        return click.progressbar(length=max(self.source.size, 1), label="reading", file=sys.stderr, hidden=hidden)

    def end(self) -> None:
        """Show all that was seen."""
        self._take(self.air.finish())
        document = self._document()
        if self.as_json:
            print_json(document)
            return
        if self.listed:
            click.echo()
        print_air(document)

    def _take(self, exchanges: Iterable[Exchange]) -> None:
        for one in exchanges:
            if self.listed and not self.as_json:
                click.echo(line(one, self.names))
            elif self.listed and len(self._kept) < _MOST_LISTED:
                self._kept.append(one)

    def _refresh(self) -> None:
        self._shown = time.monotonic()
        self.names = names_of(self.app) or self.names
        click.clear()
        print_air(self._document())

    def _document(self) -> dict[str, object]:
        about = {
            "interface": self.source.interface,
            "file": self.source.file,
            "cut": self.source.cut,
            "lost": self.source.lost,
        }
        kept = sorted(self._kept, key=lambda one: one.start) if self.listed and self.as_json else None
        return dict(self.air.document(about, self.names, kept))


def _draw(view: _View, directory: Path) -> None:
    """Write the pictures, and say which."""
    drawn = pictures(view.air.summary, view.names, view.air.microseconds / 1e6)
    try:
        files.make_directory(directory)
        for name, content in drawn.items():
            files.write(directory / name, content.encode(), _MODE)
    except files.FileError as error:
        raise click.ClickException(f"{error}; name another directory: --plot DIR") from error
    written = ", ".join(drawn) or "nothing: there was no exchange with one receiver"
    click.echo(f"drawn in {directory}: {written}", err=True)

"""The demo's output: a live picture on a terminal, plain lines elsewhere."""

import io
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

Picture = Callable[[], RenderableType]
WIDTH = 110


class Screen:
    """Steps with their outcome, and below them the picture of the mesh while it changes."""

    _REFRESH_SECONDS = 0.5

    def __init__(self, console: Console, picture: Picture) -> None:
        self.console = console
        self._picture = picture
        self._steps: list[Text] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            live = Live(console=self.console, auto_refresh=False, get_renderable=self.render, transient=True)
            self._stack.enter_context(live)
            refresher = threading.Thread(target=self._refresh, args=(live,), daemon=True)
            refresher.start()
            self._stack.callback(refresher.join)
            self._stack.callback(self._stop.set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def step(self, text: str) -> None:
        """Show a new step; the earlier ones are done."""
        with self._lock:
            if self._steps:
                self._steps[-1].stylize("dim")
            self._steps.append(Text(f"• {text}"))
        if not self.console.is_terminal:
            self.console.print(text)

    def render(self) -> RenderableType:
        """Return the steps and the picture."""
        with self._lock:
            return Group(*self._steps, Text(), self._picture())

    def _refresh(self, live: Live) -> None:
        while not self._stop.wait(self._REFRESH_SECONDS):
            live.refresh()


def save_svg(picture: RenderableType, path: Path) -> None:
    """Save the final screen as a picture for the README."""
    recorder = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    recorder.print(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recorder.export_svg(title="make demo"), encoding="utf-8")


def table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """Return a table in the demo's style."""
    made = Table(title=title, title_justify="left", title_style="bold", expand=False, header_style="cyan")
    for column in columns:
        made.add_column(column, no_wrap=True, justify="right" if column.endswith("ms") else "left")
    for row in rows:
        made.add_row(*row)
    return made


def verdict(problems: list[str], lines: list[str]) -> Panel:
    """Return the panel of the summary."""
    body = lines if not problems else [*lines, *(f"[red]{problem}[/red]" for problem in problems)]
    title = "[red]failed[/red]" if problems else "[green]the mesh secured itself[/green]"
    return Panel("\n".join(body), title=title, border_style="red" if problems else "green", width=WIDTH)

"""``meshsec help``: the documents of the package, to be read where the node is."""

import re
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

import click

import meshsec

DIRECTORIES = (
    Path(meshsec.__file__).parents[2] / "docs",
    Path(sys.prefix, "share/doc/meshsec/docs"),
    Path("/usr/local/share/doc/meshsec/docs"),
    Path("/usr/share/doc/meshsec/docs"),
)
"""Where the documents are: in a checkout, or where an installation puts them."""
_ROOMS = ("guide", "reference", "explanation")
"""What is for readers; docs/development is for whoever changes the code."""
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\([^)]*\)")
"""A link of Markdown, whose text may have brackets of its own."""


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def help_(ctx: click.Context, topic: str | None) -> None:
    """Print a document about a topic; without one the list of topics.

    The documents come with the package, so no internet is needed. `meshsec COMMAND --help` explains a command.
    """
    topics = _topics()
    if topic is None:
        _print_list(topics)
        return
    if topic not in topics:
        near = get_close_matches(topic, topics, n=1)
        hint = f" Perhaps {near[0]!r} is meant." if near else ""
        raise click.UsageError(f"there is no document about {topic!r}.{hint} `meshsec help` lists the topics", ctx)
    click.echo_via_pager(_for_terminal(topics[topic].read_text(encoding="utf-8")))


def _topics() -> Mapping[str, Path]:
    """Return the documents by topic, in the order of their rooms. Raises ClickException when there are none.

    A name that an earlier room has, too, is a topic with its room: ``reference/systemd``.
    """
    directory = next((one for one in DIRECTORIES if (one / "guide").is_dir()), None)
    if directory is None:
        tried = ", ".join(map(str, DIRECTORIES[1:]))
        raise click.ClickException(
            f"the documents are not there; looked for in {tried}. Where dpkg leaves documents out, `apt-get -o "
            "Dpkg::Options::=--path-include=/usr/share/doc/meshsec/* install --reinstall meshsec` brings them"
        )
    found: dict[str, Path] = {}
    for room in _ROOMS:
        for path in sorted((directory / room).glob("*.md")):
            found[f"{room}/{path.stem}" if path.stem in found else path.stem] = path
    return found


def _print_list(topics: Mapping[str, Path]) -> None:
    width = max(map(len, topics))
    room = ""
    for topic, path in topics.items():
        if path.parent.name != room:
            room = path.parent.name
            click.echo(f"{click.style(room.capitalize(), bold=True)}")
        click.echo(f"  {topic:<{width}}  {_title(path)}")


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("#").strip()


def _for_terminal(text: str) -> str:
    """Return a document without the marks that only a browser needs. Its lines are at most 100 characters already."""
    parts = re.split(r"(^```.*?^```$)", _without_links(text), flags=re.DOTALL | re.MULTILINE)
    return "".join(_code(part) if part.startswith("```") else _prose(part) for part in parts)


def _without_links(text: str) -> str:
    return _LINK.sub(r"\1", text)


def _code(block: str) -> str:
    return "".join(f"    {line}\n" for line in block.splitlines()[1:-1]).rstrip("\n")


def _prose(text: str) -> str:
    text = re.sub(r"^#+ (.*)$", lambda found: click.style(found[1], bold=True), text, flags=re.MULTILINE)
    return re.sub(r"\*\*(.+?)\*\*", lambda found: click.style(found[1], bold=True), text, flags=re.DOTALL)

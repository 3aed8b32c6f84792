"""Makes the manual pages and the shell completions from the commands' own help: ``python -m meshsec.cli.docs DIR``."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from meshsec import __version__
from meshsec.cli.app import main as cli
from meshsec.daemon import main as daemon
from meshsec.page import main as page
from meshsec.radio import main as radio

_COMPLETIONS = {"bash": "meshsec", "zsh": "_meshsec", "fish": "meshsec.fish"}
"""File name for each shell, as its completion loader wants it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A program that has a manual page."""

    name: str
    section: int
    purpose: str
    command: click.Command


PAGES = (
    Page("meshsec", 1, "secure a mesh: trust peers by their cards", cli),
    Page("meshsecd", 8, "keeps an IPsec channel to every trusted peer in reach", daemon),
    Page("meshsec-page", 8, "shows this node in the browser", page),
    Page("meshsec-radio", 8, "brings a wireless interface into the mesh and keeps it there", radio),
)


def write(directory: Path) -> list[Path]:
    """Write ``man/NAME.SECTION`` and ``completions/SHELL/FILE`` below ``directory``; returns the files."""
    pages = {directory / "man" / f"{page.name}.{page.section}": manual(page) for page in PAGES}
    pages |= {directory / "completions" / shell / name: completion(shell) for shell, name in _COMPLETIONS.items()}
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(pages)


def completion(shell: str) -> str:
    """Return the script that a shell sources."""
    made = get_completion_class(shell)
    if made is None:
        raise ValueError(f"no completion for {shell!r}; allowed: {', '.join(_COMPLETIONS)}")
    return made(cli, {}, "meshsec", "_MESHSEC_COMPLETE").source()


def manual(page: Page) -> str:
    """Return a program's manual page, in roff's man macros (groff_man(7))."""
    context = click.Context(page.command, info_name=page.name)
    group = isinstance(page.command, click.Group)
    lines = [
        f'.TH {page.name.upper()} {page.section} "" "meshsec {__version__}"',
        ".SH NAME",
        f"{page.name} \\- {_escaped(page.purpose)}",
        ".SH SYNOPSIS",
        f".B {page.name}\n{_escaped(' '.join(page.command.collect_usage_pieces(context)))}",
        ".SH DESCRIPTION",
        *_paragraphs(page.command.help or ""),
        ".SH OPTIONS",
        *_options(context),
        *([".SH COMMANDS", *(line for command in _commands(context) for line in _command(command))] if group else []),
        ".SH FILES",
        *_files(),
        ".SH SEE ALSO",
        "meshsec(1), meshsecd(8), meshsec-page(8), meshsec-radio(8), olsrv2d(8), nft(8)",
    ]
    return "\n".join(lines) + "\n"


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Return all commands that do something, in the order of the help."""
    group = context.command
    if not isinstance(group, click.Group):
        yield context
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            yield from _commands(click.Context(command, info_name=name, parent=context))


def _command(context: click.Context) -> list[str]:
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    return [f".SS {_escaped(usage)}", *_paragraphs(context.command.help or ""), *_options(context)]


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record and "--help" not in parameter.opts:
            yield from (".TP", f".B {_escaped(record[0])}", _escaped(record[1]))


def _paragraphs(text: str) -> Iterator[str]:
    """Click's help: paragraphs, of which one that begins with a backspace keeps its lines."""
    for paragraph in text.split("\n\n"):
        yield ".PP"
        lines = [_escaped(line.strip()) for line in paragraph.splitlines() if line.strip("\b ")]
        if "\b" in paragraph:
            yield from (".nf", *lines, ".fi")
        else:
            yield " ".join(lines)


def _files() -> Iterator[str]:
    for path, purpose in (
        ("/etc/meshsec/meshsec.toml", "The configuration."),
        ("/etc/meshsec/peers/NAME.card", "The card of a trusted peer."),
        ("/var/lib/meshsec/node.key", "The node's private key; never leaves the node."),
        ("/var/lib/meshsec/node.key.sealed", "The key as only this machine's TPM opens it, after `meshsec key seal`."),
        ("/run/meshsec/control.sock", "Where meshsecd answers; for root and the group meshsec."),
        ("/run/meshsec/view.sock", "Where meshsecd answers those who only look; for root and the group meshsec-view."),
    ):
        yield from (".TP", f".I {path}", purpose)


def _escaped(text: str) -> str:
    """Text as roff takes it literally."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-").replace("\b", ""))


if __name__ == "__main__":
    for made in write(Path(sys.argv[1])):
        click.echo(made)

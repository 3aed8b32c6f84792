"""`python -m kernelconfig`: the commands behind `make kernel-check`, `make kernel-config` and `make kernel-dissect`.

Exit status: 0 everything required is there (or every symbol took), 1 not, 2 wrong usage or an unusable file.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console

from kernelconfig import files, report
from kernelconfig.dependencies import Entry, selectors, unmet
from kernelconfig.dissect import commands
from kernelconfig.fragments import Setting, union
from kernelconfig.syntax import ConfigSyntaxError, Configuration, written
from kernelconfig.verdict import judge

_UNUSABLE = 2


class _Commands(click.Group):
    """Commands whose errors about files are messages, not traces."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (files.UnreadableError, ConfigSyntaxError) as error:
            click.echo(f"kernelconfig: {error}", err=True)
            ctx.exit(_UNUSABLE)


@click.group(cls=_Commands)
def main() -> None:
    """What meshsec needs of a kernel's configuration, and what a driver asks of the kernel."""


@main.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def check(config: Path | None, *, as_json: bool) -> None:
    """Tell what CONFIG (plain or gzip; default: the running kernel's) lacks, what is risky, and why."""
    path = config or files.running_kernel()
    configuration = files.read_configuration(path)
    verdict = judge(files.read_fragments(), configuration)
    if as_json:
        click.echo(report.as_json(verdict, configuration, str(path)))
    else:
        report.show(verdict, configuration, str(path), Console())
    sys.exit(0 if verdict.passed else 1)


@main.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("settings", type=click.Path(path_type=Path), nargs=-1)
def taken(config: Path, source: Path, settings: tuple[Path, ...]) -> None:
    """Tell which symbols of the fragments and of the files SETTINGS did not take in CONFIG, and why.

    CONFIG was made by `olddefconfig` in SOURCE.
    """
    configuration = files.read_configuration(config)
    merged: list[tuple[Setting, ...]] = [files.read_fragments(), *map(files.read_settings, settings)]
    wanted = union(merged)
    lost = [setting for setting in wanted if not setting.is_met_by(configuration.value(setting.symbol))]
    definitions = files.read_definitions(source) if lost else []
    for setting in lost:
        click.echo(f"did not take: {_not_taken(setting, definitions, configuration)}", err=True)
    click.echo(f"{config}: {len(wanted) - len(lost)} of {len(wanted)} symbols as wanted")
    sys.exit(1 if lost else 0)


def _not_taken(setting: Setting, definitions: Iterable[Entry], configuration: Configuration) -> str:
    symbol, value = setting.symbol, setting.value
    found = configuration.value(symbol)
    wanted = f"{setting.fragment}:{setting.line}: {written(symbol, value)} (it is {found})"
    return f"{wanted}: {_cause(symbol, value, definitions, configuration)}"


def _cause(symbol: str, value: str, definitions: Iterable[Entry], configuration: Configuration) -> str:
    if not any(entry.symbol == symbol for entry in definitions):
        return "this kernel's source does not know the symbol"
    if value == "n" and (names := selectors(symbol, definitions, configuration)):
        return f"selected by {', '.join(names)}"
    if value != "n" and (conditions := unmet(symbol, definitions, configuration)):
        return f"unmet: {'; '.join(conditions)}"
    return "its own conditions are met: another line or a condition elsewhere changes it (`make menuconfig`, search: /)"


main.add_command(commands.dissect)
main.add_command(commands.ran)

if __name__ == "__main__":
    main(prog_name="kernelconfig")

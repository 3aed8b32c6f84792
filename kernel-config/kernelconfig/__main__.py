"""`python -m kernelconfig`: the commands behind `make kernel-check` and `make kernel-config`.

Exit status: 0 everything required is there (or every symbol took), 1 not, 2 wrong usage or an unusable file.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console

from kernelconfig import files, report
from kernelconfig.dependencies import Entry, selectors, unmet
from kernelconfig.syntax import ConfigSyntaxError, Configuration, written
from kernelconfig.verdict import Finding, judge

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
    """What meshsec needs of a kernel's configuration."""


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
def taken(config: Path, source: Path) -> None:
    """Tell which symbols of the fragments did not take in CONFIG, made by `olddefconfig` in SOURCE, and why."""
    configuration = files.read_configuration(config)
    verdict = judge(files.read_fragments(), configuration)
    definitions = files.read_definitions(source) if verdict.findings else []
    for finding in verdict.findings:
        click.echo(f"did not take: {_not_taken(finding, definitions, configuration)}", err=True)
    click.echo(f"{config}: {verdict.checked - len(verdict.findings)} of {verdict.checked} symbols as wanted")
    sys.exit(1 if verdict.findings else 0)


def _not_taken(finding: Finding, definitions: Iterable[Entry], configuration: Configuration) -> str:
    want = finding.want
    wanted = f"{want.fragment}:{want.line}: {written(want.symbol, want.value)} (it is {finding.found})"
    return f"{wanted}: {_cause(want.symbol, want.value, definitions, configuration)}"


def _cause(symbol: str, value: str, definitions: Iterable[Entry], configuration: Configuration) -> str:
    if not any(entry.symbol == symbol for entry in definitions):
        return "this kernel's source does not know the symbol"
    if value == "n" and (names := selectors(symbol, definitions, configuration)):
        return f"selected by {', '.join(names)}"
    if value != "n" and (conditions := unmet(symbol, definitions, configuration)):
        return f"unmet: {'; '.join(conditions)}"
    return "its own conditions are met: another line or a condition elsewhere changes it (`make menuconfig`, search: /)"


if __name__ == "__main__":
    main(prog_name="kernelconfig")

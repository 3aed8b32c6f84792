"""Puts a module's anatomy together from its file, its kernel, this project's files and a recording."""

from dataclasses import dataclass
from pathlib import Path

from kernelconfig import files
from kernelconfig.dissect import elf, grouping, options, provider, recording, unpack
from kernelconfig.dissect.anatomy import Anatomy
from kernelconfig.dissect.options import Project
from kernelconfig.dissect.provider import Tree
from kernelconfig.dissect.recording import Recording

_HERE = Path(__file__).parent
DISSERTATION = _HERE / "agosto-padilla-2016.toml"
TRIM = files.FRAGMENTS.parent / "trim.config"
PACKAGE = files.FRAGMENTS.parent / "package.config"


@dataclass(frozen=True)
class Sources:
    """What modules are compared with."""

    project: Project
    kernel: Path | None
    machine: str
    """This machine's, as uname -m has it."""
    recording: Recording | None


def sources(kernel: Path | None, machine: str, config: Path | None, ran: Path | None) -> Sources:
    """Return what modules are compared with. Raises UnreadableError and ConfigSyntaxError."""
    merged = [files.read_fragments(), files.read_settings(TRIM), files.read_settings(PACKAGE)]
    settings = {setting.symbol: setting for entries in merged for setting in entries}
    rules = grouping.parse((_HERE / "subsystems.toml").read_text(encoding="utf-8"))
    project = Project(rules, settings, files.read_configuration(config) if config else None)
    return Sources(project, kernel, machine, _recording(ran) if ran else None)


def dissect(path: Path, given: Sources) -> Anatomy:
    """Return all that is found out about a module. Raises UnreadableError."""
    module = elf.read(path)
    tree = provider.tree_of(module, given.kernel, given.machine)
    providers = {symbol: tree.provider(symbol) for symbol in module.undefined} if isinstance(tree, Tree) else {}
    needs = grouping.needed(module, providers, given.project.rules)
    below = tree.needs.get(module.name, ()) if isinstance(tree, Tree) else ()
    return Anatomy(
        module=module,
        kernel=str(tree.directory) if isinstance(tree, Tree) else "",
        note=tree.source if isinstance(tree, Tree) else tree,
        below=below,
        needs=needs,
        options=options.compare(module.name, below or module.depends, needs, given.project),
        run=_run(module.name, given.recording),
    )


def _run(name: str, recorded: Recording | None) -> recording.Run | None:
    return recorded.of(name) if recorded else None


def _recording(path: Path) -> Recording:
    try:
        return recording.parse(unpack.read_bounded(path).decode("utf-8", "replace"))
    except recording.RecordingError as error:
        raise files.UnreadableError(f"{path}: {error}") from error

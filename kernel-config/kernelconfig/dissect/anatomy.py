"""All that is found out about one module. Values without I/O."""

from dataclasses import dataclass

from kernelconfig.dissect.grouping import Needed
from kernelconfig.dissect.module import Module
from kernelconfig.dissect.options import Option
from kernelconfig.dissect.recording import Run


@dataclass(frozen=True)
class Anatomy:
    """One module, with what its kernel and this project's files say about it."""

    module: Module
    kernel: str
    """The directory of the kernel's modules; empty when it is not at hand."""
    note: str
    """The file that says what the kernel exports; or why providers are not known."""
    below: tuple[str, ...]
    """All modules that it needs, directly or not."""
    needs: tuple[Needed, ...]
    options: tuple[Option, ...]
    run: Run | None
    """Which of its functions ran, when that was recorded."""

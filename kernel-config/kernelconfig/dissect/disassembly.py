"""Instructions and calls of a module, counted in what binutils' objdump prints."""

import re
import shutil
import subprocess
import tempfile
import threading

from kernelconfig.dissect.module import Code

_PROGRAM = "objdump"
_SECONDS = 120.0
"""Until objdump is stopped; it takes 20 s for the largest module."""
_LINE = re.compile(rb"^ *[0-9a-f]+:\t[^\t]*\t(\S+)")
_CALLS = frozenset({b"call", b"callq", b"bl", b"blr", b"jal", b"jalr", b"blx", b"brasl"})


def count(content: bytes) -> Code | str:
    """Return the instructions and calls in a module's ELF bytes, or why they could not be counted."""
    if shutil.which(_PROGRAM) is None:
        return f"{_PROGRAM} is not installed: apt-get install binutils"
    with tempfile.NamedTemporaryFile(suffix=".ko") as file:
        file.write(content)
        file.flush()
        argv = [_PROGRAM, "--disassemble", file.name]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            stop = threading.Timer(_SECONDS, process.kill)
            stop.start()
            try:
                code = _counted(process)
            finally:
                stop.cancel()
                process.kill()
    if process.returncode != 0 or not code.instructions:
        return f"{_PROGRAM} does not know this machine's code: apt-get install binutils-multiarch"
    return code


def _counted(process: subprocess.Popen[bytes]) -> Code:
    instructions = calls = 0
    for line in process.stdout or ():
        if found := _LINE.match(line):
            instructions += 1
            calls += found[1] in _CALLS
    process.wait()
    return Code(instructions, calls)

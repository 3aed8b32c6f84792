"""A node that is lost, inside the guest: with all of its keys in use, then without them. The host looks on.

Nothing here reads a key, so that a search of the memory does not find the copy of the program that searches.
"""

import sys
import time
from pathlib import Path

from tests.lab.basics.places import BUILD
from tests.lab.basics.shell import run
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.options import Options

OPTIONS = Options(ipv4=True, overlay=True, signatures="prefer")
DISK = "/dev/vdb"
IN_USE, GO_ON, DESTROYED, END = "in-use", "go-on", "destroyed", "end"
"""Files by which guest and host wait for each other."""


def main(shared: Path) -> None:
    """Have the keys in use, let the host look, destroy them, and let the host look again."""
    place = BUILD / "lab"
    place.mkdir(parents=True)
    run(["mount", DISK, str(place)])
    with Lab("lost", line(names(2)), OPTIONS) as lab:
        lab.set_up().trust_all().start()
        lab.wait_full_mesh()
        a = lab["a"]
        run(["sync"])
        (shared / IN_USE).write_text(str((a.var / "node.key").relative_to(place)), encoding="utf-8")
        _wait(shared / GO_ON)
        began = time.monotonic()
        done = a.meshsec("zeroize", "--yes-destroy-keys")
        (shared / DESTROYED).write_text(f"{time.monotonic() - began:.2f} s: {done.stdout}", encoding="utf-8")
        _wait(shared / END)
    run(["umount", str(place)])


def _wait(path: Path) -> None:
    while not path.exists():
        time.sleep(0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

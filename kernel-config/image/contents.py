"""What an image contains of others: lists (SBOM) and licence notices, as our Debian packages have them.

In the image they are where the packages put them. The list of the whole image, with Debian's packages, is beside it.
"""

from pathlib import Path

from image import raspberry, root
from image.architecture import Architecture
from image.disk import Identity
from image.shell import StepError, run

AUDIT = root.REPOSITORY / "build/audit/tools/bin/python"
"""The Python that has CycloneDX's library."""
REPORT = root.REPOSITORY / "build/package/report.json"
"""Where tools/install has pip write of which files the Python packages are."""
SUFFIX = ".cdx.json"
OWN = "meshsec"
PROGRAMS = {"meshsec-olsrv2d": ("olsrv2d", "olsrv2-signer"), "meshsec-overlayd": ("overlayd",)}
"""Our packages, with the compiled programs of each."""
_IMAGE = "meshsec-vehicle-image"
_SITE = "usr/lib/meshsec"
_FIELDS = "${Package}\\t${Version}\\t${Architecture}\\t${source:Package}\\n"


def check() -> None:
    """Raise StepError unless the lists can be made."""
    if not AUDIT.exists():
        raise StepError(f"{AUDIT}: CycloneDX's library is not installed; `tools/setup audit` installs it")


def add(tree: Path, target: Path, work: Path, wanted: Architecture, identity: Identity) -> None:
    """Put the lists and notices into the root ``tree``, and the list of the whole image to ``target``."""
    triple = f"{wanted.machine}-unknown-linux-gnu"
    for package, programs in PROGRAMS.items():
        notices = "".join(run([root.REPOSITORY / "tools/licences", program, triple]) for program in programs)
        _put(tree, package, "crate-notices", notices)
    listed, lists = work / "debian", work / "lists"
    listed.write_text(debian(tree, wanted), encoding="utf-8")
    words = (lists, identity.version, triple, tree / _SITE, REPORT, listed, root.SUITE)
    run([AUDIT, root.REPOSITORY / "tools/sbom", *map(str, words)], env={"SOURCE_DATE_EPOCH": str(identity.epoch)})
    for package in (OWN, *PROGRAMS):
        _put(tree, package, f"{package}{SUFFIX}", (lists / f"{package}{SUFFIX}").read_text(encoding="utf-8"))
    (lists / f"{_IMAGE}{SUFFIX}").replace(target)


def debian(tree: Path, wanted: Architecture) -> str:
    """Return Debian's packages as tools/sbom reads them. The Raspberry Pi's are not installed in the root."""
    installed = run(["dpkg-query", "--admindir", tree / "var/lib/dpkg", "-W", f"--showformat={_FIELDS}"])
    others = (line.split("\t") for line in raspberry.packages(tree).splitlines())
    return installed + "".join(f"{name}\t{version}\t{wanted.debian}\t{name}\n" for name, version in others)


def _put(tree: Path, package: str, name: str, text: str) -> None:
    path = tree / "usr/share/doc" / package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.parent.chmod(0o755)
    path.chmod(0o644)

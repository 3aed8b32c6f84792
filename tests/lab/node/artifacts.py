"""What is kept of a node when a test fails."""

from collections.abc import Iterator

from tests.lab.node.node import Node


def artifacts(node: Node) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files that explain a failure."""
    yield "status.json", node.control.last_status()
    yield "sas.txt", "\n".join(map(str, node.charon.sas()))
    for name, argv in {**_LOOKS, **node.looks}.items():
        yield name, node.run(*argv, check=False).stdout
    for log in sorted(node.logs.glob("*.log")):
        yield log.name, log.read_text(encoding="utf-8", errors="replace")


_LOOKS = {
    "rules.txt": ["nft", "list", "ruleset"],
    "routes.txt": ["ip", "-6", "route", "show", "table", "all"],
    "routes4.txt": ["ip", "route", "show", "table", "all"],
    "policy-rules.txt": ["ip", "-6", "rule"],
    "addresses.txt": ["ip", "address"],
    "xfrm.txt": ["ip", "xfrm", "policy"],
    "counters.txt": ["ip", "-s", "link"],
}

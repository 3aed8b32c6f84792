"""Shapes of a mesh: which nodes hear each other, as pairs of node names."""

import itertools

Pair = tuple[str, str]


def names(count: int) -> list[str]:
    """Return ``a``, ``b``, ... for up to 26 nodes, else ``n1``, ``n2``, ..."""
    return [chr(ord("a") + i) for i in range(count)] if count <= 26 else [f"n{i + 1}" for i in range(count)]


def line(nodes: list[str]) -> list[Pair]:
    """Return a line: each node hears the one before and the one after."""
    return list(itertools.pairwise(nodes))


def ring(nodes: list[str]) -> list[Pair]:
    """Return a ring: a line whose ends hear each other."""
    return [*line(nodes), (nodes[-1], nodes[0])]


def star(nodes: list[str]) -> list[Pair]:
    """Return a star: all hear only the first."""
    return [(nodes[0], node) for node in nodes[1:]]


def full(nodes: list[str]) -> list[Pair]:
    """Return a full mesh: all hear all."""
    return [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1 :]]


def grid(nodes: list[str]) -> list[Pair]:
    """Return the rows of a square, as near as the number allows; each node hears left, right, up and down."""
    width = max(1, round(len(nodes) ** 0.5))
    right = [(nodes[i], nodes[i + 1]) for i in range(len(nodes) - 1) if (i + 1) % width]
    return right + [(nodes[i], nodes[i + width]) for i in range(len(nodes) - width)]

"""Values of a configuration of which other values may be refused.

What must happen on a damaged node, too, such as destroying its keys, cannot wait for a good configuration.
"""

import posixpath
from collections.abc import Mapping


def path(found: Mapping[str, object], base: str, keys: tuple[str, str], default: str) -> str:
    """Return a path of the configuration; the default where there is none, or something that is no path.

    A relative path begins at ``base``, the directory of the configuration file.
    """
    value = table(found, keys[0]).get(keys[1])
    return posixpath.normpath(posixpath.join(base, value)) if isinstance(value, str) and value else default


def table(found: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a table of the configuration; an empty one where there is none, or something else."""
    value = found.get(name)
    return value if isinstance(value, Mapping) else {}

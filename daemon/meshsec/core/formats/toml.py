"""Values in the form of TOML."""

import json
from collections.abc import Mapping


def encode(value: object) -> str:
    """Return a text, a number, a truth value, a list of values or a table of them in TOML 1.0, on one line.

    JSON's form of the first three is valid TOML, with two exceptions: TOML has no surrogate pairs, and DEL is escaped.
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(encode, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {encode(one)}' for key, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

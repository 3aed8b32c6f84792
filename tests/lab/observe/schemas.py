"""The JSON schemas of the product's sockets, against which the lab's readers check each line."""

import json
from functools import cache

import jsonschema

from tests.lab.basics.places import REPOSITORY


@cache
def schema(name: str) -> jsonschema.Draft202012Validator:
    """Return the validator of a schema in docs/reference/schema."""
    path = REPOSITORY / "docs" / "reference" / "schema" / f"{name}.json"
    return jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))

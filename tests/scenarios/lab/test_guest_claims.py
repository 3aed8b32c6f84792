"""The list of claims for the guest names tests that exist; a wrong name would be seen only when a guest has booted."""

import ast

import pytest

from tests.lab.basics.places import REPOSITORY
from tests.scenarios import guest_claims

CLAIMS = (guest_claims.GENERIC, guest_claims.RT, guest_claims.MORE, guest_claims.AIR, guest_claims.AIR_MORE)


@pytest.mark.parametrize("claim", [claim for claims in CLAIMS for claim in claims])
def test_a_claim_for_the_guest_is_a_file_or_a_test_in_it(claim: str) -> None:
    name, _, test = claim.partition("::")
    tree = ast.parse((REPOSITORY / "tests" / name).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert not test or test.partition("[")[0] in found

"""Commands that the lab forks from a preloaded server end with a status of their own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.basics import preloaded, programs
from tests.lab.net import namespaces
from tests.lab.net.instance import Instance


@pytest.fixture
def namespace() -> Iterator[str]:
    instance = Instance()
    try:
        name = instance.namespace("preloaded")
        namespaces.create(name)
        yield name
    finally:
        instance.end()


def test_statuses_of_commands_that_end_at_the_same_time_are_not_mixed_up(namespace: str) -> None:
    def status(number: int) -> tuple[int, int]:
        wrong = number % 2
        argv = [programs.meshsec(), "--no-such-option" if wrong else "--version"]
        return preloaded.run(namespace, argv, 60).returncode, 2 * wrong

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(status, range(100)))
    assert [found for found, _ in statuses] == [expected for _, expected in statuses]

"""Run nft(8), and keep small tables as they were applied."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

_TIMEOUT = 60.0
"""Deadline in seconds of one run of nft or ip. The first use loads kernel modules, which is slow on some machines."""


class RulesError(Exception):
    """The rules could not be set or read; the text is that of nft or ip."""


class Table:
    """A small table of meshsec's own, which is restored when another program changes or removes it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._text = self._contents = ""
        self._applied: list[str] = []
        self._changing = asyncio.Lock()

    async def apply(self, text: str, contents: str = "") -> None:
        """Replace the table by this text and read it back; without a text remove it. Raises ``RulesError``.

        ``contents`` are commands that fill its sets.
        """
        async with self._changing:
            await self._apply(text, contents)

    async def settle(self, text: str, contents: str = "") -> bool:
        """Do the same as far as it differs. Return whether another program had changed the table.

        Other contents alone leave the rules in place. Raises ``RulesError``.
        """
        async with self._changing:
            altered = not await self._is_intact()
            if altered or text != self._text:
                await self._apply(text, contents)
            elif contents != self._contents:
                await self._run(text, contents, contents)
            return altered

    async def fill(self, contents: str) -> None:
        """Change the contents of the table as it was applied last, as fast as that goes. Raises ``RulesError``."""
        async with self._changing:
            if contents != self._contents:
                await self._run(self._text, contents, contents)

    async def altered(self) -> list[str]:
        """Return in words how the kernel's table differs from what was applied last; empty if it does not."""
        async with self._changing:
            return await altered(self._name, self._applied) if self._text else []

    async def _apply(self, text: str, contents: str) -> None:
        head = f"table inet {self._name}\ndelete table inet {self._name}\n"
        await self._run(text, contents, head + text + contents)

    async def _run(self, text: str, contents: str, commands: str) -> None:
        await run("nft", "-f", "-", text=commands)
        self._text, self._contents = text, contents
        self._applied = settled_entries(await entries_of(self._name)) if text else []

    async def _is_intact(self) -> bool:
        try:
            return not self._text or settled_entries(await entries_of(self._name)) == self._applied
        except RulesError:
            return False


async def run(*command: str, text: str = "") -> str:
    """Run nft or ip and return its output. Raises ``RulesError``."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise RulesError(f"{command[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(_TIMEOUT):
            output, errors = await process.communicate(text.encode())
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise RulesError(f"{' '.join(command)}: no answer within {_TIMEOUT:.0f} s") from error
    if process.returncode:
        raise RulesError(f"{' '.join(command)}: {errors.decode('utf-8', 'replace').strip()}")
    return output.decode("utf-8", "replace")


async def entries_of(table: str) -> list[dict[str, Any]]:
    """Return the contents of a table. Raises ``RulesError``."""
    output = await run("nft", "-j", "list", "table", "inet", table)
    try:
        entries: list[dict[str, Any]] = json.loads(output)["nftables"]
    except (ValueError, KeyError) as error:
        raise RulesError(f"nft -j list table inet {table}: no valid answer ({error})") from error
    return entries


async def altered(table: str, applied: Sequence[str]) -> list[str]:
    """Return in words how a table differs from the settled entries that were applied; empty if it does not."""
    try:
        present = settled_entries(await entries_of(table))
    except RulesError:
        return [f"the table inet {table} is not there"]
    where = f"of the table inet {table}"
    gone = [f"{_described(one)} {where} is not there as it was applied" for one in applied if one not in present]
    more = [f"{_described(one)} {where} is not meshsecd's" for one in present if one not in applied]
    moved = [f"the rules {where} are not in the order in which they were applied"] if present != applied else []
    return gone + more or moved


def settled_entries(entries: list[dict[str, Any]]) -> list[str]:
    """Return the listing without what changes by itself: handles, counters, elements that expire and nft's version."""
    return [json.dumps(_settled(entry), sort_keys=True) for entry in entries if "metainfo" not in entry]


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        changing = {"handle", "packets", "bytes"} | ({"elem"} if "timeout" in value else set())
        return {key: _settled(part) for key, part in value.items() if key not in changing}
    if isinstance(value, list):
        return [_settled(part) for part in value]
    return value


def _described(settled: str) -> str:
    """Describe an entry of ``settled_entries`` in words."""
    ((kind, entry),) = json.loads(settled).items()
    return f"a rule of the chain {entry['chain']}" if kind == "rule" else f"the {kind} {entry['name']}"

"""A line on standard error while searching for logs, or reading them, takes long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import TypeVar

import click

from envcheck.core.language import translate
from envcheck.core.messages import Message, _

FIRST_S = 5.0
FACTOR = 3.0  # each next line after three times as long
Part = TypeVar("Part", bound=Sized)


def announce_reading(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Pass the blocks on; after some seconds, and then ever more rarely, tell how far the reading is."""
    return _announce(blocks, lambda size: _("reading {name}: {mib:.0f} MiB so far", name=name, mib=size / (1 << 20)))


def announce_search(name: Path, folders: Iterable[Sequence[Path]]) -> Iterator[Sequence[Path]]:
    """Pass the logs of each folder on; tell now and then how many there are so far."""
    return _announce(folders, lambda count: _("searching {name}: {count} logs so far", name=name, count=count))


def announce_logs(paths: Sequence[Path]) -> Iterator[Path]:
    """Pass the logs on; tell now and then how many were read."""
    ended = count_parts(len(paths))
    for path in paths:
        yield path
        ended()


def count_parts(total: int) -> Callable[[], None]:
    """Return what to call after each part; it tells now and then how many were read."""
    parts = _announce(
        ([at] for at in range(total - 1)),  # after the last one, nothing is to be expected
        lambda count: _("read {count} of {total} parts of the logs", count=count, total=total),
    )

    def end_part() -> None:
        next(parts, None)

    end_part()  # up to the first part
    return end_part


def tell(message: Message) -> None:
    """Print a line of ours on standard error."""
    click.echo(translate(_("envcheck: {message}", message=message)), err=True)


def _announce(parts: Iterable[Part], describe: Callable[[int], Message]) -> Iterator[Part]:
    began, due, size = time.monotonic(), FIRST_S, 0
    for part in parts:
        yield part
        size += len(part)
        if time.monotonic() - began > due:
            due *= FACTOR
            tell(describe(size))

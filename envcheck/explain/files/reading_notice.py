"""A line on standard error while a log takes long to read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import click

from envcheck.core.language import translate
from envcheck.core.messages import _

FIRST_S = 5.0
FACTOR = 3.0  # each next line after three times as long


def announce_reading(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Pass the blocks on; after some seconds, and then ever more rarely, tell how far the reading is."""
    began, due, size = time.monotonic(), FIRST_S, 0
    for block in blocks:
        yield block
        size += len(block)
        if time.monotonic() - began > due:
            due *= FACTOR
            said = _("reading {name}: {mib:.0f} MiB so far", name=name, mib=size / (1 << 20))
            click.echo(translate(_("envcheck: {message}", message=said)), err=True)

"""Known bugs of releases, by the exception and the frame in which they show; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.toml_file import load_own_table
from envcheck.explain.diagnosis import CatalogueEntry, RaisedException
from envcheck.explain.exceptions import installed_versions, raised_place

FILE = Path(__file__).with_name("known_bugs.toml")
PAGES = "https://github.com/"
NAME = f"{FILE.parent.name}.known_bug"
INNER = 6  # frames in which a bug shows


@dataclass(frozen=True)
class KnownBug:
    """A bug of releases of a package, `frob>=1,<1.2`; with `other` if it needs another package's release.

    `match` is searched in the exception's text, `at` in its innermost frames and source lines; `install` mends it.
    """

    broken: str
    other: str
    install: str
    match: re.Pattern[str]
    at: re.Pattern[str]
    source: str

    @property
    def package(self) -> str:
        return re.split("[<>=!]", self.broken)[0]

    @property
    def values(self) -> Mapping[str, str]:
        """The values of the text."""
        return {
            "package": self.package,
            "version": self.broken,
            "library": self.other,
            "requirement": self.install,
        }

    @property
    def entry(self) -> CatalogueEntry:
        """The text of all bugs, with the page of this one."""
        return replace(load_text(), source=(self.source,))


@functools.cache
def load_text() -> CatalogueEntry:
    """Return the entry with what is said of each bug; it matches no line."""
    said = load_own_table(FILE)["text"]
    return CatalogueEntry(
        name=NAME,
        area=FILE.parent.name,
        kind="cause",
        says=said["says"],
        why=said["why"],
        do=said["do"],
        near=(),
        match=(),
        commands=tuple(said["commands"]),
    )


@functools.cache
def load_bugs() -> tuple[KnownBug, ...]:
    """Return the rows of the table; a missing pattern matches everything."""
    rows = load_own_table(FILE)["bugs"]
    return tuple(
        KnownBug(broken, other, install, re.compile(match), re.compile(at), PAGES + page)
        for broken, other, install, match, at, page in rows
    )


def find_bug(raised: RaisedException, installed: Mapping[str, str]) -> KnownBug | None:
    """Return the bug of an exception; of a release that the log prints, only one that it has.

    Its frames are those without the innermost ones that only pass on what another process raised.
    """
    own = raised_place.count_own_frames(raised.frames, raised.sources)
    around = "\n".join((*raised.frames[:own][-INNER:], *raised.sources[:own][-INNER:]))
    return next(
        (
            bug
            for bug in load_bugs()
            if bug.match.search(raised.text)
            and bug.at.search(around)
            and not installed_versions.contradicts(filter(None, (bug.broken, bug.other)), installed)
        ),
        None,
    )

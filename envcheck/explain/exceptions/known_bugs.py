"""Known bugs of releases, by the exception and the frame in which they show; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.toml_file import load_own_table
from envcheck.explain.exceptions import installed_versions, raised_place

FILE = Path(__file__).with_name("known_bugs.toml")
PAGES = "https://github.com/"
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


@functools.cache
def load_bugs() -> tuple[KnownBug, ...]:
    """Return the rows of the table; a missing pattern matches everything."""
    rows = load_own_table(FILE)["bugs"]
    return tuple(
        KnownBug(broken, other, install, re.compile(match), re.compile(at), PAGES + page)
        for broken, other, install, match, at, page in rows
    )


def find_bug(text: str, frames: Sequence[str], sources: Sequence[str], installed: Mapping[str, str]) -> KnownBug | None:
    """Return the bug of an exception; of a release that the log prints, only one that it has.

    The innermost frames that only pass on what another process raised are left out.
    """
    own = raised_place.count_own_frames(frames, sources)
    around = "\n".join((*frames[:own][-INNER:], *sources[:own][-INNER:]))
    return next(
        (
            bug
            for bug in load_bugs()
            if bug.match.search(text)
            and bug.at.search(around)
            and not installed_versions.contradicts(filter(None, (bug.broken, bug.other)), installed)
        ),
        None,
    )

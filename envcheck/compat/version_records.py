"""The data types of the version tables."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from envcheck.core.messages import mark
from envcheck.core.toml_file import FileKey, Given, OneOrMany


class PairStatus(str, enum.Enum):
    """What the tables know about a pair of versions."""

    TESTED = "tested"
    UNKNOWN = "unknown"
    BAD = "known bad"


class Confidence(str, enum.Enum):
    """The evidence of a row: `tried` by us, `documented` by the product, `reported` in an issue; `inferred` has no
    source."""

    TRIED = mark("tried")
    DOCUMENTED = mark("documented")
    REPORTED = mark("reported")
    INFERRED = mark("inferred")


@dataclass(frozen=True)
class VersionedComponent:
    """A component with a version.  `builds`: 24.1.rc1.b030 counts as 24.1.rc1; `word`: not a number, compared as a
    prefix.

    `title` is its display name.  `vendor` is the vendor whose table defines it, "" for tables of all hosts.  `package`
    is pip's name if several vendors' packages share it; they differ in the local label of the version, which starts
    with one of `labels`.
    """

    title: str = ""
    builds: bool = False
    word: bool = False
    package: str = ""
    labels: tuple[str, ...] = ()
    vendor: Given[str] = ""


@dataclass(frozen=True)
class VersionRow:
    """One fact: `of` in one of the versions `version`, with each component of `others` in one of its patterns, is
    `standing`.

    `partner`: the version made for it, not only one that works; `release`: the vendor's name for the set.
    """

    version: OneOrMany[str]
    others: Annotated[Mapping[str, OneOrMany[str]], FileKey("with")]
    source: OneOrMany[str]
    date: str
    of: Given[str] = ""
    standing: Annotated[PairStatus, FileKey("verdict")] = PairStatus.TESTED
    confidence: Confidence = Confidence.DOCUMENTED
    partner: bool = False
    release: str = ""
    symptom: str = ""
    remedy: str = ""
    note: str = ""


@dataclass(frozen=True)
class VersionRule:
    """A rule for pairs that no row lists: `relation` is a key of envcheck.compat.pair_verdicts.RELATIONS."""

    pair: tuple[str, str]
    relation: str
    row: VersionRow


@dataclass(frozen=True)
class ImageVersions:
    """A container image and the versions in it; `doubt` is the reason why its tag may be unreliable."""

    references: tuple[str, ...]
    holds: Mapping[str, str]
    source: tuple[str, ...]
    date: str
    doubt: str = ""


@dataclass(frozen=True)
class RenamedOption:
    """An option of `tool` that was named `old` before version `since`."""

    tool: str
    since: str
    old: str
    new: str
    source: tuple[str, ...]
    date: str
    note: str = ""


@dataclass(frozen=True)
class SolverGoal:
    """The components of a version set, most important first, and the links that must be tested.

    `driver` and the architecture are given; `beside` are packages that are added if the tables list a tested version.
    """

    driver: str
    links: tuple[tuple[str, str], ...]
    wanted: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CompatibilityTable:
    """The content of all files; `pairs` are the rows by their two components.

    `indexes` are the folders by package that replace {device} in `index_pattern`: Paddle's package index.  `urls` are
    the complete indexes of other packages, with {cuda} for the folder of a CUDA version (cu126). `goals` are the
    version sets that can be solved for, by vendor and framework.

    Tables compare by identity, so that results can be cached per table.
    """

    rows: tuple[VersionRow, ...] = ()
    rules: tuple[VersionRule, ...] = ()
    images: tuple[ImageVersions, ...] = ()
    renamed: tuple[RenamedOption, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, str] = field(default_factory=dict)
    index_pattern: str = ""
    urls: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], tuple[VersionRow, ...]] = field(default_factory=dict)
    goals: Mapping[tuple[str, str], SolverGoal] = field(default_factory=dict)


@dataclass(frozen=True)
class PairVerdict:
    """The verdict on two versions; `named` are the versions of `right` that the tables list for the left one.

    `source` and `date` are those of the deciding row; empty if no row lists the pair.
    """

    left: str
    left_version: str
    right: str
    right_version: str
    standing: PairStatus
    confidence: Confidence | None = None
    source: tuple[str, ...] = ()
    date: str = ""
    symptom: str = ""
    remedy: str = ""
    note: str = ""
    named: tuple[str, ...] = ()

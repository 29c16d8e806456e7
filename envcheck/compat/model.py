"""The words of the version tables as frozen data."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from envcheck.core.toml_file import Given, Key, OneOrMany


class Standing(str, enum.Enum):
    """What a table knows of a pair."""

    TESTED = "tested"
    UNKNOWN = "unknown"
    BAD = "known bad"


class Confidence(str, enum.Enum):
    """How a row is known: `tried` by us, by the product's own documents, by an issue; `inferred` is stated nowhere."""

    TRIED = "tried"
    DOCUMENTED = "documented"
    REPORTED = "reported"
    INFERRED = "inferred"


@dataclass(frozen=True)
class Component:
    """Something with a version.  `builds`: 24.1.rc1.b030 is 24.1.rc1; `word`: no number, compared as a prefix.

    `title` is its name where the table has none.  `vendor` is the one whose table has it, "" for the tables of every
    machine.  `package`: pip's name of it, where several makers' packages have one name; they differ in how the
    version's part behind + begins, one of `labels`.
    """

    title: str = ""
    builds: bool = False
    word: bool = False
    package: str = ""
    labels: tuple[str, ...] = ()
    vendor: Given[str] = ""


@dataclass(frozen=True)
class Row:
    """One fact: `of` in one of `version` and each component of `others`, in one of its patterns, are `standing`.

    `partner`: the one that belongs to it, not only one that works; `release`: the vendor's name for the set.
    """

    version: OneOrMany[str]
    others: Annotated[Mapping[str, OneOrMany[str]], Key("with")]
    source: OneOrMany[str]
    date: str
    of: Given[str] = ""
    standing: Annotated[Standing, Key("verdict")] = Standing.TESTED
    confidence: Confidence = Confidence.DOCUMENTED
    partner: bool = False
    release: str = ""
    symptom: str = ""
    remedy: str = ""
    note: str = ""


@dataclass(frozen=True)
class Rule:
    """What holds where no row names a pair: `relation` is a key of envcheck.compat.judging.RELATIONS."""

    pair: tuple[str, str]
    relation: str
    row: Row


@dataclass(frozen=True)
class Image:
    """A container image and the versions in it; `doubt` says why its name may not be relied on."""

    references: tuple[str, ...]
    holds: Mapping[str, str]
    source: tuple[str, ...]
    date: str
    doubt: str = ""


@dataclass(frozen=True)
class Renamed:
    """An option of `tool` that was `old` before version `since`."""

    tool: str
    since: str
    old: str
    new: str
    source: tuple[str, ...]
    date: str
    note: str = ""


@dataclass(frozen=True)
class Goal:
    """What a set holds, the component that makes it newer first, and which links must be tested.

    `driver` and the processor are given; `beside` are packages that are named where something is known of them.
    """

    driver: str
    links: tuple[tuple[str, str], ...]
    wanted: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Table:
    """Everything that the files say; `pairs` are the rows by the two components that they speak of.

    `indexes` are the folders, by package, that `index_pattern` wants as {device}: Paddle's own index.  `urls` are the
    whole indexes of other packages, with {cuda} for the folder of a CUDA (cu126).  `goals`, by vendor and framework,
    are the sets that can be solved for.

    Two tables are the same only where they are one: what is remembered of a table needs no look into it.
    """

    rows: tuple[Row, ...] = ()
    rules: tuple[Rule, ...] = ()
    images: tuple[Image, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, str] = field(default_factory=dict)
    index_pattern: str = ""
    urls: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], tuple[Row, ...]] = field(default_factory=dict)
    goals: Mapping[tuple[str, str], Goal] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What is known of two versions together; `named` are those of `right` that the tables do name with the left's.

    `source` and `date` are those of the row that decides; "" where none names the pair.
    """

    left: str
    left_version: str
    right: str
    right_version: str
    standing: Standing
    confidence: Confidence | None = None
    source: tuple[str, ...] = ()
    date: str = ""
    symptom: str = ""
    remedy: str = ""
    note: str = ""
    named: tuple[str, ...] = ()

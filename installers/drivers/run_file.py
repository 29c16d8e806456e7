"""What a .run file (makeself) says of itself, and whether it is whole: its head is read as text, nothing is run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from envcheck.core.errors import UsageError

HEAD_LIMIT = 1 << 20  # bytes; makeself's own head has 20 KB, the vendors' up to 60
CHUNK = 1 << 20
SHELLS = {"sh": "/bin/sh", "dash": "/bin/sh", "bash": "/bin/bash"}
_SET = re.compile(r"^\s*(\w{1,40})=([\"']?)([^\"'\n]{0,4000})\2\s*$", re.MULTILINE)
_LINES = re.compile(r"\bhead -n \+?(\d{1,6}) \"?\$[01]\"?")  # before makeself 2.4.2 the number stood in the code
_UNPACKED = re.compile(r"Uncompressed size: (\d{1,12}) KB")


@dataclass(frozen=True)
class RunFile:
    """`intact` is None where the file carries no sums that can be compared; `why` says what was compared or missed.

    `unpacked_bytes` is the archive's own figure; `shell` runs it.
    """

    path: Path
    size_bytes: int
    sha256: str
    shell: str
    label: str = ""
    intact: bool | None = None
    why: str = ""
    unpacked_bytes: int | None = None


@dataclass(frozen=True)
class RunFileHead:
    """The head's own figures: where each archive begins and how long it is, and its sums."""

    lines: int
    sizes: tuple[int, ...]
    sums: dict[str, tuple[str, ...]]
    label: str = ""
    unpacked_bytes: int | None = None


def read(path: Path, tell: Callable[[int, int], None] = lambda done, total: None) -> RunFile:
    """One pass over the file; `tell` hears (bytes done, of).  UsageError when it is no file of this kind."""
    try:
        if not path.is_file():
            raise UsageError(f"{path}: not a file", f"name the installer itself; ls -l {path.parent}")
        with path.open("rb") as file:
            return _read(path, file, tell)
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {(err.strerror or str(err)).lower()}", f"ls -l {path}") from None


def _read(path: Path, file: BinaryIO, tell: Callable[[int, int], None]) -> RunFile:
    raw = file.read(HEAD_LIMIT)
    first = re.match(rb"#!\s{0,4}/(?:usr/)?bin/(?:env\s{1,4})?(\w{1,8})[^\n]{0,80}\n", raw)
    shell = SHELLS.get(first[1].decode()) if first else None
    if not shell:
        raise UsageError(f"{path}: not a self-extracting shell archive (.run)", "give the vendor's file, unpacked")
    head = head_of(raw.decode("latin-1"))
    size = path.stat().st_size
    starts = _starts(raw, head)
    file.seek(0)
    whole, found = _sums(file, starts, size, tell)
    intact, why = _compared(head, found, starts, size)
    return RunFile(path, size, whole, shell, head.label, intact, why, head.unpacked_bytes)


def head_of(text: str) -> RunFileHead:
    """The assignments of makeself's head; the first of a name counts, as the code below may assign again."""
    said: dict[str, str] = {}
    for name, _, value in _SET.findall(text):
        said.setdefault(name, value)
    in_code, unpacked = _LINES.search(text), _UNPACKED.search(text)
    lines = said.get("skip") or (in_code[1] if in_code else "")
    sizes = said.get("filesizes", "").split()
    return RunFileHead(
        int(lines) if re.fullmatch(r"\d{1,6}", lines) else 0,
        tuple(int(size) for size in sizes[:16]) if all(re.fullmatch(r"\d{1,15}", size) for size in sizes) else (),
        {name: tuple(said.get(name, "").split()) for name in ("SHA", "MD5")},
        said.get("label", "")[:200],
        int(unpacked[1]) << 10 if unpacked else None,
    )


def _starts(raw: bytes, head: RunFileHead) -> tuple[tuple[int, int], ...]:
    """(begin, end) of each archive; empty where the head does not tell."""
    at = 0
    for _ in range(head.lines):
        at = raw.find(b"\n", at) + 1
        if not at:
            return ()
    places = []
    for size in head.sizes if at else ():
        places.append((at, at + size))
        at += size
    return tuple(places)


def _sums(
    file: BinaryIO, places: tuple[tuple[int, int], ...], size: int, tell: Callable[[int, int], None]
) -> tuple[str, list[dict[str, str]]]:
    """SHA-256 of the whole, and both sums of each archive."""
    whole = hashlib.sha256()
    each = [{"SHA": hashlib.sha256(), "MD5": hashlib.md5(usedforsecurity=False)} for _ in places]
    at = 0
    while chunk := file.read(CHUNK):
        whole.update(chunk)
        for (begin, end), sums in zip(places, each, strict=True):
            part = chunk[max(0, begin - at) : max(0, end - at)]
            for known in sums.values() if part else ():
                known.update(part)
        at += len(chunk)
        tell(at, size)
    return whole.hexdigest(), [{name: known.hexdigest() for name, known in sums.items()} for sums in each]


def _compared(
    head: RunFileHead, found: list[dict[str, str]], places: tuple[tuple[int, int], ...], size: int
) -> tuple[bool | None, str]:
    if not places:
        return None, "its head does not tell where the archive begins and how long it is"
    if places[-1][1] > size:
        return False, f"its head speaks of {places[-1][1]} bytes, the file has {size}: it is cut off"
    compared = list(_pairs(head, found))
    if not compared:
        return None, "it carries neither SHA-256 nor MD5 sums"
    wrong = [name for name, said, is_so in compared if said != is_so]
    if wrong:
        return False, f"the {wrong[0]} sum in its head is not that of its archive"
    agree = f"{' and '.join(dict.fromkeys(name for name, _, _ in compared))} sums agree"
    more = size - places[-1][1]
    return (None, f"{agree}, but {more} more bytes follow the archive") if more else (True, agree)


def _pairs(head: RunFileHead, found: list[dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    """(name, said, found); zeros stand for a sum that was left out."""
    for key, name in (("SHA", "SHA-256"), ("MD5", "MD5")):
        if len(head.sums[key]) == len(found):
            for said, sums in zip(head.sums[key], found, strict=True):
                if said.strip("0"):
                    yield name, said.lower(), sums[key]

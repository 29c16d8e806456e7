"""Read the header of a .run file (makeself) and verify its checksums; nothing is executed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import Message, _, join, ngettext, verbatim

HEAD_LIMIT = 1 << 20  # bytes; makeself's own header has 20 KB, vendors' up to 60
CHUNK = 1 << 20
SHELLS = {"sh": "/bin/sh", "dash": "/bin/sh", "bash": "/bin/bash"}
_SET = re.compile(r"^[^\S\n]*(\w{1,40})=([\"']?)([^\"'\n]{0,4000})\2[^\S\n]*$", re.MULTILINE)
_LINES = re.compile(r"\bhead -n \+?(\d{1,6}) \"?\$[01]\"?")  # before makeself 2.4.2 the number was part of the code
_UNPACKED = re.compile(r"Uncompressed size: (\d{1,12}) KB")


@dataclass(frozen=True)
class RunFile:
    """A self-extracting archive; `intact` is None if it has no sums to compare, `why` explains the result.

    `unpacked_bytes` is the archive's own figure; `shell` is the interpreter of its first line.
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
    """The header's values: where each archive starts, its length in bytes, and its checksums."""

    lines: int
    sizes: tuple[int, ...]
    sums: dict[str, tuple[str, ...]]
    label: str = ""
    unpacked_bytes: int | None = None


def read_run_file(path: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> RunFile:
    """Read the file once; `progress` gets (bytes done, total).  UsageError if it is not a .run file."""
    try:
        if not path.is_file():
            raise UsageError(
                _("{path}: not a file", path=path),
                _("specify the installer file itself; list the folder with `ls -l {parent}`", parent=path.parent),
            )
        with path.open("rb") as file:
            return _parse_run_file(path, file, progress)
    except OSError as err:
        raise UsageError(
            _("{path}: cannot read it: {reason}", path=path, reason=describe_os_error(err)),
            verbatim(f"ls -l {path}"),
        ) from None


def _parse_run_file(path: Path, file: BinaryIO, progress: Callable[[int, int], None]) -> RunFile:
    raw = file.read(HEAD_LIMIT)
    first = re.match(rb"#!\s{0,4}/(?:usr/)?bin/(?:env\s{1,4})?(\w{1,8})[^\n]{0,80}\n", raw)
    shell = SHELLS.get(first[1].decode()) if first else None
    if not shell:
        raise UsageError(
            _("{path}: not a self-extracting shell archive (.run)", path=path),
            _("pass the vendor's .run file, extracted from its outer archive"),
        )
    head = parse_head(raw.decode("latin-1"))
    size = path.stat().st_size
    starts = _locate_archives(raw, head)
    file.seek(0)
    whole, found = _compute_sums(file, starts, size, progress)
    intact, why = _compare_sums(head, found, starts, size)
    return RunFile(path, size, whole, shell, head.label, intact, why, head.unpacked_bytes)


def parse_head(text: str) -> RunFileHead:
    """Return the variables of makeself's header; the first assignment of a name counts, later code may reassign it."""
    variables: dict[str, str] = {}
    for name, _unused, value in _SET.findall(text):
        variables.setdefault(name, value)
    in_code, unpacked = _LINES.search(text), _UNPACKED.search(text)
    lines = variables.get("skip") or (in_code[1] if in_code else "")
    sizes = variables.get("filesizes", "").split()
    return RunFileHead(
        int(lines) if re.fullmatch(r"\d{1,6}", lines) else 0,
        tuple(int(size) for size in sizes[:16]) if all(re.fullmatch(r"\d{1,15}", size) for size in sizes) else (),
        {name: tuple(variables.get(name, "").split()) for name in ("SHA", "MD5")},
        variables.get("label", "")[:200],
        int(unpacked[1]) << 10 if unpacked else None,
    )


def _locate_archives(raw: bytes, head: RunFileHead) -> tuple[tuple[int, int], ...]:
    """Return (start, end) of each archive; empty if the header does not give them."""
    at = 0
    for _unused in range(head.lines):
        at = raw.find(b"\n", at) + 1
        if not at:
            return ()
    places = []
    for size in head.sizes if at else ():
        places.append((at, at + size))
        at += size
    return tuple(places)


def _compute_sums(
    file: BinaryIO, places: tuple[tuple[int, int], ...], size: int, progress: Callable[[int, int], None]
) -> tuple[str, list[dict[str, str]]]:
    """Return the SHA-256 of the whole file, and both checksums of each archive."""
    whole = hashlib.sha256()
    each = [{"SHA": hashlib.sha256(), "MD5": hashlib.md5(usedforsecurity=False)} for _unused in places]
    at = 0
    while chunk := file.read(CHUNK):
        whole.update(chunk)
        for (begin, end), sums in zip(places, each, strict=True):
            part = chunk[max(0, begin - at) : max(0, end - at)]
            for known in sums.values() if part else ():
                known.update(part)
        at += len(chunk)
        progress(at, size)
    return whole.hexdigest(), [{name: known.hexdigest() for name, known in sums.items()} for sums in each]


def _compare_sums(
    head: RunFileHead, found: list[dict[str, str]], places: tuple[tuple[int, int], ...], size: int
) -> tuple[bool | None, Message]:
    if not places:
        return None, _("the file header does not give the start and length of the archive")
    if places[-1][1] > size:
        return False, _(
            "truncated: the header lists {listed_size} bytes, the file has {size}",
            listed_size=places[-1][1],
            size=size,
        )
    compared = list(_pair_sums(head, found))
    if not compared:
        return None, _("the file contains no SHA-256 or MD5 checksum")
    wrong = [name for name, listed, computed in compared if listed != computed]
    if wrong:
        return False, _("the {sum} checksum in the header does not match the archive", sum=wrong[0])
    agree = _(
        "{compared} checksums match",
        compared=join(_(" and "), dict.fromkeys(name for name, _listed, _computed in compared)),
    )
    more = size - places[-1][1]
    if not more:
        return True, agree
    return None, ngettext(
        "{agree}, but {count} extra byte follows the archive",
        "{agree}, but {count} extra bytes follow the archive",
        more,
        agree=agree,
    )


def _pair_sums(head: RunFileHead, computed_sums: list[dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, listed, computed); a sum of zeros stands for an omitted one."""
    for key, name in (("SHA", "SHA-256"), ("MD5", "MD5")):
        if len(head.sums[key]) == len(computed_sums):
            for listed, sums in zip(head.sums[key], computed_sums, strict=True):
                if listed.strip("0"):
                    yield name, listed.lower(), sums[key]

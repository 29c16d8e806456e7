"""Reads a shared library: processor, name, and the newest GLIBCXX versions that it needs and provides.

Reads section headers and three small sections of a 64-bit little-endian ELF file, whatever its size; layout: elf(5).
"""

import re
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

MACHINES = {62: "x86_64", 183: "aarch64"}
DYNAMIC, GIVES, WANTS = 6, 0x6FFFFFFD, 0x6FFFFFFE  # sh_type
SONAME = 14  # d_tag
SECTION_LIMIT, SECTIONS_LIMIT, STEPS_LIMIT, NAME_LIMIT = 4 << 20, 512, 4096, 256
_GLIBCXX = re.compile(rb"GLIBCXX_(\d+(?:\.\d+){1,3})$")


class ElfLibrary(NamedTuple):
    """Versions as numbers, (3, 4, 30); None if there is none."""

    machine: str
    soname: "str | None" = None
    wants: "tuple[int, ...] | None" = None
    gives: "tuple[int, ...] | None" = None


class _ElfSection(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def read_library(path: "Path") -> "ElfLibrary | None":
    """Return the library's data, None if the file is not a 64-bit ELF file."""
    try:
        with path.open("rb") as file:
            return _parse_elf(file)
    except (OSError, struct.error, ValueError):
        return None


def _parse_elf(file: "BinaryIO") -> "ElfLibrary | None":
    head = file.read(64)
    if head[:4] != b"\x7fELF" or head[4:6] != b"\x02\x01":
        return None
    (machine,) = struct.unpack_from("<H", head, 18)
    (start,) = struct.unpack_from("<Q", head, 40)
    size, count = struct.unpack_from("<HH", head, 58)
    table = _read_at(file, start, size * min(count, SECTIONS_LIMIT))
    fields = [struct.unpack_from("<IIQQQQI", table, at) for at in range(0, len(table), max(size, 64))]
    sections = [_ElfSection(kind, offset, length, link) for _, kind, _, _, offset, length, link in fields]
    wants, gives = (_newest_glibcxx(_read_version_names(file, sections, kind)) for kind in (WANTS, GIVES))
    return ElfLibrary(MACHINES.get(machine, f"machine {machine}"), _read_soname(file, sections), wants, gives)


def _read_version_names(file: "BinaryIO", sections: "list[_ElfSection]", kind: int) -> "list[bytes]":
    """Return the names in a version section: a chain of entries, each with its own chain of names."""
    section = next((one for one in sections if one.kind == kind), None)
    if section is None or section.link >= len(sections):
        return []
    # wants: version, count, file, aux, next, and of a name hash, flags, other, name, next;
    # gives: version, flags, index, count, hash, aux, next, and of a name: name, next.
    aux, name_at = (8, 8) if kind == WANTS else (12, 0)
    found = []  # type: list[bytes]
    data, place = _read_at(file, section.offset, section.size), 0
    for _ in range(STEPS_LIMIT):
        names, following = struct.unpack_from("<II", data, place + aux)
        at = place + names
        while len(found) < STEPS_LIMIT:
            name, step = struct.unpack_from("<II", data, at + name_at)
            found.append(_read_string(file, sections[section.link], name))
            at += step
            if not step:
                break
        place += following
        if not following:
            break
    return found


def _read_soname(file: "BinaryIO", sections: "list[_ElfSection]") -> "str | None":
    section = next((one for one in sections if one.kind == DYNAMIC), None)
    if section is None or section.link >= len(sections):
        return None
    data = _read_at(file, section.offset, section.size)
    for tag, value in struct.iter_unpack("<qQ", data[: len(data) // 16 * 16]):
        if tag == SONAME:
            return _read_string(file, sections[section.link], value).decode("utf-8", "replace")
    return None


def _read_string(file: "BinaryIO", strings: "_ElfSection", offset: int) -> bytes:
    """Return one string: the string table of a framework has tens of megabytes."""
    return _read_at(file, strings.offset + offset, NAME_LIMIT).partition(b"\0")[0]


def _read_at(file: "BinaryIO", offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(min(size, SECTION_LIMIT))


def _newest_glibcxx(names: "list[bytes]") -> "tuple[int, ...] | None":
    found = [found for found in map(_GLIBCXX.match, names) if found]
    return max((tuple(map(int, one[1].split(b"."))) for one in found), default=None)

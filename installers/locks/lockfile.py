"""envcheck.lock: what exactly was put in place, as frozen data; written and read as TOML.

Keys are the fields of these dataclasses.  The file is small and meant to be read, and to be kept under version control.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envcheck.collect import snapshot
from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from installers.recipes.recipe import Recipe

SCHEMA = 1
NAME = "envcheck.lock"
SIZE_LIMIT = 2 << 20  # bytes; 200 wheels take 50 KB
NEXT = "make a new one: envcheck bundle or envcheck provision writes it"
PATH_LIMIT = 1000
HEAD = "# What exactly was put in place.  envcheck provision --locked installs this and nothing else.\n"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,300}")
_PLAIN = re.compile(r"[A-Za-z0-9_][\w.+!-]{0,250}")
_NOT_IN_HASH = {"notes", "file", "title", "traps", "documents", "models"}  # words for people


@dataclass(frozen=True)
class Image:
    """`digest` is that of the registry's manifest; "" for an image that came from no registry, which has only `id`."""

    reference: str
    digest: str = ""
    id: str = ""


@dataclass(frozen=True)
class Wheel:
    """`file` without the address it came from; `index` is the recipe's own index, "" for the configured one.

    `source` is the archive that the file was built from where there is no wheel to fetch, with its own sum: whoever has
    the lock and an index builds it from that one.
    """

    name: str
    version: str
    file: str
    sha256: str
    index: str = ""
    source: str = ""
    source_sha256: str = ""

    @property
    def sums(self) -> tuple[str, ...]:
        """Those of the files that may be installed."""
        return tuple(filter(None, (self.sha256, self.source_sha256)))


@dataclass(frozen=True)
class Commit:
    url: str
    commit: str
    directory: str = ""


@dataclass(frozen=True)
class Built:
    """A file that a build of the recipe made from this commit; `name` is the build's, `path` stands below its clone."""

    name: str
    path: str
    sha256: str
    commit: str = ""


@dataclass(frozen=True)
class DriverFile:
    """A vendor's installer that was run; `name` is the recipe's for it (driver, firmware), `version` the file's own."""

    file: str
    sha256: str
    version: str = ""
    name: str = "driver"


@dataclass(frozen=True)
class Lock:
    """`architecture` is uname's word, `python` the version that the wheels are for; `installers` are the vendor's
    beside the driver's (firmware)."""

    schema: int
    envcheck: str
    recipe: str
    recipe_sha256: str
    architecture: str
    python: str = ""
    image: Image | None = None
    driver: DriverFile | None = None
    wheels: tuple[Wheel, ...] = ()
    checkouts: tuple[Commit, ...] = ()
    installers: tuple[DriverFile, ...] = ()
    builds: tuple[Built, ...] = ()


def recipe_hash(recipe: Recipe) -> str:
    """Of all that the recipe decides; sources, remarks and the file's place do not count.

    What is not set does not count either: a field that a later envcheck adds changes no hash of today's recipes.
    """
    said = {key: value for key, value in _set(recipe).items() if key not in _NOT_IN_HASH}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _set(value: Any) -> Any:
    """For JSON; of dataclasses the fields that differ from what they are when nobody says anything."""
    if dataclasses.is_dataclass(value):
        said = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {f.name: _set(v) for f, v in said if v != _unset(f)}
    if isinstance(value, Mapping):
        return {key: _set(inner) for key, inner in value.items()}
    return [_set(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _unset(field: dataclasses.Field[Any]) -> Any:
    """The field's default; MISSING, which equals nothing, where it has none."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def dump(lock: Lock) -> str:
    """The file's text; what is empty is left out."""
    return HEAD + "".join(_table(lock, ""))


def _table(value: Any, head: str) -> Iterator[str]:
    """Plain values first, as TOML wants it, then tables, then lists of tables."""
    said = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    yield from (f"{name} = {_scalar(v)}\n" for name, v in said if isinstance(v, (str, int)) and v != "")
    for name, inner in said:
        if dataclasses.is_dataclass(inner):
            yield f"\n[{head}{name}]\n"
            yield from _table(inner, f"{head}{name}.")
    for name, items in said:
        for item in items if isinstance(items, tuple) else ():
            yield f"\n[[{head}{name}]]\n"
            yield from _table(item, f"{head}{name}.")


def _scalar(value: str | int) -> str:
    """TOML's basic strings are JSON's, but for the raw DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else str(value)


def write(path: Path, lock: Lock) -> None:
    """Whole or not at all."""
    snapshot.write(path, dump(lock))


def load(path: Path) -> Lock:
    """The lock in the file; UsageError with file, key and kind when it is none."""
    return parse(toml_file.text(path, SIZE_LIMIT, "lock"), str(path))


def parse(text: str, file: str) -> Lock:
    table = toml_file.table(text, file, NEXT)
    if table.get("schema") != SCHEMA or type(table["schema"]) is not int:
        said = ascii(str(table.get("schema")))[:40]
        raise UsageError(f"{file}: schema: expected {SCHEMA}, found {said}", "this envcheck reads no other; " + NEXT)
    try:
        lock = toml_file.load_record(Lock, table, file)
    except UsageError as err:
        raise UsageError(err.message, err.next_step or NEXT) from None
    for key, wrong in _complaints(lock):
        raise UsageError(f"{file}: {key}: {wrong}", NEXT)
    return lock


def _complaints(lock: Lock) -> Iterator[tuple[str, str]]:
    """What the kinds alone do not say.  All of it comes to stand in commands, or as the names of files."""
    yield from _fits("recipe", lock.recipe, _PLAIN, "a recipe's name")
    yield from _fits("recipe_sha256", lock.recipe_sha256, _SHA256, "64 hexadecimal digits")
    yield from _fits("architecture", lock.architecture, _PLAIN, "x86_64 or aarch64")
    if lock.image:
        yield from _fits("image.reference", lock.image.reference, _REFERENCE, "an image's name")
        for key, digest in (("image.digest", lock.image.digest), ("image.id", lock.image.id)):
            if digest:
                yield from _fits(key, digest, _DIGEST, "sha256: and 64 hexadecimal digits")
    named = [("driver", lock.driver)] if lock.driver else []
    for key, each in (*named, *((f"installers[{n}]", each) for n, each in enumerate(lock.installers))):
        yield from _fits(f"{key}.file", each.file, _PLAIN, "the name of a file")
        yield from _fits(f"{key}.sha256", each.sha256, _SHA256, "64 hexadecimal digits")
    for number, commit in enumerate(lock.checkouts):
        yield from _fits(f"checkouts[{number}].commit", commit.commit, _COMMIT, "a whole commit in hexadecimal digits")
        if commit.url.startswith("-") or not commit.url:
            yield f"checkouts[{number}].url", "expected the address of a repository"
    for number, built in enumerate(lock.builds):
        yield from _built(f"builds[{number}]", built)
    yield from _wheels(lock)


def _built(key: str, built: Built) -> Iterator[tuple[str, str]]:
    yield from _fits(f"{key}.name", built.name, _PLAIN, "a build's name")
    yield from _fits(f"{key}.sha256", built.sha256, _SHA256, "64 hexadecimal digits")
    if built.commit:
        yield from _fits(f"{key}.commit", built.commit, _COMMIT, "a whole commit in hexadecimal digits")
    parts = built.path.split("/")
    if not built.path.isprintable() or len(built.path) > PATH_LIMIT or not all(parts) or ".." in parts:
        yield f"{key}.path", f"expected a file below the clone, found {built.path[:80]!r}"


def _wheels(lock: Lock) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for number, wheel in enumerate(lock.wheels):
        key = f"wheels[{number}]"
        yield from _fits(f"{key}.sha256", wheel.sha256, _SHA256, "64 hexadecimal digits")
        if not is_of(wheel.file, wheel.name, wheel.version):
            yield f"{key}.file", f"{wheel.file[:100]!r} is no file of {wheel.name[:60]} {wheel.version[:40]}"
        if wheel.source or wheel.source_sha256:
            yield from _fits(f"{key}.source_sha256", wheel.source_sha256, _SHA256, "64 hexadecimal digits")
            yield from _fits(f"{key}.source", wheel.source, _PLAIN, "the name of a file")
        if wheel.index and not re.match(r"https?://", wheel.index):
            yield f"{key}.index", "expected an https:// address"
        if canonicalize_name(wheel.name) in seen:
            yield key, f"{wheel.name[:60]} stands twice"
        seen.add(canonicalize_name(wheel.name))


def is_of(file: str, name: str, version: str) -> bool:
    """Whether a wheel's file name, or a source archive's, is that of this package and version."""
    try:
        wanted = canonicalize_name(name), Version(version)
        if file.endswith(".whl"):
            return bool(_PLAIN.fullmatch(file)) and parse_wheel_filename(file)[:2] == wanted
        stem = re.sub(r"\.(tar\.gz|zip|tar\.bz2)$", "", file)
        found, _, number = stem.rpartition("-")
        return bool(_PLAIN.fullmatch(file)) and stem != file and (canonicalize_name(found), Version(number)) == wanted
    except (InvalidWheelFilename, InvalidVersion):
        return False


def _fits(key: str, text: str, form: re.Pattern[str], words: str) -> Iterator[tuple[str, str]]:
    if not form.fullmatch(text):
        yield key, f"expected {words}, found {text[:80]!r}"

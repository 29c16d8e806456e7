"""The data classes of envcheck.lock, read and written as TOML.

Keys are the fields of the data classes.  The file is small, readable, and meant to be kept under version control.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envcheck.core import local_files, toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from installers.recipes.recipe import Recipe

SCHEMA = 1
NAME = "envcheck.lock"
SIZE_LIMIT = 2 << 20  # bytes; 200 wheels take 50 KB
NEXT = _("create a new lock file with `envcheck bundle` or `envcheck provision`")
PATH_LIMIT = 1000
HEAD = "# The exact versions that were installed.  `envcheck provision --locked` installs these and nothing else.\n"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,300}")
_PLAIN = re.compile(r"[A-Za-z0-9_][\w.+!-]{0,250}")
_NOT_IN_HASH = {"notes", "file", "title", "traps", "documents", "models", "prefers", "alternative"}  # only for display


@dataclass(frozen=True)
class LockedImage:
    """`digest` is that of the manifest in the registry; "" for an image from no registry, which only has an `id`."""

    reference: str
    digest: str = ""
    id: str = ""


@dataclass(frozen=True)
class LockedWheel:
    """`file` is the file name; `index` is the recipe's own index, "" for the configured one.

    `source` is the source archive that the wheel was built from, if the index has no wheel, with its own checksum: it
    can be built again from the lock and the index.
    """

    name: str
    version: str
    file: str
    sha256: str
    index: str = ""
    source: str = ""
    source_sha256: str = ""

    @property
    def accepted_sums(self) -> tuple[str, ...]:
        """Return the SHA-256 of the files that pip may install: the wheel, and its source archive."""
        return tuple(filter(None, (self.sha256, self.source_sha256)))


@dataclass(frozen=True)
class LockedCommit:
    """The commit of a cloned repository; `directory` is the folder of the clone, "" in old files."""

    url: str
    commit: str
    directory: str = ""


@dataclass(frozen=True)
class LockedBuild:
    """A file that a build of the recipe created from this commit; `name` is the build's, `path` is in its clone."""

    name: str
    path: str
    sha256: str
    commit: str = ""


@dataclass(frozen=True)
class LockedDriverFile:
    """A vendor's installer that was run; `name` is the recipe's name for it (driver, firmware)."""

    file: str
    sha256: str
    version: str = ""
    name: str = "driver"


@dataclass(frozen=True)
class Lock:
    """The content of a lock file; `architecture` is named as by uname, `python` is the version that the wheels are for;
    `installers` are the vendor's installers other than the driver (firmware); `site` is how the files were reached, for
    readers only."""

    schema: int
    envcheck: str
    recipe: str
    recipe_sha256: str
    architecture: str
    python: str = ""
    image: LockedImage | None = None
    driver: LockedDriverFile | None = None
    wheels: tuple[LockedWheel, ...] = ()
    checkouts: tuple[LockedCommit, ...] = ()
    installers: tuple[LockedDriverFile, ...] = ()
    builds: tuple[LockedBuild, ...] = ()
    site: Mapping[str, str] = field(default_factory=dict)


def hash_recipe(recipe: Recipe) -> str:
    """Return a SHA-256 of everything in the recipe that has an effect, without sources, notes and the file's path.

    Fields with their default are left out, so that a field added by a later envcheck does not change the hash.
    """
    fields = {key: value for key, value in _set_fields(recipe).items() if key not in _NOT_IN_HASH}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _set_fields(value: Any) -> Any:
    """Convert a value for JSON; of data classes only the fields that differ from their default."""
    if dataclasses.is_dataclass(value):
        fields = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {f.name: _set_fields(v) for f, v in fields if v != _default_value(f)}
    if isinstance(value, Mapping):
        return {key: _set_fields(inner) for key, inner in value.items()}
    return [_set_fields(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _default_value(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field; MISSING, which equals nothing else, if it has none."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def render_lock(lock: Lock) -> str:
    """Return the text of the lock file; empty fields are left out."""
    return HEAD + "".join(_render_table(lock, ""))


def _render_table(value: Any, head: str) -> Iterator[str]:
    """Yield plain values first, as TOML requires, then tables, then lists of tables."""
    fields = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    yield from (f"{name} = {_render_scalar(v)}\n" for name, v in fields if isinstance(v, (str, int)) and v != "")
    for name, inner in fields:
        if dataclasses.is_dataclass(inner):
            yield f"\n[{head}{name}]\n"
            yield from _render_table(inner, f"{head}{name}.")
        if isinstance(inner, Mapping) and inner:
            yield f"\n[{head}{name}]\n"
            yield from (f"{_render_scalar(key)} = {_render_scalar(text)}\n" for key, text in inner.items())
    for name, items in fields:
        for item in items if isinstance(items, tuple) else ():
            yield f"\n[[{head}{name}]]\n"
            yield from _render_table(item, f"{head}{name}.")


def _render_scalar(value: str | int) -> str:
    """Render a scalar: TOML's basic strings are those of JSON, except that DEL must be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else str(value)


def write_lock(path: Path, lock: Lock) -> None:
    """Write the lock file atomically."""
    local_files.write_file(path, render_lock(lock))


def load_lock(path: Path) -> Lock:
    """Return the lock in a file; raise UsageError with file and key if it is not valid."""
    return parse_lock(toml_file.read_text(path, SIZE_LIMIT, _("lock")), str(path))


def parse_lock(text: str, file: str) -> Lock:
    """Return the lock in `text`; raise UsageError with file and key if it is not valid."""
    table = toml_file.parse_table(text, file, NEXT)
    if table.get("schema") != SCHEMA or type(table["schema"]) is not int:
        found = ascii(str(table.get("schema")))[:40]
        raise UsageError(
            _("{file}: schema: expected {schema}, got {found}", file=file, schema=SCHEMA, found=found),
            _("this envcheck supports no other schema; {next_step}", next_step=NEXT),
        )
    try:
        lock = toml_file.load_record(Lock, table, file)
    except UsageError as err:
        raise UsageError(err.message, err.next_step or NEXT) from None
    for key, wrong in _find_complaints(lock):
        raise UsageError(_("{file}: {key}: {wrong}", file=file, key=key, wrong=wrong), NEXT)
    return lock


def _find_complaints(lock: Lock) -> Iterator[tuple[str, str]]:
    """Yield (key, complaint) for values that are not safe in commands or as file names."""
    yield from _check_format("recipe", lock.recipe, _PLAIN, _("a recipe name"))
    yield from _check_format("recipe_sha256", lock.recipe_sha256, _SHA256, _("64 hexadecimal digits"))
    yield from _check_format("architecture", lock.architecture, _PLAIN, _("x86_64 or aarch64"))
    if lock.image:
        yield from _check_format("image.reference", lock.image.reference, _REFERENCE, _("an image name"))
        for key, digest in (("image.digest", lock.image.digest), ("image.id", lock.image.id)):
            if digest:
                yield from _check_format(key, digest, _DIGEST, _("`sha256:` followed by 64 hexadecimal digits"))
    named = [("driver", lock.driver)] if lock.driver else []
    for key, each in (*named, *((f"installers[{n}]", each) for n, each in enumerate(lock.installers))):
        yield from _check_format(f"{key}.file", each.file, _PLAIN, _("a file name"))
        yield from _check_format(f"{key}.sha256", each.sha256, _SHA256, _("64 hexadecimal digits"))
    for number, commit in enumerate(lock.checkouts):
        yield from _check_format(
            f"checkouts[{number}].commit", commit.commit, _COMMIT, _("a full commit hash in hexadecimal digits")
        )
        if commit.url.startswith("-") or not commit.url:
            yield f"checkouts[{number}].url", _("expected a repository URL")
    for number, built in enumerate(lock.builds):
        yield from _check_build(f"builds[{number}]", built)
    yield from _check_wheels(lock)


def _check_build(key: str, built: LockedBuild) -> Iterator[tuple[str, str]]:
    yield from _check_format(f"{key}.name", built.name, _PLAIN, _("a build name"))
    yield from _check_format(f"{key}.sha256", built.sha256, _SHA256, _("64 hexadecimal digits"))
    if built.commit:
        yield from _check_format(f"{key}.commit", built.commit, _COMMIT, _("a full commit hash in hexadecimal digits"))
    parts = built.path.split("/")
    if not built.path.isprintable() or len(built.path) > PATH_LIMIT or not all(parts) or ".." in parts:
        yield f"{key}.path", _("expected a file inside the clone, got {path!r}", path=built.path[:80])


def _check_wheels(lock: Lock) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for number, wheel in enumerate(lock.wheels):
        key = f"wheels[{number}]"
        yield from _check_format(f"{key}.sha256", wheel.sha256, _SHA256, _("64 hexadecimal digits"))
        if not is_file_of(wheel.file, wheel.name, wheel.version):
            yield (
                f"{key}.file",
                _(
                    "{file!r} is not a file of {name} {version}",
                    file=wheel.file[:100],
                    name=wheel.name[:60],
                    version=wheel.version[:40],
                ),
            )
        if wheel.source or wheel.source_sha256:
            yield from _check_format(f"{key}.source_sha256", wheel.source_sha256, _SHA256, _("64 hexadecimal digits"))
            yield from _check_format(f"{key}.source", wheel.source, _PLAIN, _("a file name"))
        if wheel.index and not re.match(r"https?://", wheel.index):
            yield f"{key}.index", _("expected an https:// URL")
        if canonicalize_name(wheel.name) in seen:
            yield key, _("duplicate entry: {name}", name=wheel.name[:60])
        seen.add(canonicalize_name(wheel.name))


def is_file_of(file: str, name: str, version: str) -> bool:
    """Return whether this is the name of a wheel or source archive of this package and version."""
    try:
        wanted = canonicalize_name(name), Version(version)
        if file.endswith(".whl"):
            return bool(_PLAIN.fullmatch(file)) and parse_wheel_filename(file)[:2] == wanted
        stem = re.sub(r"\.(tar\.gz|zip|tar\.bz2)$", "", file)
        found, _unused, number = stem.rpartition("-")
        return bool(_PLAIN.fullmatch(file)) and stem != file and (canonicalize_name(found), Version(number)) == wanted
    except (InvalidWheelFilename, InvalidVersion):
        return False


def _check_format(key: str, text: str, form: re.Pattern[str], words: str) -> Iterator[tuple[str, str]]:
    if not form.fullmatch(text):
        yield key, _("expected {form}, got {found!r}", form=words, found=text[:80])

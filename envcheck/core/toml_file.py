"""TOML files that may come from strangers: bounded, UTF-8, and every way of being wrong told in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError

try:
    import tomli as tomllib  # compiled where there is a wheel, then four times as fast as Python's own
except ImportError:  # a pod, or a host that has Python alone
    import tomllib  # type: ignore[no-redef, import-not-found, unused-ignore]


def text(path: Path, limit: int, what: str) -> str:
    """What stands in the file, at most `limit` bytes; `what` it should be only names it in sentences."""
    try:
        if not path.is_file():
            raise UsageError(f"{path}: not a file", f"name the {what} itself; ls -l {path.parent}")
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {(err.strerror or str(err)).lower()}", f"ls -l {path}") from None
    if len(raw) > limit:
        raise UsageError(f"{path}: larger than {limit >> 10} KiB: this is no {what}", f"name the {what} itself")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: not UTF-8 text: {_short(err)}", f"write the {what} as UTF-8") from None


def table(text: str, file: str, next_step: str) -> dict[str, Any]:
    """The table that the text holds; `file` only names it."""
    try:
        read: dict[str, Any] = tomllib.loads(text)
        return read
    except (ValueError, RecursionError) as err:  # TOMLDecodeError, or a number of thousands of digits
        raise UsageError(f"{file}: this is not TOML: {_short(err)}", next_step) from None


def _short(err: Exception) -> str:
    return str(err).splitlines()[0][:120] if str(err) else type(err).__name__

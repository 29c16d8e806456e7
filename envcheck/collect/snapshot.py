"""A machine's answers in one JSON file, to be judged elsewhere; a stranger's file is hostile input.

{"schema": 2, "envcheck": version, "device": "auto", "answers": {key: {outcome, out, err, status, elapsed_s}}}
Nothing of it is run or used as a path: answers are looked up by the keys of the questions that envcheck itself asks.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.model import Answer, Outcome
from envcheck.core.version import SCHEMA_VERSION, __version__
from envcheck.vendors import VENDORS

FILE_LIMIT, TEXT_LIMIT, ANSWERS_LIMIT, KEY_LIMIT = 64 << 20, 4 << 20, 4096, 512
OUTCOMES = {outcome.value: outcome for outcome in Outcome}
NEXT = "record one with: envcheck snapshot -o FILE"


def dump(answers: Mapping[str, Answer], device: str) -> str:
    """The document; answers are redacted by facts.ask, and cut here to what `load` accepts."""
    document = {
        "schema": SCHEMA_VERSION,
        "envcheck": __version__,
        "device": device,
        "answers": {
            key: {
                "outcome": a.outcome.value,
                "out": a.out[:TEXT_LIMIT],
                "err": a.err[:TEXT_LIMIT],
                "status": a.status,
                "elapsed_s": round(a.elapsed_s, 3),
            }
            for key, a in sorted(answers.items())
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def write(path: Path, text: str) -> None:
    """Whole or not at all; the file is its owner's alone, since it tells much about a machine.

    A device or a pipe (/dev/stdout) is written into: a rename would put a file in its place.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            _write_file(path.resolve(), text)  # behind a link, its target
    except OSError as err:
        raise UsageError(f"cannot write {path}: {err.strerror}", "choose another file with -o") from err


def _write_file(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def probe_writable(path: Path) -> None:
    """Say at once that the file cannot be written, before a machine is asked for half a minute."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {path.absolute().parent}"
        raise UsageError(f"cannot write {path}: {what}", "choose another file with -o")
    special = path.exists() and not path.is_file()
    if not os.access(path if special else path.resolve().parent, os.W_OK):
        what = "it" if special else "the folder"
        raise UsageError(f"cannot write {path}: {what} is not writable", "choose another file with -o")


def load(path: Path) -> tuple[dict[str, Answer], str]:
    """Answers and the device that was asked for; UsageError in one sentence for anything that is no snapshot."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
    except OSError as err:
        raise UsageError(f"cannot read {path}: {err.strerror}", NEXT) from err
    if len(raw) > FILE_LIMIT:
        raise UsageError(f"{path} is larger than {FILE_LIMIT >> 20} MiB, which no snapshot is", NEXT)
    return parse(raw, str(path))


def parse(raw: bytes, name: str = "the snapshot") -> tuple[dict[str, Answer], str]:
    try:
        said = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{name} is not JSON: {_short(err)}", NEXT) from err
    if not isinstance(said, dict) or said.get("schema") != SCHEMA_VERSION or type(said.get("schema")) is not int:
        schema = said.get("schema") if isinstance(said, dict) else None
        if schema is None:
            raise UsageError(f"{name} is no snapshot: it names no schema", NEXT)
        raise UsageError(f"{name} is no snapshot of schema {SCHEMA_VERSION} (it says {str(schema)[:20]!r})", NEXT)
    device, answers = said.get("device", "auto"), said.get("answers")
    if not isinstance(device, str) or device not in (*VENDORS, "auto"):
        raise UsageError(f"{name}: device is none that envcheck knows", NEXT)
    if not isinstance(answers, dict) or len(answers) > ANSWERS_LIMIT:
        raise UsageError(f"{name}: answers must be an object of at most {ANSWERS_LIMIT} entries", NEXT)
    return {key: read_answer(name, key, value) for key, value in answers.items()}, device


def read_answer(name: str, key: Any, value: Any) -> Answer:
    """One entry, each part of its own type; keys beyond these are of a later envcheck and left aside."""
    if not isinstance(key, str) or len(key) > KEY_LIMIT or not isinstance(value, dict):
        raise UsageError(f"{name}: {str(key)[:60]!r} is no answer", NEXT)
    out, err, status = value.get("out", ""), value.get("err", ""), value.get("status")
    elapsed = value.get("elapsed_s", 0.0)
    right = (
        isinstance(out, str)
        and isinstance(err, str)
        and len(out) <= TEXT_LIMIT
        and len(err) <= TEXT_LIMIT
        and (status is None or type(status) is int)
        and type(elapsed) in (int, float)
        and abs(elapsed) < 1e6
    )
    outcome = value.get("outcome")
    if not right or not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise UsageError(f"{name}: the answer to {key[:60]!r} is malformed", NEXT)
    return Answer(key, OUTCOMES[outcome], out, err, status, float(elapsed))


def _short(err: Exception) -> str:
    return "nested too deeply" if isinstance(err, RecursionError) else str(err)[:80]

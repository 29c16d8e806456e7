"""A host's answers in one JSON file, to be checked elsewhere.  The file is untrusted input.

{"schema": 2, "envcheck": version, "device": "auto", "answers": {key: {outcome, out, err, status, elapsed_s}}}

No part of it is executed or used as a path: answers are looked up by the keys of envcheck's own questions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.core import local_files
from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import Message, _, verbatim
from envcheck.core.model import Answer, Outcome
from envcheck.core.version import SCHEMA_VERSION, __version__
from envcheck.vendors import VENDORS

FILE_LIMIT, TEXT_LIMIT, ANSWERS_LIMIT, KEY_LIMIT = 64 << 20, 4 << 20, 4096, 512
OUTCOMES = {outcome.value: outcome for outcome in Outcome}
NEXT = _("record one with: envcheck snapshot -o FILE")


def render_snapshot(answers: Mapping[str, Answer], device: str) -> str:
    """Return the document; texts are cut to the limits that `load_snapshot` accepts.  Answers must be redacted
    already."""
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


def write_snapshot(path: Path, text: str) -> None:
    """Write the file, readable only by its owner: it describes the host in detail."""
    local_files.write_file(path, text, 0o600)


def load_snapshot(path: Path) -> tuple[dict[str, Answer], str]:
    """Return the answers and the device of a snapshot file. UsageError if it is not a valid snapshot."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
    except OSError as err:
        raise UsageError(_("cannot read {path}: {strerror}", path=path, strerror=describe_os_error(err)), NEXT) from err
    if len(raw) > FILE_LIMIT:
        raise UsageError(
            _(
                "{path} is larger than {file_limit} MiB, too large for a snapshot",
                path=path,
                file_limit=FILE_LIMIT >> 20,
            ),
            NEXT,
        )
    return parse_snapshot(raw, str(path))


def parse_snapshot(raw: bytes, name: str = _("the snapshot")) -> tuple[dict[str, Answer], str]:
    """Return the answers and the device of a snapshot; `name` is its name in errors. Raises UsageError."""
    try:
        document = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as err:
        raise UsageError(_("{name} is not valid JSON: {err}", name=name, err=_describe_error(err)), NEXT) from err
    if (
        not isinstance(document, dict)
        or document.get("schema") != SCHEMA_VERSION
        or type(document.get("schema")) is not int
    ):
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema is None:
            raise UsageError(_("{name} is not a snapshot: no schema field", name=name), NEXT)
        raise UsageError(
            _(
                "{name}: expected snapshot schema {schema_version}, got {schema!r}",
                name=name,
                schema_version=SCHEMA_VERSION,
                schema=str(schema)[:20],
            ),
            NEXT,
        )
    device, answers = document.get("device", "auto"), document.get("answers")
    if not isinstance(device, str) or device not in (*VENDORS, "auto"):
        raise UsageError(_("{name}: unknown device", name=name), NEXT)
    if not isinstance(answers, dict) or len(answers) > ANSWERS_LIMIT:
        raise UsageError(
            _(
                "{name}: answers must be an object with at most {answers_limit} entries",
                name=name,
                answers_limit=ANSWERS_LIMIT,
            ),
            NEXT,
        )
    return {key: read_answer(name, key, value) for key, value in answers.items()}, device


def read_answer(name: str, key: Any, value: Any) -> Answer:
    """Return one answer after checking the type of each field; unknown fields of later versions are ignored."""
    if not isinstance(key, str) or len(key) > KEY_LIMIT or not isinstance(value, dict):
        raise UsageError(_("{name}: {key!r} is not a valid answer", name=name, key=str(key)[:60]), NEXT)
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
        raise UsageError(_("{name}: the answer to {key!r} is malformed", name=name, key=key[:60]), NEXT)
    return Answer(key, OUTCOMES[outcome], out, err, status, float(elapsed))


def _describe_error(err: Exception) -> Message:
    return _("nested too deeply") if isinstance(err, RecursionError) else verbatim(str(err)[:80])

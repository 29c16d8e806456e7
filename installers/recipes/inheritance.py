"""Inheritance between recipe files: `like` in a file and in a job.  Pure: works on tables, reads no files.

like = "ernie-300b-npu" takes the values of that recipe, except name, title, models, traps, usual and
alternative.  In a job,
like = "sft" takes a job of that recipe or an earlier job of this file, named by method.variant.role.  An option in
`arguments` replaces the inherited option of the same name, new options are appended, options named in `without` are
removed, and instead = {"a.py" = "b.py"} replaces each text of the job that equals the first by the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join

Table = Mapping[str, Any]
OWN = ("name", "title", "models", "traps", "usual", "jobs", "like", "alternative")  # never inherited
_MERGED_BY_OPTION = "arguments"
_NAMES = ("method", "variant", "role")
_HERE = ("like", "instead", "without")
DEPTH = 4


def expand_table(
    table: Table, find: Callable[[str, str], tuple[Table, str]], file: str, depth: int = DEPTH, shown: str = ""
) -> dict[str, Any]:
    """Return the table of the file with all inherited values; `shown` is the name of the file in errors.

    `find` returns the table of a recipe, and its file, by its name and the file that is like it.
    """
    shown = shown or file
    base: Table = {}
    if "like" in table:
        name = _require_text(table["like"], f"{shown}: like")
        if not depth:
            raise UsageError(
                _(
                    "{file}: like: {name!r} exceeds the limit of {depth} levels of inheritance",
                    file=shown,
                    name=name[:80],
                    depth=DEPTH,
                )
            )
        found, path = find(name, file)
        base = expand_table(found, find, path, depth - 1, f"{shown}: like {name}")
    left_out = {*OWN, *(("prefers",) if _changes_place(table) else ())}
    made = merge_tables({key: value for key, value in base.items() if key not in left_out}, table)
    if "jobs" in table or "jobs" in base:
        made["jobs"] = _expand_jobs(table.get("jobs", base.get("jobs")), base.get("jobs", []), shown)
    return made


def _changes_place(table: Table) -> bool:
    """Whether a recipe has an image of its own and no alternative: what the other recipe prefers says nothing of it."""
    return "image" in table and "alternative" not in table


def merge_tables(base: Table, own: Table) -> dict[str, Any]:
    """Return `base` overridden by `own`; tables are merged, but lists and values with a note are replaced."""
    made = dict(base)
    for key, value in own.items():
        both = _is_open(made.get(key)) and _is_open(value)
        made[key] = merge_tables(made[key], value) if both else value
    return made


def _is_open(value: Any) -> bool:
    return isinstance(value, dict) and "value" not in value


def _expand_jobs(jobs: Any, base: Any, file: str) -> Any:
    """Return the jobs with inherited values; anything but a list of tables is returned for the loader to reject."""
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        return jobs
    known = {_job_name(job): job for job in base if isinstance(job, dict)}
    made = []
    for job in jobs:
        name = _job_name(job) or "?"
        made.append(
            _expand_job(
                job,
                known,
                f"{file}: jobs.{name[:80] if name.isprintable() else ascii(name)[:80]}",
            )
        )
        known[_job_name(made[-1])] = made[-1]
    return made


def _expand_job(job: Table, known: Mapping[str, Table], where: str) -> dict[str, Any]:
    if "like" not in job:
        return dict(job)
    name = _require_text(job["like"], f"{where}.like")
    if name not in known:
        raise UsageError(
            _("{where}.like: unknown job {name!r}", where=where, name=name[:80]),
            _("available: {names}", names=join(", ", known) if known else _("none")),
        )
    base = {key: value for key, value in known[name].items() if key not in ("variant", "role")}
    base = _apply_replacements(base, job.get("instead", {}), f"{where}.instead")
    own = {key: value for key, value in job.items() if key not in _HERE}
    made = merge_tables(base, own)
    made[_MERGED_BY_OPTION] = _merge_by_option(
        base.get(_MERGED_BY_OPTION, []), own.get(_MERGED_BY_OPTION, []), job, where
    )
    return made


def _merge_by_option(base: Any, own: Any, job: Table, where: str) -> Any:
    if not isinstance(base, list) or not isinstance(own, list):
        return own or base
    rows = dict(_group_by_option(base))
    for name in _require_texts(job.get("without", []), f"{where}.without"):
        if rows.pop(name, None) is None:
            raise UsageError(
                _(
                    "{where}.without: {name!r} is not an option of {like!r}",
                    where=where,
                    name=name[:80],
                    like=job["like"],
                )
            )
    return [item for row in {**rows, **dict(_group_by_option(own))}.values() for item in row]


def _group_by_option(items: list[Any]) -> list[tuple[str, list[Any]]]:
    """Group each option with its arguments."""
    rows: list[tuple[str, list[Any]]] = []
    for item in items:
        first = _first_text(item)
        if first.startswith("--") or not rows:
            rows.append((first, []))
        rows[-1][1].append(item)
    return rows


def _first_text(item: Any) -> str:
    """Return the first text of an item, which may be annotated: {value = ["--lr", "1e-4"], ...}."""
    inner = item.get("value") if isinstance(item, dict) else item
    inner = inner[0] if isinstance(inner, list) and inner else inner
    return inner if isinstance(inner, str) else ""


def _apply_replacements(value: Any, table: Any, where: str) -> Any:
    if not isinstance(table, dict) or not all(isinstance(text, str) for text in table.values()):
        raise UsageError(_("{where}: expected a table of texts", where=where))
    return _replace_texts(value, table) if table else value


def _replace_texts(value: Any, table: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return table.get(value, value)
    if isinstance(value, list):
        return [_replace_texts(item, table) for item in value]
    return {key: _replace_texts(inner, table) for key, inner in value.items()} if isinstance(value, dict) else value


def _job_name(job: Table) -> str:
    return ".".join(text for key in _NAMES if isinstance(text := job.get(key), str) and text)


def _require_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(_("{where}: expected text", where=where))
    return value


def _require_texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise UsageError(_("{where}: expected a list of texts", where=where))
    return [_require_text(item, where) for item in value]

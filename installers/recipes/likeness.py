"""What a recipe file leaves to another: `like` in the file, and in a job.  Tables in, tables out, nothing is read here.

like = "ernie-300b-npu" means the values of that recipe, save its name, title, models, traps and usual.  In a job,
like = "sft" is a job of that recipe or an earlier one of this file, by method.variant.role; each option of `arguments`
takes the place of the one of its name, and new ones come last; those that `without` names go; and with
instead = {"a.py" = "b.py"} each text of the job that is the first becomes the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envcheck.core.errors import UsageError

Table = Mapping[str, Any]
OWN = ("name", "title", "models", "traps", "usual", "jobs", "like")  # never taken from another recipe
_MERGED_BY_OPTION = "arguments"
_NAMES = ("method", "variant", "role")
_HERE = ("like", "instead", "without")
DEPTH = 4


def expanded(table: Table, find: Callable[[str], Table], file: str, depth: int = DEPTH) -> dict[str, Any]:
    """The table with everything that it leaves to others; `find` gives a recipe's table by its name."""
    base: Table = {}
    if "like" in table:
        name = _text(table["like"], f"{file}: like")
        if not depth:
            raise UsageError(f"{file}: like: {name[:80]!r} is like another, and so on, more than {DEPTH} times")
        base = expanded(find(name), find, f"{file}: like {name}", depth - 1)
    made = merged({key: value for key, value in base.items() if key not in OWN}, table)
    if "jobs" in table or "jobs" in base:
        made["jobs"] = _jobs(table.get("jobs", base.get("jobs")), base.get("jobs", []), file)
    return made


def merged(base: Table, own: Table) -> dict[str, Any]:
    """`own` over `base`; tables go into each other, values with a note beside them and lists do not."""
    made = dict(base)
    for key, value in own.items():
        both = _is_open(made.get(key)) and _is_open(value)
        made[key] = merged(made[key], value) if both else value
    return made


def _is_open(value: Any) -> bool:
    return isinstance(value, dict) and "value" not in value


def _jobs(jobs: Any, base: Any, file: str) -> Any:
    """The jobs, each with what it takes from another; what is no list of tables is left to the reader's words."""
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        return jobs
    known = {_name(job): job for job in base if isinstance(job, dict)}
    made = []
    for job in jobs:
        name = _name(job) or "?"
        made.append(_job(job, known, f"{file}: jobs.{name[:80] if name.isprintable() else ascii(name)[:80]}"))
        known[_name(made[-1])] = made[-1]
    return made


def _job(job: Table, known: Mapping[str, Table], where: str) -> dict[str, Any]:
    if "like" not in job:
        return dict(job)
    name = _text(job["like"], f"{where}.like")
    if name not in known:
        raise UsageError(f"{where}.like: there is no job {name[:80]!r}", f"there are {', '.join(known) or 'none'}")
    base = {key: value for key, value in known[name].items() if key not in ("variant", "role")}
    base = _instead(base, job.get("instead", {}), f"{where}.instead")
    own = {key: value for key, value in job.items() if key not in _HERE}
    made = merged(base, own)
    made[_MERGED_BY_OPTION] = _by_option(base.get(_MERGED_BY_OPTION, []), own.get(_MERGED_BY_OPTION, []), job, where)
    return made


def _by_option(base: Any, own: Any, job: Table, where: str) -> Any:
    if not isinstance(base, list) or not isinstance(own, list):
        return own or base
    rows = dict(_rows(base))
    for name in _texts(job.get("without", []), f"{where}.without"):
        if rows.pop(name, None) is None:
            raise UsageError(f"{where}.without: {name[:80]!r} is no option of {job['like']!r}")
    return [item for row in {**rows, **dict(_rows(own))}.values() for item in row]


def _rows(items: list[Any]) -> list[tuple[str, list[Any]]]:
    """Each option with the items that belong to it."""
    rows: list[tuple[str, list[Any]]] = []
    for item in items:
        first = _first(item)
        if first.startswith("--") or not rows:
            rows.append((first, []))
        rows[-1][1].append(item)
    return rows


def _first(item: Any) -> str:
    """The first text of an item, which may be annotated: {value = ["--lr", "1e-4"], ...}."""
    inner = item.get("value") if isinstance(item, dict) else item
    inner = inner[0] if isinstance(inner, list) and inner else inner
    return inner if isinstance(inner, str) else ""


def _instead(value: Any, table: Any, where: str) -> Any:
    if not isinstance(table, dict) or not all(isinstance(text, str) for text in table.values()):
        raise UsageError(f"{where}: expected a table of texts")
    return _exchanged(value, table) if table else value


def _exchanged(value: Any, table: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return table.get(value, value)
    if isinstance(value, list):
        return [_exchanged(item, table) for item in value]
    return {key: _exchanged(inner, table) for key, inner in value.items()} if isinstance(value, dict) else value


def _name(job: Table) -> str:
    return ".".join(text for key in _NAMES if isinstance(text := job.get(key), str) and text)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where}: expected text")
    return value


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise UsageError(f"{where}: expected a list of texts")
    return [_text(item, where) for item in value]

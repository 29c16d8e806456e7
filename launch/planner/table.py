"""Many jobs at once: a CSV of configurations in, a CSV of predictions out."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from envcheck.core.errors import EnvcheckError, UsageError
from launch.memory import GIB
from launch.memory.job import Layout
from launch.planner import UNTOLD, rows, shapes, verdict

COLUMNS = ("id", "predicted_gib", "predicted_static_gib", "predicted_verdict", "deciding", "note")
NEEDED = ("model", "method", "cards", "tp", "pp", "sharding", "seq_len", "micro_batch")
KNOWN = {
    *NEEDED, *shapes.SIZES, *shapes.EXPERTS, "id", "framework", "device", "device_mem_gib", "lora_rank", "lora_targets",
    "modules_to_save", "quant", "weight_dtype", "master_weights", "grad_dtype", "optimizer", "vpp", "ep", "etp", "cp",
    "dp", "offload", "device_map", "seq_kind", "grad_accum", "packing", "recompute", "flash_attn", "fused_ce",
    "seq_parallel", "dropout", "compile", "metric", "reading_phase", "rank_reported", "expandable_segments",
    "params_total", "tied", "mlp_kind", "mla",
}  # fmt: skip
LIMIT = 200_000  # rows: a table by mistake is not a table of jobs


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV that has at least the columns without which no job can be made."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no file", "give a CSV file")
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            head(path, reader.fieldnames or ())
            some = itertools.islice(reader, LIMIT + 1)
            table = [{"id": f"{n}", **{k: v or "" for k, v in row.items() if k}} for n, row in enumerate(some, 1)]
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}", "give a CSV file") from err
    except (UnicodeDecodeError, csv.Error) as err:
        raise UsageError(f"{path} is no CSV text in UTF-8: {err}", "give a CSV file") from err
    if len(table) > LIMIT or not table:
        raise UsageError(f"{path}: {'no rows' if not table else f'more than {LIMIT} rows'}", f"1 to {LIMIT} rows")
    return table


def head(path: Path, names: Sequence[str]) -> None:
    """Needed columns are there, each once.  Others are let be: tables of readings have columns for people."""
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise UsageError(f"{path}: no column {_names(missing)}", f"needed are {_names(NEEDED)}")
    twice = sorted({name for name in names if name in KNOWN and list(names).count(name) > 1})
    if twice:
        raise UsageError(f"{path}: column {_names(twice)} twice", "name each column once")


def unknown(table: Iterable[Mapping[str, str]]) -> list[str]:
    """Columns that are not read."""
    return sorted(next(iter(table), {}).keys() - KNOWN)


def predict(row: Mapping[str, str]) -> dict[str, str]:
    """One row's prediction; a row that makes no job says why and is left undecided."""
    try:
        counted(row)
        job = rows.job(row)
        spread(row, job.layout)
        answer = verdict.answer(job)
    except EnvcheckError as err:
        return dict.fromkeys(COLUMNS, "") | {
            "id": row.get("id", ""),
            "predicted_verdict": UNTOLD,
            "note": err.message,
        }
    odd = guessed(row)
    return {
        "id": row.get("id", ""),
        "predicted_gib": f"{answer.reading_gib:.3f}",
        "predicted_static_gib": f"{answer.standing / GIB:.3f}",
        "predicted_verdict": UNTOLD if odd else answer.verdict,
        "deciding": answer.where,
        "note": odd or answer.reason,
    }


def counted(row: Mapping[str, str]) -> None:
    """Refuse lengths, batches and degrees of 0."""
    for key in ("cards", "tp", "pp", "seq_len", "micro_batch"):
        if (row.get(key) or "").strip() and not rows.number(row, key):
            raise UsageError(f"row {row.get('id', '?')}: {key} is {row[key]!r}", f"{key} is 1 or more, or empty")


def guessed(row: Mapping[str, str]) -> str:
    """What of the row's words was not understood, and so left out: a figure may stand, a verdict may not."""
    said = {"method": rows.METHODS, "sharding": rows.SHARDINGS}
    odd = [
        key for key, known in said.items() if not any(word in (row.get(key) or "none full").lower() for word in known)
    ]
    return "; ".join(f"{key} {row[key]!r} is not known and was left out" for key in odd)


def spread(row: Mapping[str, str], x: Layout) -> None:
    """Refuse degrees for which the cards do not suffice; heads are let be, since people edit config.json for them."""
    if x.tp * x.pp * x.cp > x.cards and not x.layer_split:
        raise UsageError(f"row {row.get('id', '?')}: cards is {x.cards}", f"tp x pp x cp is {x.tp * x.pp * x.cp}")


def write(predictions: Iterable[Mapping[str, str]], path: Path) -> None:
    """All of them, or what stood there before: written beside, then renamed."""
    partial = path.with_name(f".{path.name}.part")
    whole = path.is_symlink() or (path.exists() and not path.is_file())  # /dev/stdout, a pipe: never replaced
    try:
        with (path if whole else partial).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(predictions)
        if not whole:
            partial.replace(path)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}", "name a file that can be written") from err
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _names(columns: Iterable[str]) -> str:
    """In quotes, so that they stay what they are in every language."""
    return ", ".join(map(repr, columns))

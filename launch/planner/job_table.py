"""Plan many jobs: read a CSV of configurations, write a CSV of predictions."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError, UsageError, describe_os_error
from envcheck.core.messages import Message, _, join
from launch.memory import GIB
from launch.memory.planned_job import PlannedJob
from launch.planner import UNTOLD, layout_rules, row_models, row_words, table_rows, verdict

COLUMNS = (
    "id",
    "predicted_gib",
    "low_gib",
    "high_gib",
    "predicted_static_gib",
    "predicted_verdict",
    "deciding",
    "note",
)
NEEDED = ("model", "method", "cards", "tp", "pp", "sharding", "seq_len", "micro_batch")
KNOWN = {
    *NEEDED, *row_models.SIZES, *row_models.EXPERTS, "id", "framework", "device", "device_mem_gib", "lora_rank",
    "lora_targets", "modules_to_save", "quant", "weight_dtype", "master_weights", "grad_dtype", "optimizer", "vpp",
    "ep", "etp", "cp",
    "dp", "offload", "device_map", "seq_kind", "grad_accum", "packing", "recompute", "flash_attn", "fused_ce",
    "seq_parallel", "dropout", "compile", "metric", "reading_phase", "rank_reported", "expandable_segments",
    "params_total", "tied", "mlp_kind", "mla", "mtp_layers",
    "reduce_bucket_size", "stage3_max_live_parameters", "stage3_prefetch_bucket_size", "sub_group_size",
}  # fmt: skip
SURPLUS = "cells beyond the header"  # the column of these cells
ALIASES = {"memory_gib": "device_mem_gib"}  # as the option of `envcheck plan`
SEPARATORS = (";", "\t", "|")  # of other tables
MAX_ROWS = 200_000  # rejects a table that was passed by mistake


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV; UsageError if it is unreadable, empty or too large, or lacks a required column."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(_("{path} is not a file", path=path), _("specify a CSV file"))
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            reader.fieldnames = [name_column(name) for name in reader.fieldnames or ()]
            check_header(path, reader.fieldnames)
            reader.restkey = SURPLUS
            some = itertools.islice(reader, MAX_ROWS + 1)
            table = [
                {"id": f"{n}", **{k: v for k, v in join_surplus(row).items() if k and (v or k != "id")}}
                for n, row in enumerate(some, 1)
            ]
    except OSError as err:
        raise UsageError(
            _("{path}: {reason}", path=path, reason=describe_os_error(err)), _("specify a CSV file")
        ) from err
    except (UnicodeDecodeError, csv.Error) as err:
        raise UsageError(
            _("{path} is not a UTF-8 CSV file: {reason}", path=path, reason=err), _("specify a CSV file")
        ) from err
    if len(table) > MAX_ROWS or not table:
        raise UsageError(
            _("{path}: more than {limit} rows", path=path, limit=MAX_ROWS)
            if table
            else _("{path} has no rows", path=path),
            _("use 1 to {limit} rows", limit=MAX_ROWS),
        )
    return table


def name_column(text: str) -> str:
    """Return the name of a column; of a known one also with hyphens or an alias, as the option of `envcheck plan`."""
    name = text.strip().replace("-", "_")
    name = ALIASES.get(name, name)
    return name if name in KNOWN else text


def join_surplus(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the row with the cells beyond the header as one, and without it if all of them are empty."""
    more = ",".join(row.get(SURPLUS) or ()).strip(", ")
    own = {name: value for name, value in row.items() if name != SURPLUS}
    return {**own, SURPLUS: more} if more else own


def check_header(path: Path, names: Sequence[str]) -> None:
    """Raise UsageError for a missing or duplicate column; unknown columns are allowed."""
    missing = [name for name in NEEDED if name not in names]
    if missing and len(names) == 1 and (other := next((mark for mark in SEPARATORS if mark in names[0]), None)):
        raise UsageError(
            _("{path}: columns are separated by {separator!r}", path=path, separator=other),
            _("separate columns with commas"),
        )
    if missing:
        raise UsageError(
            _("{path}: missing column {missing}", path=path, missing=_quote_names(missing)),
            _("required columns: {needed}", needed=_quote_names(NEEDED)),
        )
    twice = sorted({name for name in names if name in KNOWN and list(names).count(name) > 1})
    if twice:
        raise UsageError(
            _("{path}: duplicate column {twice}", path=path, twice=_quote_names(twice)), _("use each column once")
        )


def list_unknown_columns(table: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the columns that are ignored."""
    return sorted(next(iter(table), {}).keys() - KNOWN - {SURPLUS})


def predict_row(row: Mapping[str, str]) -> dict[str, str]:
    """Return the prediction for one row; a row without a valid job gets the verdict "unknown" and a note."""
    try:
        check_surplus(row)
        check_counts(row)
        job = table_rows.build_row_job(row)
        check_degrees(row, job)
        answer = verdict.evaluate_job(job)
    except EnvcheckError as err:
        return dict.fromkeys(COLUMNS, "") | {
            "id": row.get("id", ""),
            "predicted_verdict": UNTOLD,
            "note": join("; ", filter(None, (err.message, err.next_step))),
        }
    odd = [
        *row_words.list_unknown_words(row),
        *row_words.list_unknown_cards(row),
        *row_words.list_missing_sizes(row),
    ]
    assumed = table_rows.describe_assumptions(row, job)
    missing = row_words.describe_missing_framework(row)
    notes = [*odd, *row_words.list_unlisted_names(row), *(note for note in (missing, assumed) if note)]
    low, high = verdict.reading_interval(answer)
    return {
        "id": row.get("id", ""),
        "predicted_gib": f"{answer.reading_gib:.3f}",
        "low_gib": f"{low:.3f}",
        "high_gib": f"{high:.3f}",
        "predicted_static_gib": f"{answer.standing / GIB:.3f}",
        "predicted_verdict": UNTOLD if odd else answer.verdict,
        "deciding": answer.deciding_label,
        "note": join("; ", notes if odd else (*notes, answer.reason)),
    }


def check_surplus(row: Mapping[str, str]) -> None:
    """Raise UsageError for a row with more cells than the header: a comma without quotes shifts all that follow."""
    if more := row.get(SURPLUS):
        raise UsageError(
            _("more cells than columns; beyond the last column: {cells}", cells=more[:80]),
            _("put cells with commas in double quotes"),
        )


def check_counts(row: Mapping[str, str]) -> None:
    """Raise UsageError for lengths, batches and degrees of 0."""
    for key in table_rows.COUNTS:
        if (row.get(key) or "").strip() and not table_rows.parse_number(row, key):
            raise UsageError(
                _("{key} is {value!r}", key=key, value=row[key]),
                _("{key} must be at least 1, or empty", key=key),
            )


def describe_unknown_words(table: Iterable[Mapping[str, str]]) -> Iterator[Message]:
    """Yield a message for each row, with its number and id, that has words which are ignored or replaced."""
    for number, row in enumerate(table, 1):
        if odd := [
            *row_words.list_unknown_words(row),
            *row_words.list_unknown_cards(row),
            *row_words.list_unlisted_names(row),
        ]:
            yield _("row {row}: {words}", row=_name_row(number, row), words=join("; ", odd))


def describe_failed_rows(predictions: Iterable[Mapping[str, str]]) -> Iterator[Message]:
    """Yield a message for each row without a prediction, with its number and id."""
    for number, answer in enumerate(predictions, 1):
        if not answer["predicted_gib"]:
            yield _("row {row} has no prediction: {reason}", row=_name_row(number, answer), reason=answer["note"])


def _name_row(number: int, row: Mapping[str, str]) -> str:
    name = row.get("id", "")
    return f"{number}" if name in ("", f"{number}") else f"{number} ({name})"


def check_degrees(row: Mapping[str, str], job: PlannedJob) -> None:
    """Raise UsageError for degrees that do not divide the cards or a catalogue model, as plan does.

    A row with its own heads records an edited model, which may be divided otherwise.
    """
    names = {name: name for name in layout_rules.OPTIONS}
    if reasons := [*layout_rules.check_cards(job, names)]:
        raise UsageError(join("; ", reasons), _("use a valid degree, or another number of cards"))
    if job.layout.tp == 1 or row_models.parse_count(row, "heads"):
        return
    if reasons := [*layout_rules.check_widths(job, names)]:
        raise UsageError(join("; ", reasons), _("use a valid degree, or add the model's dimensions to the row"))


def format_predictions(predictions: Iterable[Mapping[str, str]]) -> str:
    """Return all predictions as CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(predictions)
    return text.getvalue()


def _quote_names(columns: Iterable[str]) -> str:
    """Return column names in quotes, the same in every language."""
    return ", ".join(map(repr, columns))

"""Write options as keys of a YAML file, each value in its JSON form, which is valid YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
# Always strings: the trainers split them at commas (PaddleFormers 1.2, cli/hparams/data_args.py).
TEXTS = ("train_dataset_prob", "eval_dataset_prob")
_WORDS = {"true": "true", "false": "false"}


def render_yaml(rows: Mapping[str, Sequence[str]], head: str) -> str:
    """Return the file: `head` as a comment, then one line per option."""
    lines = [
        f"{name}: {json.dumps(values[0]) if name in TEXTS else _format_value(values)}" for name, values in rows.items()
    ]
    return "\n".join([f"# {head}", *lines]) + "\n"


def _format_value(values: Sequence[str]) -> str:
    if not values:
        return "true"
    return _format_scalar(values[0]) if len(values) == 1 else f"[{', '.join(map(_format_scalar, values))}]"


def _format_scalar(value: str) -> str:
    """Return numbers and booleans unquoted, all else quoted; PyYAML reads 1e-5 as text: its mantissa needs a point."""
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    if _WHOLE.fullmatch(value):
        return value
    if _NUMBER.fullmatch(value) and len(value) < 30:
        mantissa, mark, power = value.lower().partition("e")
        point = mantissa if "." in mantissa else f"{mantissa}.0"
        return f"{point}e{power if power[:1] in '+-' else f'+{power}'}" if mark else value
    return json.dumps(value)

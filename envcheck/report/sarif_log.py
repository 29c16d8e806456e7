"""The envelope of a SARIF 2.1.0 log: one run of envcheck with its rules and results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from envcheck.core.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def write_log(results: Sequence[dict[str, Any]], describe_rule: Callable[[str], dict[str, Any]], **run: Any) -> str:
    """Return the log as JSON in plain ASCII; `describe_rule` returns a rule by ID, `run` are further keys."""
    ids = list(dict.fromkeys(result["ruleId"] for result in results))
    index = {rule: n for n, rule in enumerate(ids)}
    whole = {
        "tool": {"driver": {"name": "envcheck", "version": __version__, "rules": [describe_rule(one) for one in ids]}},
        "columnKind": "unicodeCodePoints",
        "results": [{**result, "ruleIndex": index[result["ruleId"]]} for result in results],
        **run,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [whole]}, indent=1, ensure_ascii=True) + "\n"

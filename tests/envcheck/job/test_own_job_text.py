"""The table of a user's own job on a narrow terminal."""

from __future__ import annotations

import pytest

from envcheck.core import language
from envcheck.core.lint.own_job import JobValue, OwnJob, ValueState
from envcheck.core.messages import verbatim
from envcheck.job.own_job_text import render_own_job

VALUES = (
    JobValue("device", "cpu", ValueState.ASSUMED, verbatim("the devices of the machine"), "--device"),
    JobValue("cards", "1", ValueState.ASSUMED, verbatim("all devices of the machine"), "ASCEND_RT_VISIBLE_DEVICES"),
    JobValue("model", "Qwen/Qwen2.5-7B-Instruct", ValueState.READ, verbatim("my.yaml:1")),
)


@pytest.mark.parametrize("chosen", ("en", "zh"))
def test_rows_keep_their_indentation(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    """On 60 columns each row is below the headline, also where its place has a line of its own, in both languages."""
    monkeypatch.setenv("COLUMNS", "60")
    language.choose_language(["--lang", chosen], {})
    try:
        head, *rows = render_own_job(OwnJob("my", "my.yaml", ("my.yaml",), ("train", "my.yaml"), VALUES))
    finally:
        language.choose_language(["--lang", "en"], {})

    assert head[0] != " " and len(rows) > len(VALUES)
    assert [row for row in rows if not row.startswith("  ")] == []

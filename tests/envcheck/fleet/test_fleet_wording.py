"""A fleet report's wording fits the number of its hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.core import language
from envcheck.core.model import Finding, Status
from envcheck.fleet import evaluate
from envcheck.report import Style, formats

FINE, DEAD = Finding("host.memory", Status.OK, "512 GiB"), Finding("fleet.reach", Status.FAIL, "nobody listens")


def render_report(*answering: bool) -> str:
    """Return the report of node1, node2 ..., each passing if it responds."""
    hosts = (
        evaluate.JudgedHost(f"node{n}", (FINE if yes else DEAD,), {"fleet.os": {"": "Ubuntu"}} if yes else {})
        for n, yes in enumerate(answering, 1)
    )
    report = evaluate.compare_hosts(hosts)
    return formats.render("table", replace(report, style=Style(width=200)))


@pytest.mark.parametrize(
    ("answering", "head", "verdict"),
    [
        ([True], "node1: 1 host, responded", "(the host has no issues)"),
        ([False], "node1: 1 host, no response", "(the host has issues; 1 failed)"),
        ([True, True], "node[1-2]: 2 hosts, all responded", "(2 of 2 hosts have no issues)"),
        ([True, False], "node[1-2]: 2 hosts, all but node2 responded", "(1 of 2 hosts has no issues; 1 failed)"),
        ([False] * 3, "node[1-3]: 3 hosts, none responded", "(0 of 3 hosts have no issues; 1 failed)"),
        (
            [True, False, False],
            "node[1-3]: 3 hosts, all but node[2-3] responded",
            "(1 of 3 hosts has no issues; 1 failed)",
        ),
    ],
)
def test_words_fit_the_number(answering: list[bool], head: str, verdict: str) -> None:
    """One host, all, some and none are distinguished; one of one is not "all"."""
    lines = render_report(*answering).splitlines()

    assert lines[0] == f"envcheck doctor on {head}"
    assert lines[2].endswith(verdict)


@pytest.mark.parametrize("answering", [[True], [False], [True, True], [True, False], [False, False]])
def test_in_chinese(answering: list[bool]) -> None:
    """The headline and the verdict have no English sentence."""
    try:
        language.choose_language(["--lang", "zh"], {})
        lines = render_report(*answering).splitlines()
    finally:
        language.choose_language([], {})

    words = " ".join((lines[0], lines[2])).replace("envcheck doctor", "")
    assert not any(word in words for word in ("answer", "host", "well", "fit"))

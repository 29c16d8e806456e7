"""How findings are printed: for people, for programs, and for every terminal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from envcheck import checks, report
from envcheck.collect import facts
from envcheck.core.facts import Facts, SystemFacts
from envcheck.core.model import Finding, Status, fix
from envcheck.core.tool_text import strip_escapes
from envcheck.core.version import SCHEMA_VERSION
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.envcheck.report.report_helpers import make_machine_report, render_table

NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status
HERE = Facts(host=SystemFacts(hostname="h"))


def render_json(found: list[Finding]) -> str:
    return report.formats.render("json", make_machine_report(found, HERE))


def make_finding(status: Status, name: str = "host.memory", **more: object) -> Finding:
    return replace(Finding(name, status, "seen", fix("Do this.", "do it") if status > NOT_APPLICABLE else None), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("severities", "code", "strict"),
    [
        ([], 3, 3),
        ([NOT_APPLICABLE, NOT_APPLICABLE], 3, 3),
        ([OK, NOT_APPLICABLE], 0, 0),
        ([OK, BLOCKED], 0, 0),
        ([BLOCKED], 3, 3),
        ([BLOCKED, FAIL], 1, 1),
        ([OK, WARN], 0, 3),
        ([OK, UNKNOWN], 3, 3),
        ([WARN, UNKNOWN], 3, 3),
        ([FAIL, UNKNOWN, WARN], 1, 1),
    ],
)
def test_exit_codes(severities: list[Status], code: int, strict: int) -> None:
    """0 fit, 1 failing, 3 unknown, nothing checked, or with --strict a warning; what is blocked counts as its cause."""
    findings = [make_finding(s) for s in severities]

    assert (report.exit_code(findings), report.exit_code(findings, strict=True)) == (code, strict)


@pytest.mark.parametrize("name", ["atlas-200t-a2-box16", "h200x8", "cpu"])
def test_fits_sixty_columns(name: str) -> None:
    """On a narrow terminal nothing is wider than it, but for what is to be pasted and for single words."""
    with simulate_machine(name, ["shm-small"]) as machine:
        found = facts.gather_facts(machine)
    lines = render_table(checks.run_checks(found), found, report.Style(width=60)).splitlines()
    wide = [line for line in lines if len(line) > 60 and not line.startswith((" " * 10, "Next: "))]

    assert wide == []


def test_ascii_terminal_gets_ascii() -> None:
    """Without UTF-8 no other sign is printed than ASCII has, and marks still differ."""
    areas = ("host", "links", "toolkit", "driver", "job", "python")
    found = [
        make_finding(s, f"{area}.x", blocked_by="driver.x" * (s is BLOCKED))
        for s, area in zip(Status, areas, strict=True)
    ]
    text = render_table(found, HERE, report.Style(encoding="ascii"))

    assert text.isascii()
    assert all(mark in text for mark in ("[+]", "[-]", "[/]", "[?]", "[!]", "[x]"))


def test_colour_only_when_asked() -> None:
    """Colours are the style's; without them there is no escape at all, and the words are the same."""
    found = [make_finding(FAIL)]
    bare, coloured = (render_table(found, HERE, report.Style(colour=c)) for c in (False, True))

    assert "\x1b" not in bare and "\x1b[31m" in coloured
    assert strip_escapes(coloured) == bare


def test_details_only_where_something_is_wrong() -> None:
    """An area that is well is one line; a finding shows evidence, words and commands."""
    bad = make_finding(WARN, "host.swap", evidence=("$ free", "Swap: 8"))
    text = render_table([make_finding(OK, "driver.tool"), bad], HERE)

    assert "driver.tool" not in text
    assert all(part in text for part in ("host.swap: seen", "| $ free", "| Swap: 8", "Do this.", "          do it"))


def test_one_next_step_and_it_is_the_worst() -> None:
    """The end is one step in words, and its command to paste: a root cause before what may follow from it."""
    found = [
        make_finding(WARN),
        make_finding(FAIL, "host.disk"),
        make_finding(FAIL, "driver.tool", remedy=fix("Load the driver. It is gone.", "modprobe it", "second")),
    ]

    assert render_table(found, HERE).splitlines()[-2:] == ["Next: Load the driver:", "          modprobe it"]
    assert json.loads(render_json(found))["next"] == "Load the driver: modprobe it"


def test_fit_is_not_said_where_something_is_not_told() -> None:
    """A warning together with an unknown result is not ready to train: the sentence matches the exit code."""
    text = render_table([make_finding(WARN), make_finding(UNKNOWN)], HERE)

    assert "Fit" not in text
    assert "No failures, but 1 check could not run." in text


def test_nothing_judged_is_said_plainly() -> None:
    """If no check applied, there is no empty count, and training is not the next step."""
    text = render_table([make_finding(NOT_APPLICABLE)], HERE)

    assert "()" not in text
    assert "envcheck train" not in text


def test_same_trouble_is_told_once() -> None:
    """Checks that could not read the same answer share one entry that names them all."""
    same = [Finding(f"host.{name}", UNKNOWN, "cannot determine (host: hung)") for name in ("memory", "swap", "kernel")]
    text = render_table(same, HERE)

    assert text.count("cannot determine (host: hung)") == 1
    assert "host.memory, host.swap, host.kernel" in text


def test_json_says_all() -> None:
    """One document with schema, verdict, exit code, findings in order, and plain ASCII."""
    text = render_json([make_finding(OK), make_finding(FAIL, evidence=("\x1b[2J×",))])
    said = json.loads(text)

    assert (said["schema"], said["verdict"], said["exit_code"], said["device"]) == (SCHEMA_VERSION, "FAIL", 1, ["cpu"])
    assert [f["status"] for f in said["findings"]] == ["OK", "FAIL"]
    assert text.isascii() and "\\u001b" not in text

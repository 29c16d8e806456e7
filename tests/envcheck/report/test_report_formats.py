"""The formats for programs, each read by the program or the schema that it is for; and where a report is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from defusedxml import ElementTree

from envcheck.checks import custom
from envcheck.cli import doctor_options, schemas
from envcheck.core import local_files
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status, fix
from envcheck.report import DoctorReport, Style, formats, markdown
from envcheck.report.formats import FORMATS
from envcheck.settings.site_config import SiteSettings, Waiver
from tests.envcheck.report import host_reports, sarif_schema
from tests.envcheck.report.report_helpers import (
    FAULTY,
    NOW,
    make_doctor_report,
    make_hostile_report,
    make_machine_report,
)

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra `test`")
xmlschema = pytest.importorskip("xmlschema", reason="xmlschema is in the extra `test`")
parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is in the extra `test`")

ROOT = Path(__file__).parents[3]
REPORTS = {
    "healthy": lambda: make_doctor_report("atlas-800t-a2"),
    "faulty": lambda: make_doctor_report("atlas-800t-a2", FAULTY),
    "box16": lambda: make_doctor_report("atlas-200t-a2-box16"),
    "dies": lambda: make_doctor_report("atlas-800t-a3"),
    "mig": lambda: make_doctor_report("a100x8-mig"),
    "cpu": lambda: make_doctor_report("cpu"),
    "nothing": lambda: make_machine_report((), Facts()),
    "hostile": make_hostile_report,
    "hosts_faulty": host_reports.make_faulty_report,
    "hosts_well": host_reports.make_healthy_report,
    "hosts_strange": host_reports.make_strange_report,
}
SLOW = ("hosts_faulty", "hosts_well", "hosts_strange")
each_report = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in REPORTS]
)


def test_one_renderer_shows_one_host_and_many() -> None:
    """Each format has one module, with equal results for this machine, one host, and each of 64."""
    (here,) = make_doctor_report("atlas-800t-a2", ("shm-small",)).hosts
    name = here.facts.host.hostname if here.facts.host else ""
    hosts = tuple(replace(here, name=f"node{n:02d}") for n in range(64))
    local, one, many = (DoctorReport(some, style=Style(width=10_000)) for some in ((here,), hosts[:1], hosts))

    assert len({one.module for one in FORMATS.values()}) == len(FORMATS) == 7
    for form, each in EACH.items():
        said = [each(formats.render(form, report)) for report in (local, one, many)]
        assert said[0], form
        assert [part.replace("node00", name) for part in said[1]] == said[0], form
        assert [part.replace("node63", name) for part in said[2]][-len(said[0]) :] == said[0], form
        assert len(said[2]) == 64 * len(said[0]), form
    for form, hosts_of in (("table", "node[00-63]"), ("markdown", "node\\[00-63\\]"), ("html", "node[00-63]")):
        text, texts = formats.render(form, one), formats.render(form, many).replace(hosts_of, "node00")
        assert _list_sentences(text) == _list_sentences(texts), form
        assert {words.replace("node00: ", "") for words in _list_sentences(text)} <= _list_sentences(
            formats.render(form, local)
        )


def _list_suites(text: str) -> list[str]:
    cases = ElementTree.fromstring(text).iter("testcase")
    return [ElementTree.tostring(case, encoding="unicode").partition('" name=')[2] for case in cases]


def _list_results(text: str) -> list[str]:
    return [json.dumps(result) for result in json.loads(text)["runs"][0]["results"]]


def _list_samples(text: str) -> list[str]:
    """Of checks, in the order of hosts."""
    return re.findall(r'^envcheck_check_status\{(?:host="\w+",)?(.*)', text, re.MULTILINE)


def _list_documents(text: str) -> list[str]:
    said = json.loads(text)
    return [json.dumps(f) for one in said.get("hosts", {"": said}).values() for f in one["findings"]]


EACH = {"junit": _list_suites, "sarif": _list_results, "prometheus": _list_samples, "json": _list_documents}


def _list_sentences(text: str) -> set[str]:
    """Name and message of the only problem."""
    bare = re.sub(r"<[^>]+>", "", text)
    lines = (line.strip().removeprefix("✗host.shm: ") for line in bare.splitlines())  # a page's group has no own line
    return {line for line in lines if "/dev/shm has " in line}


@each_report
def test_junit_is_valid(kind: str) -> None:
    """JUnit's XML is valid against the schema that Jenkins' plugin publishes, and its sums are those of its cases."""
    report = REPORTS[kind]()
    text = formats.render("junit", report)
    xmlschema.XMLSchema(str(sarif_schema.JUNIT)).validate(text)
    root = ElementTree.fromstring(text)

    for element, total in (("failure", "failures"), ("error", "errors"), ("testcase", "tests")):
        assert int(root.get(total)) == len(root.findall(f".//{element}"))
        assert sum(int(suite.get(total)) for suite in root) == int(root.get(total))
    assert int(root.get("tests")) == len(report.findings)


@each_report
def test_sarif_is_valid(kind: str) -> None:
    """SARIF is valid against the published schema and ours, and each result refers to its rule."""
    report = REPORTS[kind]()
    document = json.loads(formats.render("sarif", report))
    run = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]

    assert sarif_schema.list_sarif_errors(document) == []
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert len(run["results"]) == len(report.findings)


@each_report
def test_json_is_valid(kind: str) -> None:
    """The JSON document matches `envcheck schema doctor`, whatever a machine returned."""
    document = json.loads(formats.render("json", REPORTS[kind]()))
    schema = schemas.build_schema("fleet" if kind.startswith("hosts") else "doctor")
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)

    assert [f"{e.json_path}: {e.message[:200]}" for e in found] == []


@each_report
def test_prometheus_reads_it(kind: str) -> None:
    """Prometheus' own parser reads the text: each metric has its type and help, and no series is there twice."""
    families = list(parser.text_string_to_metric_families(formats.render("prometheus", REPORTS[kind]())))
    samples = [(s.name, tuple(sorted(s.labels.items()))) for family in families for s in family.samples]

    assert {family.type for family in families} == {"gauge"}
    assert all(family.documentation.endswith(".") for family in families)
    assert all(name.startswith("envcheck_") and not name.endswith("_total") for name, _ in samples)
    assert len(samples) == len(set(samples))


def test_prometheus_figures() -> None:
    """Values have base units and device labels; unknown values have no sample."""
    report = make_doctor_report("h200x8", ("memory-held",))
    families = parser.text_string_to_metric_families(formats.render("prometheus", report))
    samples = [sample for family in families for sample in family.samples]
    told = {(s.name, s.labels.get("index"), s.labels.get("check")): s.value for s in samples}
    status = {s.labels["check"]: s.labels["status"] for s in samples if s.name == "envcheck_check_status"}
    counts = {s.labels["status"]: s.value for s in samples if s.name == "envcheck_checks"}

    assert told["envcheck_device_memory_bytes", "0", None] == 143771 * 1024**2
    assert told["envcheck_device_memory_used_bytes", "0", None] == 20480 * 1024**2
    assert told["envcheck_device_utilization_ratio", "0", None] == pytest.approx(0.97)
    assert (status["devices.processes"], status["devices.memory"]) == ("warn", "blocked")
    assert counts.keys() == {*(s.name.lower() for s in Status), "waived"} and counts["blocked"] == 2
    assert told["envcheck_examined_timestamp_seconds", None, None] == NOW.timestamp()
    assert ("envcheck_device_ecc_uncorrected_errors", "0", None) in told
    mig = parser.text_string_to_metric_families(formats.render("prometheus", make_doctor_report("a100x8-mig")))
    assert "envcheck_device_utilization_ratio" not in {family.name for family in mig}


@pytest.mark.slow
def test_formats_name_the_host() -> None:
    """A host's finding is assigned to that host only; unreachable and different hosts are named."""
    shown = {form: formats.render(form, host_reports.make_faulty_report()) for form in FORMATS}
    root = ElementTree.fromstring(shown["junit"])
    failed = {s.get("name") for s in root for c in s.iter("testcase") if c.get("name", "").startswith("devices.count")
              and c.find("failure") is not None}  # fmt: skip
    run = json.loads(shown["sarif"])["runs"][0]
    places = {r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].split("/")[0] for r in run["results"]}
    families = parser.text_string_to_metric_families(shown["prometheus"])
    samples = [sample for family in families for sample in family.samples]
    told = {(s.name, s.labels.get("host"), s.labels.get("check") or s.labels.get("index")): s.value for s in samples}
    status = {(s.labels.get("host"), s.labels["check"]): s.labels["status"] for s in samples if "check" in s.labels}
    named = {
        name: one["outlier_findings"]
        for name, one in json.loads(shown["json"])["hosts"].items()
        if one["outlier_findings"]
    }

    assert failed == {"node02.devices"}
    assert {"node06.fleet", "fleet"} <= {suite.get("name") for suite in root}
    assert places == {"fleet", *(f"node0{n}" for n in range(1, 7))}
    assert (told["envcheck_host_answered", "node01", None], told["envcheck_host_answered", "node06", None]) == (1, 0)
    assert status["node02", "devices.count"] == "fail" and status["node02", "links.topology"] == "blocked"
    assert told["envcheck_device_temperature_celsius", "node03", "0"] == 101
    assert status[None, "fleet.cards"] == "fail"
    assert named == {"node02": ["fleet.cards", "fleet.clock"], "node04": ["fleet.driver"]}
    assert "(2 of 6 hosts have no issues;" in shown["table"]
    for line in ("7 × 910B3 on node02, 8 × 910B3 on node\\[01,03-05\\]",
                 "node06: **✗ fleet.reach**: ssh port refuses connections",
                 "* fleet.names: 30 names lead where they should",
                 "| driver (Huawei Ascend) | 24\\.1.rc1.b030 | node\\[01-03,05\\] |"):  # fmt: skip
        assert line in shown["markdown"]


def test_markdown_marks_waivers() -> None:
    """A waived finding has its own mark, not that of a pass, and its reason."""
    finding = Finding("host.memory", Status.FAIL, "3 GiB free", waived="until 2027-01-31: known")
    (line,) = (
        ln for ln in markdown.render(make_machine_report((finding,), Facts())).splitlines() if "3 GiB free" in ln
    )

    assert line == r"**✗ \[\~\] host.memory**: 3 GiB free *waived until 2027-01-31: known*"


def test_prometheus_names_waivers() -> None:
    """Each waiver is a series with check, reason and last day, whatever characters it contains."""
    reason = 'known "so" \\n C:\\new\nline {a="b"} # \u202e ✓'
    site = SiteSettings(
        "x.toml", waivers=(Waiver("host.swap", reason, date(2027, 1, 31)), Waiver("host.shm", "y", date.max))
    )
    names = ("host.swap", "host.shm", "host.disk")
    found = custom.apply_waivers([Finding(name, Status.FAIL, "x") for name in names], site, NOW.date())
    text = formats.render("prometheus", make_machine_report(tuple(found), Facts()))
    families = {family.name: family.samples for family in parser.text_string_to_metric_families(text)}
    told = {s.labels["check"]: s.labels for s in families["envcheck_waived"]}

    assert len(families["envcheck_waived"]) == 2 and {s.value for s in families["envcheck_waived"]} == {1}
    assert told["host.shm"] == {
        "check": "host.shm", "device": "", "status": "fail", "reason": "y", "until": "9999-12-31"
    }  # fmt: skip
    assert told["host.swap"]["reason"].startswith('known "so" \\n C:\\new')
    assert told["host.swap"]["reason"].endswith("✓") and told["host.swap"]["until"] == "2027-01-31"


ANSWERS = {
    Status.OK: ("", "pass", "none"),
    Status.NOT_APPLICABLE: ("skipped", "notApplicable", "none"),
    Status.BLOCKED: ("skipped", "open", "none"),
    Status.UNKNOWN: ("error", "review", "none"),
    Status.WARN: ("", "fail", "warning"),
    Status.FAIL: ("failure", "fail", "error"),
}


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
def test_statuses_stay_apart(status: Status) -> None:
    """What was not checked or is unknown neither passed nor failed for a CI server or scanner; a waiver suppresses."""
    remedy = fix("Do this.", "do it")
    one = Finding("host.memory", status, "seen", remedy)
    waived = Finding("host.memory", status, "seen", remedy, waived="until 2027-01-31: known")
    report = make_machine_report((one, waived), Facts())
    cases = ElementTree.fromstring(formats.render("junit", report)).findall(".//testcase")
    elements = [next((e.tag for e in case if e.tag != "system-out"), "") for case in cases]
    results = json.loads(formats.render("sarif", report))["runs"][0]["results"]

    assert elements == [ANSWERS[status][0], "skipped"]
    assert (results[0]["kind"], results[0]["level"]) == ANSWERS[status][1:]
    assert ("suppressions" in results[0], "suppressions" in results[1]) == (False, True)


def test_junit_says_once_why_nothing_was_checked() -> None:
    """The message of a blocked check names its cause, without a prefix."""
    finding = Finding("links.numa", Status.BLOCKED, "not checked because of devices.count", device="npu")
    (told,) = ElementTree.fromstring(formats.render("junit", make_machine_report([finding], Facts()))).findall(
        ".//skipped"
    )

    assert told.get("message") == "not checked because of devices.count"


def test_strict_warnings_fail() -> None:
    """With --strict, a warning is a failure for a CI server, as in the exit code."""
    found = (Finding("host.swap", Status.WARN, "seen"),)
    failures = [
        ElementTree.fromstring(formats.render("junit", make_machine_report(found, Facts(), strict=strict))).get(
            "failures"
        )
        for strict in (False, True)
    ]

    assert failures == ["0", "1"]


def test_markdown_shows_what_is_wrong() -> None:
    """Verdict, next step, a row an area and a device, and for each finding its words, commands and evidence in code."""
    text = formats.render("markdown", make_doctor_report("atlas-800t-a2", FAULTY))

    assert "**✗ Not ready to train.**" in text
    assert "| ✗ | Devices |" in text
    assert "| 0 | 910B3 | OK | 23794 / 65536 | 93 |" in text
    assert "| 0 | NVIDIA H200 | - | 0 / 143771 |" in formats.render("markdown", make_doctor_report("h200x8"))
    assert "```text\nenvcheck doctor --fix\nsudo mount -o remount,size=64G /dev/shm\n```" in text


@pytest.mark.parametrize(
    "make", [make_hostile_report, pytest.param(host_reports.make_strange_report, marks=pytest.mark.slow)]
)
def test_markdown_keeps_strangers_in(make: Callable[[], DoctorReport]) -> None:
    """Markup, table marks and fences of a machine's own words are words, and no line is without end."""
    text = formats.render("markdown", make())
    outside = "".join(text.split("```")[::2])

    assert "<script>" not in outside.replace("\\<script\\>", "")
    assert max(map(len, text.splitlines())) < 4000
    assert "\x1b" not in text and "\u202e" not in text and "\x00" not in text


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "html"])
def test_no_control_characters(name: str) -> None:
    """No format passes on what moves a cursor or turns text around."""
    text = formats.render(name, make_hostile_report())

    assert not any(c in text for c in "\x1b\x00\x07\u202e\r")
    assert text.endswith("\n") and len(text) < 20_000_000


def test_formats_of_the_command_line() -> None:
    """The command line offers what the table has."""
    assert tuple(FORMATS) == doctor_options.FORMATS


@pytest.mark.parametrize(
    ("out", "name"),
    [
        ("a.html", "html"),
        ("a.htm", "html"),
        ("a.json", "json"),
        ("a.sarif", "sarif"),
        ("a.sarif.json", "sarif"),
        ("a.xml", "junit"),
        ("a.prom", "prometheus"),
        ("a.md", "markdown"),
        ("a.txt", "table"),
    ],
)
def test_ending_names_the_format(out: str, name: str) -> None:
    """The longest matching file extension selects the format; --format overrides it."""
    assert formats.choose_format(None, False, out) == name
    assert formats.choose_format("junit", False, out) == "junit"
    assert formats.choose_format(None, True, out) == name  # the document of --json is on standard output


def test_json_into_a_file_of_any_name() -> None:
    """Without a known extension, --json selects the format."""
    assert formats.choose_format(None, True, "report") == "json"


@pytest.mark.parametrize(("name", "as_json", "out"), [("html", True, None), (None, False, "a.pdf"), (None, False, "a")])
def test_unclear_formats_are_refused(name: str | None, as_json: bool, out: str | None) -> None:
    """Two formats at once and an ending that means none are refused with a next step."""
    with pytest.raises(UsageError) as caught:
        formats.choose_format(name, as_json, out)

    assert caught.value.next_step


def test_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write keeps the earlier report and leaves no temporary file."""
    place = tmp_path / "r.html"
    local_files.write_file(place, "old")
    place.chmod(0o640)

    def full(self: Path, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space"):
            local_files.write_file(place, "new")
    assert (place.read_text(), list(tmp_path.iterdir())) == ("old", [place])
    local_files.write_file(place, "new ✓")
    assert place.read_text(encoding="utf-8") == "new ✓"
    assert place.stat().st_mode & 0o777 == 0o640


def test_standard_output_may_be_named_as_a_file() -> None:
    """/dev/stdout before a pipe is written to, as any device."""
    code = (
        "from pathlib import Path; from envcheck.core import local_files; "
        "local_files.write_file(Path('/dev/stdout'), 'metrics')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "metrics", "")


def test_links_and_pipes_stay(tmp_path: Path) -> None:
    """Through a link its target is written; into a pipe, or a device such as /dev/null, the text goes as it is."""
    link, pipe = tmp_path / "latest.html", tmp_path / "pipe"
    link.symlink_to("real.html")
    local_files.write_file(link, "page")
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    local_files.write_file(pipe, "metrics")
    reader.join(300)
    local_files.write_file(Path(os.devnull), "gone")

    assert link.is_symlink() and (tmp_path / "real.html").read_text() == "page"
    assert read == ["metrics"] and pipe.is_fifo()
    assert Path(os.devnull).is_char_device()


def run_envcheck(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "simulate", "cpu", "--", sys.executable, "-m", "envcheck", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0"}
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_doctor_writes_a_file(tmp_path: Path) -> None:
    """-o writes the page and reports its path on standard error only; the exit code is that of the verdict."""
    done = run_envcheck("doctor", "-o", "report.html", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "envcheck: report written to report.html\n"
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_doctor_refuses_before_it_looks(tmp_path: Path) -> None:
    """A folder, and a place that is not there, are refused in a sentence with exit code 2."""
    (tmp_path / "d.html").mkdir()
    for place in ("d.html", "no/such.html", ""):
        done = run_envcheck("doctor", "-o", place, cwd=tmp_path)

        assert (done.returncode, done.stdout) == (2, "")
        assert "next: " in done.stderr and "Traceback" not in done.stderr


def test_page_on_any_locale(tmp_path: Path) -> None:
    """The page is UTF-8, as it declares, even on a terminal without UTF-8."""
    argv = [sys.executable, "-m", "envcheck", "simulate", "cpu", "--", sys.executable, "-m", "envcheck"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*argv, "doctor", "--format", "html"], cwd=tmp_path, env=env, capture_output=True, timeout=120
    )

    assert "✓" in done.stdout.decode("utf-8")


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file or directory"), OSError(30, "Read-only")])
def test_unwritable_file_is_an_error(error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that takes no files, such as /proc, is one sentence and no bug."""

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("tempfile.mkstemp", refuse)

    with pytest.raises(UsageError, match="cannot write"):
        local_files.write_file(tmp_path / "x.html", "text")

"""envcheck.toml: settings, errors, and which files may run commands."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck import checks, settings
from envcheck.checks import custom
from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, SystemFacts
from envcheck.core.model import Answer, Finding, Outcome, Question, Status
from envcheck.settings import envcheck_toml as settings_file
from envcheck.settings.site_config import CustomCheck, SiteSettings, Waiver
from envcheck.settings.thresholds import THRESHOLDS, minimum_size_share, threshold_value

WHOLE = """
[[waive]]
check = "host.swap"
reason = "no other disk"
expires = 2027-01-31

[thresholds]
"host.memory.warn_gib" = 4
host.shm.fail_gib = 0.5

[[check]]
name = "own.licence"
command = ["lmstat", "-a"]
pattern = "server UP"
unwanted = "expired"
remedy = "Ask them."
severity = "warn"
timeout_s = 3
"""
DAY = datetime.date(2026, 11, 21)
OWN = '[[check]]\nname = "own.a"\ncommand = ["true"]\npattern = "x"\nremedy = "y"\n'


def load_settings(folder: Path, text: str) -> SiteSettings:
    file = folder / "site.toml"
    file.write_text(text)
    return settings.load_settings(str(file))


def run_doctor(folder: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "doctor", "--json", *more]
    return subprocess.run(argv, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


def test_whole_file(tmp_path: Path) -> None:
    """Every key is read, quoted or not."""
    found = load_settings(tmp_path, WHOLE)

    assert found.waivers == (Waiver("host.swap", "no other disk", datetime.date(2027, 1, 31)),)
    assert found.thresholds == {"host.memory.warn_gib": 4, "host.shm.fail_gib": 0.5}
    assert found.checks[0].question.what == ("lmstat", "-a")
    assert (found.checks[0].severity, found.checks[0].question.timeout_s) == (Status.WARN, 3)
    assert found.trusted


WRONG = [
    ("[[waiver]]", "did you mean waive"),
    ('[[waive]]\nchek = "a.b"', "waive[0].chek: unknown key"),
    ('[[waive]]\ncheck = "a"\nreason = "b"', "waive[0].expires: missing (a date such as"),
    ('[[waive]]\ncheck = "a"\nreason = "b"\nexpires = "2027-01-31"', "without quotes"),
    ('[[waive]]\ncheck = "a"\nexpires = 2027-01-31', "waive[0].reason: missing (text expected)"),
    ('[[waive]]\ncheck = "a.b"\nreason = " "\nexpires = 2027-01-31', "waive[0].reason: empty"),
    ('[[waive]]\ncheck = "host"\nreason = "b"\nexpires = 2027-01-31', "name of one check"),
    ("waive = 3", "waive: expected a list of tables, found the number 3"),
    ("[thresholds]\nhost.memory.warn_gb = 4", "did you mean host.memory.warn_gib"),
    ("[thresholds]\nhost.memory.warn_gib = -1", "from 0 to 1e9"),
    ("[thresholds]\nhost.memory.warn_gib = true", "from 0 to 1e9"),
    ("[thresholds]\nhost.memory.warn_gib = nan", "from 0 to 1e9"),
    ("thresholds = 4", "thresholds: expected a table"),
    (OWN.replace("own.a", "host.memory"), "check[0].name: expected own. followed by a lower-case word"),
    (OWN.replace('["true"]', '"true"'), "check[0].command: expected a list of texts"),
    (OWN.replace('["true"]', "[]"), "list of arguments"),
    (OWN.replace('pattern = "x"\n', ""), "expected `pattern`"),
    (OWN.replace('"x"', '"("'), "expected a regular expression"),
    (OWN + 'severity = "bad"', "expected one of fail, warn"),
    (OWN + "timeout_s = 9999", "at most 120"),
    (OWN + OWN, "twice"),
    ("=", "not valid TOML"),
    ("a = " + "[" * 5000, "not valid TOML"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_wrong_file(tmp_path: Path, text: str, words: str) -> None:
    """An error names the file and what was expected, with a next step."""
    with pytest.raises(UsageError) as refused:
        load_settings(tmp_path, text)
    assert "site.toml" in refused.value.message and words in f"{refused.value.message}; {refused.value.next_step}"
    assert refused.value.next_step


@pytest.mark.parametrize("text", [text for text, _ in WRONG if text not in ("=", "a = " + "[" * 5000)])
def test_wrong_file_in_chinese(tmp_path: Path, text: str, chinese: None) -> None:
    """The errors are Chinese; only names to type and the parser's own text stay English."""
    with pytest.raises(UsageError) as refused:
        load_settings(tmp_path, text)
    said = language.translate(refused.value.message).removeprefix(f"{tmp_path / 'site.toml'}：")

    assert re.search("[一-鿿]", said) and "没有键 [[" not in said
    assert not re.search(r"\b(must|there is|did you|needs|is empty|is no|at most|or be)\b", said), said
    assert language.translate(settings_file.NEXT) == "envcheck.toml 示例见 docs/how-to/write-a-check.md"


def test_threshold_decides() -> None:
    """The site's figure takes the default's place."""
    facts = Facts(host=SystemFacts(memory_available_bytes=6 << 30))
    name = "host.memory.warn_gib"
    stricter = [f.status for f in checks.run_checks(facts, ["host.memory"])]
    looser = [f.status for f in checks.run_checks(Facts(host=facts.host, thresholds={name: 4}), ["host.memory"])]

    assert (stricter, looser) == ([Status.WARN], [Status.OK])
    assert threshold_value(Facts(), name) == THRESHOLDS[name].value and 0.9 < minimum_size_share(Facts()) < 1


@pytest.mark.parametrize(
    ("answer", "severity"),
    [
        (Answer("run t", Outcome.ANSWERED, "server UP"), Status.OK),
        (Answer("run t", Outcome.FAILED, "server UP", status=1), Status.OK),
        (Answer("run t", Outcome.ANSWERED, "server DOWN"), Status.FAIL),
        (Answer("run t", Outcome.ANSWERED, "server UP, licence expired"), Status.FAIL),
        (Answer("run t", Outcome.EMPTY), Status.FAIL),
        (Answer("run t", Outcome.ABSENT, err="t: not found"), Status.UNKNOWN),
        (Answer("run t", Outcome.HUNG), Status.UNKNOWN),
        (None, Status.UNKNOWN),
    ],
)
def test_own_check(answer: Answer | None, severity: Status) -> None:
    """Expected output, other output, absent, unreadable: a missing tool never passes."""
    mine = CustomCheck("own.t", Question("run", ("t",)), "Ask them.", "says", "server UP", "expired")
    more = custom.load_custom_checks(SiteSettings("site.toml", checks=(mine,)))
    found = checks.run_checks(Facts(answers={"run t": answer} if answer else {}), ["own.t"], own=more)

    assert [(f.name, f.status) for f in found] == [("own.t", severity)]
    assert severity is not Status.FAIL or (found[0].remedy and found[0].evidence)


@pytest.mark.parametrize(
    ("outcome", "seen", "advice"),
    [
        (Outcome.HUNG, "lmstat timed out after 3 s (timeout_s)", "Run the command and measure how long it takes"),
        (Outcome.ABSENT, "lmstat: not found", "Install the program, or set its full path in command."),
    ],
)
def test_remedy_of_command_without_answer(outcome: Outcome, seen: str, advice: str, tmp_path: Path) -> None:
    """The finding names the program and the key that sets the deadline; the site's own remedy is not for this case."""
    site = load_settings(tmp_path, WHOLE)
    answers = {"run lmstat -a": Answer("run lmstat -a", outcome, err="lmstat: not found")}
    (found,) = checks.run_checks(Facts(answers=answers), ["own.licence"], own=custom.load_custom_checks(site))

    assert (found.status, found.seen) == (Status.UNKNOWN, seen)
    assert found.remedy and found.remedy.commands == ("lmstat -a",)
    assert found.remedy.words.startswith(advice) and "Ask them" not in found.remedy.words


def test_evidence_is_quoted_as_a_shell_reads_it(tmp_path: Path) -> None:
    """A command with several arguments can be pasted from the evidence."""
    text = OWN.replace('["true"]', '["echo", "hi there"]').replace('pattern = "x"', 'unwanted = "hi"')
    answers = {"run echo hi there": Answer("run echo hi there", Outcome.ANSWERED, "hi there")}
    (found,) = checks.run_checks(
        Facts(answers=answers), ["own.a"], own=custom.load_custom_checks(load_settings(tmp_path, text))
    )

    assert found.evidence == ("$ echo 'hi there'", "hi there")
    assert found.seen == "echo 'hi there' printed an unwanted line: hi there"


@pytest.mark.slow
def test_pattern_that_never_ends_is_called_off() -> None:
    """A regular expression with catastrophic backtracking is stopped at its deadline and reported as unknown."""
    mine = CustomCheck("own.t", Question("run", ("t",)), "Ask them.", "says", "(a+)+b")
    answer = Answer("run t", Outcome.ANSWERED, "a" * 60)
    found = checks.run_checks(
        Facts(answers={"run t": answer}), ["own.t"], own=custom.load_custom_checks(SiteSettings("s", checks=(mine,)))
    )

    assert [f.status for f in found] == [Status.UNKNOWN]
    assert found[0].seen == "the pattern search timed out after 5 s"


def test_waiver_holds_until_its_day() -> None:
    """A waiver is valid through the named day; passing findings are not waived."""
    site = SiteSettings("site.toml", waivers=(Waiver("host.swap", "why", DAY),))
    bad, well = Finding("host.swap", Status.FAIL, "x"), Finding("host.swap", Status.OK, "x")

    assert [f.waived for f in custom.apply_waivers([bad, well], site, DAY)] == [f"until {DAY}: why", ""]
    assert custom.apply_waivers([bad], site, DAY + datetime.timedelta(days=1)) == [bad]


def test_waived_finding_counts_for_no_verdict(tmp_path: Path) -> None:
    """A waived finding is listed with its reason but does not affect the exit code; an expired waiver is reported."""
    (tmp_path / "envcheck.toml").write_text(
        '[thresholds]\nhost.memory.warn_gib = 1e6\n[[waive]]\ncheck = "host.memory"\nreason = "small on purpose"\n'
        'expires = 2999-01-01\n[[waive]]\ncheck = "host.shm"\nreason = "x"\nexpires = 2020-01-01\n'
    )
    done = run_doctor(tmp_path, "--only", "host.memory", "--only", "own", "--strict")
    said = {f["name"]: f for f in json.loads(done.stdout)["findings"]}

    assert said["host.memory"]["status"] == "WARN"
    assert said["host.memory"]["waived"] == "until 2999-01-01: small on purpose"
    assert said["own.waivers"]["status"] == "WARN" and "host.shm since 2020-01-01" in said["own.waivers"]["seen"]
    assert done.returncode == 3
    alone = run_doctor(tmp_path, "--only", "host.memory", "--strict")
    assert (alone.returncode, json.loads(alone.stdout)["verdict"]) == (0, "OK")


def test_unknown_check_is_not_waived(tmp_path: Path) -> None:
    """A waiver for an unknown check is an error."""
    (tmp_path / "envcheck.toml").write_text('[[waive]]\ncheck = "host.memori"\nreason = "x"\nexpires = 2999-01-01\n')
    done = run_doctor(tmp_path, "--only", "host.cores")
    assert done.returncode == 2 and "host.memory" in done.stderr


def test_an_area_is_not_advised_where_none_is_taken() -> None:
    """The name suggested for a waiver is always a check, never an area."""
    with pytest.raises(UsageError) as refused:
        checks.resolve_check_names(["network.*"], whole=False)
    assert refused.value.next_step and refused.value.next_step.startswith("did you mean network.")


@pytest.mark.slow
def test_strangers_commands_are_not_run(tmp_path: Path) -> None:
    """Settings found in the working folder set limits, but their commands run only if the file is named explicitly or
    is the user's own."""
    text = OWN.replace('["true"]', f'["touch", "{tmp_path / "ran"}"]')
    (tmp_path / "envcheck.toml").write_text(text)
    strange = run_doctor(tmp_path, "--only", "own")
    ran_unasked = (tmp_path / "ran").exists()
    run_doctor(tmp_path, "--only", "own", "--config", "envcheck.toml")
    ran_named = (tmp_path / "ran").exists()
    (tmp_path / "home" / "envcheck").mkdir(parents=True)
    (tmp_path / "home" / "envcheck" / "envcheck.toml").write_text(text.replace('"ran"', '"ran too"'))
    (tmp_path / "empty").mkdir()
    at_home = run_doctor(tmp_path / "empty", "--only", "own", XDG_CONFIG_HOME=str(tmp_path / "home"))

    assert (
        not ran_unasked
        and "envcheck.toml was found in this folder but not p" in strange.stdout
        and strange.returncode == 3
    )
    assert ran_named
    assert json.loads(at_home.stdout)["findings"][0]["status"] == "FAIL"


def test_entry_point(tmp_path: Path) -> None:
    """Checks of an installed package run; a package that fails to load is reported as a finding."""
    (tmp_path / "site_checks.py").write_text(
        "from envcheck.core.check import machine_check\n"
        "from envcheck.core.findings import ok\n"
        "def fine(facts):\n    'All is fine.'\n    yield ok('fine')\n"
        "MINE = [machine_check('own.fine', fine, reads='nothing', source='us')]\n"
    )
    info = tmp_path / "site_checks-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-checks\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[envcheck.checks]\nmine = site_checks:MINE\nlost = site_checks:NOT_THERE\n")
    done = run_doctor(tmp_path, "--only", "own", PYTHONPATH=str(tmp_path))
    said = {f["name"]: f["status"] for f in json.loads(done.stdout)["findings"]}

    assert said == {"own.fine": "OK", "own.lost": "UNKNOWN"}


def test_thresholds_are_shown(tmp_path: Path) -> None:
    """Each with its default and source, and the file that sets another."""
    (tmp_path / "envcheck.toml").write_text("[thresholds]\nhost.memory.warn_gib = 4\n")
    argv = [sys.executable, "-m", "envcheck", "doctor", "--show-thresholds"]
    shown = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout

    assert "host.memory.warn_gib = 4 (envcheck.toml; default 8)" in shown
    assert all(f"{name} = " in shown and known.source in shown for name, known in THRESHOLDS.items())

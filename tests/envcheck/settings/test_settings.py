"""envcheck.toml: what it sets, what it refuses, and whose commands are run."""

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
from envcheck.core.facts import Facts, Host
from envcheck.core.model import Answer, Finding, Outcome, Question, Status
from envcheck.settings import file as settings_file
from envcheck.settings.site_settings import OwnCheck, Settings, Waiver
from envcheck.settings.thresholds import THRESHOLDS, least_share, limit

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


def loaded(folder: Path, text: str) -> Settings:
    file = folder / "site.toml"
    file.write_text(text)
    return settings.load(str(file))


def doctor(folder: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "doctor", "--json", *more]
    return subprocess.run(argv, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


def test_whole_file(tmp_path: Path) -> None:
    """Every key is read, quoted or not."""
    found = loaded(tmp_path, WHOLE)

    assert found.waivers == (Waiver("host.swap", "no other disk", datetime.date(2027, 1, 31)),)
    assert found.thresholds == {"host.memory.warn_gib": 4, "host.shm.fail_gib": 0.5}
    assert found.checks[0].question.what == ("lmstat", "-a")
    assert (found.checks[0].severity, found.checks[0].question.timeout_s) == (Status.WARN, 3)
    assert found.trusted


WRONG = [
    ("[[waiver]]", "did you mean waive"),
    ('[[waive]]\nchek = "a.b"', "waive[0].chek: there is no such key; did you mean check?"),
    ('[[waive]]\ncheck = "a"\nreason = "b"', "waive[0].expires: missing (a day such as"),
    ('[[waive]]\ncheck = "a"\nreason = "b"\nexpires = "2027-01-31"', "without quotes"),
    ('[[waive]]\ncheck = "a"\nexpires = 2027-01-31', "waive[0].reason: missing (text expected)"),
    ('[[waive]]\ncheck = "a.b"\nreason = " "\nexpires = 2027-01-31', "waive[0].reason: is empty"),
    ('[[waive]]\ncheck = "host"\nreason = "b"\nexpires = 2027-01-31', "name of one check"),
    ("waive = 3", "waive: expected a list of tables, found the number 3"),
    ("[thresholds]\nhost.memory.warn_gb = 4", "did you mean host.memory.warn_gib"),
    ("[thresholds]\nhost.memory.warn_gib = -1", "from 0 to 1e9"),
    ("[thresholds]\nhost.memory.warn_gib = true", "from 0 to 1e9"),
    ("[thresholds]\nhost.memory.warn_gib = nan", "from 0 to 1e9"),
    ("thresholds = 4", "thresholds: expected a table"),
    (OWN.replace("own.a", "host.memory"), "check[0].name: expected own. and a word"),
    (OWN.replace('["true"]', '"true"'), "check[0].command: expected a list of texts"),
    (OWN.replace('["true"]', "[]"), "list of words"),
    (OWN.replace('pattern = "x"\n', ""), "expected a pattern"),
    (OWN.replace('"x"', '"("'), "expected a regular expression"),
    (OWN + 'severity = "bad"', "expected one of fail, warn"),
    (OWN + "timeout_s = 9999", "at most 120"),
    (OWN + OWN, "twice"),
    ("=", "not TOML"),
    ("a = " + "[" * 5000, "not TOML"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_wrong_file(tmp_path: Path, text: str, words: str) -> None:
    """One sentence that names the file and what was expected, with a next step."""
    with pytest.raises(UsageError) as refused:
        loaded(tmp_path, text)
    assert "site.toml" in refused.value.message and words in f"{refused.value.message}; {refused.value.next_step}"
    assert refused.value.next_step


@pytest.mark.parametrize("text", [text for text, _ in WRONG if text not in ("=", "a = " + "[" * 5000)])
def test_wrong_file_in_chinese(tmp_path: Path, text: str, chinese: None) -> None:
    """The same sentences are Chinese; only names to type and a parser's own words stay."""
    with pytest.raises(UsageError) as refused:
        loaded(tmp_path, text)
    said = language.say(refused.value.message).removeprefix(f"{tmp_path / 'site.toml'}：")

    assert re.search("[一-鿿]", said) and "没有键 [[" not in said
    assert not re.search(r"\b(must|there is|did you|needs|is empty|is no|at most|or be)\b", said), said
    assert language.say(settings_file.NEXT).startswith("docs/settings.md 中")


def test_threshold_decides() -> None:
    """The site's figure takes the default's place."""
    facts = Facts(host=Host(memory_available_bytes=6 << 30))
    name = "host.memory.warn_gib"
    stricter = [f.status for f in checks.run_all(facts, ["host.memory"])]
    looser = [f.status for f in checks.run_all(Facts(host=facts.host, thresholds={name: 4}), ["host.memory"])]

    assert (stricter, looser) == ([Status.WARN], [Status.OK])
    assert limit(Facts(), name) == THRESHOLDS[name].value and 0.9 < least_share(Facts()) < 1


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
    """Right, wrong, absent, unreadable: a tool that is missing is never green."""
    mine = OwnCheck("own.t", Question("run", ("t",)), "Ask them.", "says", "server UP", "expired")
    more = custom.checks(Settings("site.toml", checks=(mine,)))
    found = checks.run_all(Facts(answers={"run t": answer} if answer else {}), ["own.t"], own=more)

    assert [(f.name, f.status) for f in found] == [("own.t", severity)]
    assert severity is not Status.FAIL or (found[0].remedy and found[0].evidence)


@pytest.mark.parametrize(
    ("outcome", "seen"),
    [(Outcome.HUNG, "lmstat did not end within its timeout_s, 3 s"), (Outcome.ABSENT, "lmstat: not found")],
)
def test_what_did_not_answer_is_run_by_hand(outcome: Outcome, seen: str, tmp_path: Path) -> None:
    """The deadline is named with the key that sets it, the program once; what the site advises is for another case."""
    site = loaded(tmp_path, WHOLE)
    answers = {"run lmstat -a": Answer("run lmstat -a", outcome, err="lmstat: not found")}
    (found,) = checks.run_all(Facts(answers=answers), ["own.licence"], own=custom.checks(site))

    assert (found.status, found.seen) == (Status.UNKNOWN, seen)
    assert found.remedy and found.remedy.commands == ("lmstat -a",)
    assert found.remedy.words.startswith("Run it by hand") and "Ask them" not in found.remedy.words


def test_evidence_is_quoted_as_a_shell_reads_it(tmp_path: Path) -> None:
    """A command of several words can be pasted from what is shown."""
    text = OWN.replace('["true"]', '["echo", "hi there"]').replace('pattern = "x"', 'unwanted = "hi"')
    answers = {"run echo hi there": Answer("run echo hi there", Outcome.ANSWERED, "hi there")}
    (found,) = checks.run_all(Facts(answers=answers), ["own.a"], own=custom.checks(loaded(tmp_path, text)))

    assert found.evidence == ("$ echo 'hi there'", "hi there")
    assert found.seen == "echo 'hi there' says what it must not: hi there"


@pytest.mark.slow
def test_pattern_that_never_ends_is_called_off() -> None:
    """A pattern that would search for years costs its deadline, and is no verdict."""
    mine = OwnCheck("own.t", Question("run", ("t",)), "Ask them.", "says", "(a+)+b")
    answer = Answer("run t", Outcome.ANSWERED, "a" * 60)
    found = checks.run_all(
        Facts(answers={"run t": answer}), ["own.t"], own=custom.checks(Settings("s", checks=(mine,)))
    )

    assert [f.status for f in found] == [Status.UNKNOWN]
    assert "did not end" in found[0].seen


def test_waiver_holds_until_its_day() -> None:
    """The day that is named is the last; what is well is not waived."""
    site = Settings("site.toml", waivers=(Waiver("host.swap", "why", DAY),))
    bad, well = Finding("host.swap", Status.FAIL, "x"), Finding("host.swap", Status.OK, "x")

    assert [f.waived for f in custom.waived([bad, well], site, DAY)] == [f"until {DAY}: why", ""]
    assert custom.waived([bad], site, DAY + datetime.timedelta(days=1)) == [bad]


def test_waived_finding_counts_for_no_verdict(tmp_path: Path) -> None:
    """It stands in the report with its reason, and the exit code is that of the rest; an expired one is told."""
    (tmp_path / "envcheck.toml").write_text(
        '[thresholds]\nhost.memory.warn_gib = 1e6\n[[waive]]\ncheck = "host.memory"\nreason = "small on purpose"\n'
        'expires = 2999-01-01\n[[waive]]\ncheck = "host.shm"\nreason = "x"\nexpires = 2020-01-01\n'
    )
    done = doctor(tmp_path, "--only", "host.memory", "--only", "own", "--strict")
    said = {f["name"]: f for f in json.loads(done.stdout)["findings"]}

    assert said["host.memory"]["status"] == "WARN"
    assert said["host.memory"]["waived"] == "until 2999-01-01: small on purpose"
    assert said["own.waivers"]["status"] == "WARN" and "host.shm since 2020-01-01" in said["own.waivers"]["seen"]
    assert done.returncode == 3
    alone = doctor(tmp_path, "--only", "host.memory", "--strict")
    assert (alone.returncode, json.loads(alone.stdout)["verdict"]) == (0, "OK")


def test_unknown_check_is_not_waived(tmp_path: Path) -> None:
    """A waiver for a check that is not there is a mistake, not nothing."""
    (tmp_path / "envcheck.toml").write_text('[[waive]]\ncheck = "host.memori"\nreason = "x"\nexpires = 2999-01-01\n')
    done = doctor(tmp_path, "--only", "host.cores")
    assert done.returncode == 2 and "host.memory" in done.stderr


def test_an_area_is_not_advised_where_none_is_taken() -> None:
    """What is proposed for a waiver is a check, which would be taken."""
    with pytest.raises(UsageError) as refused:
        checks.named(["network.*"], whole=False)
    assert refused.value.next_step and refused.value.next_step.startswith("did you mean network.")


@pytest.mark.slow
def test_strangers_commands_are_not_run(tmp_path: Path) -> None:
    """A file that lies in the folder sets figures, but its commands run only when it is named, or is the user's own."""
    text = OWN.replace('["true"]', f'["touch", "{tmp_path / "ran"}"]')
    (tmp_path / "envcheck.toml").write_text(text)
    strange = doctor(tmp_path, "--only", "own")
    ran_unasked = (tmp_path / "ran").exists()
    doctor(tmp_path, "--only", "own", "--config", "envcheck.toml")
    ran_named = (tmp_path / "ran").exists()
    (tmp_path / "home" / "envcheck").mkdir(parents=True)
    (tmp_path / "home" / "envcheck" / "envcheck.toml").write_text(text.replace('"ran"', '"ran too"'))
    (tmp_path / "empty").mkdir()
    at_home = doctor(tmp_path / "empty", "--only", "own", XDG_CONFIG_HOME=str(tmp_path / "home"))

    assert not ran_unasked and "nobody named it" in strange.stdout and strange.returncode == 3
    assert ran_named
    assert json.loads(at_home.stdout)["findings"][0]["status"] == "FAIL"


def test_entry_point(tmp_path: Path) -> None:
    """A package's checks are run; one that cannot be loaded is a finding."""
    (tmp_path / "site_checks.py").write_text(
        "from envcheck.core.check import of_machine\n"
        "from envcheck.core.findings import ok\n"
        "def fine(facts):\n    'All is fine.'\n    yield ok('fine')\n"
        "MINE = [of_machine('own.fine', fine, reads='nothing', source='us')]\n"
    )
    info = tmp_path / "site_checks-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-checks\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[envcheck.checks]\nmine = site_checks:MINE\nlost = site_checks:NOT_THERE\n")
    done = doctor(tmp_path, "--only", "own", PYTHONPATH=str(tmp_path))
    said = {f["name"]: f["status"] for f in json.loads(done.stdout)["findings"]}

    assert said == {"own.fine": "OK", "own.lost": "UNKNOWN"}


def test_thresholds_are_shown(tmp_path: Path) -> None:
    """Each with its default and source, and the file that sets another."""
    (tmp_path / "envcheck.toml").write_text("[thresholds]\nhost.memory.warn_gib = 4\n")
    argv = [sys.executable, "-m", "envcheck", "doctor", "--show-thresholds"]
    shown = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout

    assert "host.memory.warn_gib = 4 (envcheck.toml; default 8)" in shown
    assert all(f"{name} = " in shown and known.source in shown for name, known in THRESHOLDS.items())

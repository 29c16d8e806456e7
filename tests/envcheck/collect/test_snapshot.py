"""Snapshots replay the recorded machine elsewhere; files from others are handled safely."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck import checks
from envcheck.collect import facts, snapshot
from envcheck.collect.fact_reader import read_facts
from envcheck.core import secrets
from envcheck.core.errors import UsageError
from envcheck.core.model import Answer, Outcome
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report import formats
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.envcheck.report.report_helpers import make_machine_report, render_table

ENVCHECK = [sys.executable, "-m", "envcheck"]
TOKEN = "hf_" + "a1B2" * 8


def run_envcheck(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENVCHECK, *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **env}, check=False
    )


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("atlas-800t-a2", "health-alarm"),
        ("bi-v150x8", "card-lost"),
        ("a100x8-mig", "ecc"),
        ("h200x8", "tool-missing"),
        ("cpu", ""),
    ],
)
def test_replay_equals_live(name: str, fault: str) -> None:
    """Findings of the recording are the machine's own, in text and in JSON, byte for byte."""
    with simulate_machine(name, [fault] if fault else []) as machine:
        answers = facts.ask_machine(machine)
    read, device = snapshot.parse_snapshot(snapshot.render_snapshot(answers, "auto").encode())
    live, replayed = read_facts(answers), read_facts(read, device)

    assert render_table(checks.run_checks(replayed), replayed) == render_table(checks.run_checks(live), live)
    said = [formats.render("json", make_machine_report(checks.run_checks(one), one)) for one in (replayed, live)]
    assert said[0] == said[1]


@pytest.mark.slow
def test_commands_end_to_end(tmp_path: Path) -> None:
    """A simulated machine is recorded, then replayed elsewhere with the same findings and exit code."""
    file = tmp_path / "machine.json"
    recorded = run_envcheck(
        "simulate", "atlas-800t-a3", "--fault", "ecc", "--", "envcheck", "snapshot", "-o", str(file)
    )
    live = run_envcheck("simulate", "atlas-800t-a3", "--fault", "ecc", "--", "envcheck", "doctor", COLUMNS="80")
    replayed = run_envcheck("doctor", "--replay", str(file), COLUMNS="80")

    assert (recorded.returncode, recorded.stdout) == (0, "")
    assert (replayed.returncode, blank_free_sizes(replayed.stdout)) == (live.returncode, blank_free_sizes(live.stdout))
    assert replayed.returncode == 1


def blank_free_sizes(text: str) -> str:
    return re.sub(r"\d+(\.\d+)? (GiB|MiB) free", "N free", text)


def test_snapshot_is_its_owners_alone(tmp_path: Path) -> None:
    """The snapshot is written atomically with mode 0600; no temporary file remains."""
    file = tmp_path / "machine.json"
    snapshot.write_snapshot(file, "{}")

    assert file.stat().st_mode & 0o077 == 0
    assert [p.name for p in tmp_path.iterdir()] == ["machine.json"]


def test_link_is_followed_and_a_device_is_no_file(tmp_path: Path) -> None:
    """A symbolic link given to -o is followed; a pipe is written to and stays a pipe."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    snapshot.write_snapshot(tmp_path / "link", "{}")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    snapshot.write_snapshot(tmp_path / "pipe", "{}")

    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "{}"
    assert os.read(reader, 9) == b"{}" and (tmp_path / "pipe").is_fifo()
    os.close(reader)


@pytest.mark.slow
def test_full_disk_is_a_sentence() -> None:
    """A full device gives a one-line error and exit code 2, and /dev/full keeps its mode."""
    before = os.stat("/dev/full").st_mode  # noqa: PTH116
    done = run_envcheck("snapshot", "--device", "cpu", "-o", "/dev/full")

    assert done.returncode == 2
    assert "no space left on device" in done.stderr and "Traceback" not in done.stderr
    assert os.stat("/dev/full").st_mode == before  # noqa: PTH116


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("doctor",), ("doctor", "--json"), ("snapshot", "-o", "-")])
def test_full_standard_output_is_a_sentence(arguments: tuple[str, ...]) -> None:
    """A full device on standard output gives a one-line error and the documented exit code."""
    with Path("/dev/full").open("w") as full:
        argv = [*ENVCHECK, *arguments, "--device", "cpu"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "envcheck: cannot write: no space left on device",
        "  next: free disk space (check with df -h), then run the command again",
    ]


def test_unwritable_place_is_said_before_the_machine_is_asked(tmp_path: Path) -> None:
    """A missing folder is reported before any fact is collected."""
    done = run_envcheck("snapshot", "-o", str(tmp_path / "no" / "machine.json"))

    assert done.returncode == 2
    assert "does not exist" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        f"token={TOKEN}",
        f'{{"HF_TOKEN": "{TOKEN}"}}',
        f"https://user:{TOKEN}@proxy:3128/",
        f"Authorization: Bearer {TOKEN}",
        f"password: {TOKEN}, more",
        f"run with {TOKEN} please",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    """Tokens and passwords are redacted wherever they occur."""
    assert TOKEN not in secrets.redact_text(text)


WORD = "correcthorse"  # not recognizable by itself, only by its context


@pytest.mark.parametrize(
    "text",
    [
        f"http://me:{WORD}@proxy:3128",
        f"http://me:p@{WORD}/x@proxy:3128",
        f"http:\\/\\/me:{WORD}@proxy:3128",
        f"https://{WORD}@mirror.local/v2/",
        f'{{"HttpProxy": "me:{WORD}@proxy:3128"}}',
        f'{{"auths": {{"x": {{"auth": "{WORD}"}}}}}}',
        f"Authorization: Basic {WORD}",
        f"--password {WORD} --port 8080",
        f"/opt/agent/token={WORD}/lib.so",
    ],
)
def test_secrets_of_no_known_shape_are_taken_out(text: str) -> None:
    """User info in URLs, registry keys, option values and assignments are redacted."""
    assert WORD not in secrets.redact_text(text)


def test_proxy_variable_needs_no_scheme() -> None:
    """As curl, proxy variables without http:// are recognized: the host is kept, the password is redacted."""
    assert secrets.redact_variable("https_proxy", f"me:{WORD}@proxy:3128") == "proxy:3128"


@pytest.mark.parametrize(
    "text", ["git+https://github.com/a/b@v1.0", "http://proxy:8080/a@b", "author: Jane", "--max-tokens 512"]
)
def test_addresses_and_counts_stay(text: str) -> None:
    """An @ in a path or author, a port and a count are not redacted."""
    assert secrets.redact_text(text) == text


@pytest.mark.parametrize("text", ["GPU-8a56a4bc serial 1025C9048791", "http://a.b/c?d=e", "10.0.0.1:2379", "user@host"])
def test_what_is_no_secret_stays(text: str) -> None:
    """Serial numbers, UUIDs and addresses are what a report is about."""
    assert secrets.redact_text(text) == text


def test_secret_never_reaches_a_snapshot(tmp_path: Path) -> None:
    """A proxy's password and a token in the environment are not in the recording."""
    file = tmp_path / "machine.json"
    env = {"HTTPS_PROXY": f"http://me:{TOKEN}@proxy:1", "PADDLE_API_TOKEN": TOKEN, "MASTER_ADDR": "10.0.0.1"}
    done = run_envcheck("snapshot", "--device", "cpu", "-o", str(file), **env)
    text = file.read_text(encoding="utf-8")

    assert done.returncode == 0
    assert TOKEN not in text
    assert "10.0.0.1" in text


HOSTILE = {
    "empty": b"",
    "no json": b"npu-smi info",
    "binary": bytes(range(256)),
    "deep": b"[" * 200_000,
    "deep in a value": b'{"schema": 2, "answers": ' + b'{"a":' * 100_000,
    "list": b"[]",
    "schema of tomorrow": b'{"schema": 3}',
    "schema true": b'{"schema": true, "answers": {}}',
    "device unheard of": b'{"schema": 2, "device": "../../etc", "answers": {}}',
    "answers a list": b'{"schema": 2, "answers": []}',
    "answer a number": b'{"schema": 2, "answers": {"run lspci": 4}}',
    "outcome unheard of": b'{"schema": 2, "answers": {"run lspci": {"outcome": "great"}}}',
    "out a list": b'{"schema": 2, "answers": {"a": {"outcome": "answered", "out": []}}}',
    "status a text": b'{"schema": 2, "answers": {"a": {"outcome": "answered", "status": "0"}}}',
    "time not a number": b'{"schema": 2, "answers": {"a": {"outcome": "answered", "elapsed_s": NaN}}}',
    "long key": b'{"schema": 2, "answers": {"' + b"k" * 9999 + b'": {}}}',
    "many": json.dumps({"schema": 2, "answers": {str(n): {} for n in range(9999)}}).encode(),
    "long text": json.dumps({"schema": 2, "answers": {"a": {"outcome": "answered", "out": "x" * (5 << 20)}}}).encode(),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_file_is_refused_in_a_sentence(raw: bytes) -> None:
    """A file that is not a snapshot gives a one-line error with a next step, not a traceback."""
    with pytest.raises(UsageError) as refused:
        snapshot.parse_snapshot(raw)

    assert "\n" not in refused.value.message and refused.value.next_step


def test_a_reader_ignores_unknown_keys() -> None:
    """A snapshot of a later envcheck with more keys, at the top or in an answer, is read as if they were not there."""
    known = {"schema": SCHEMA_VERSION, "device": "npu", "answers": {"run lspci": {"outcome": "answered", "out": "x"}}}
    answers = {key: {**answer, "later": [1]} for key, answer in known["answers"].items()}
    more = {**known, "later": {"a": 1}, "answers": answers}

    assert snapshot.parse_snapshot(json.dumps(more).encode()) == snapshot.parse_snapshot(json.dumps(known).encode())


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    """A file beyond the bound is refused before it is parsed."""
    file = tmp_path / "huge.json"
    with file.open("wb") as sparse:
        sparse.truncate(snapshot.FILE_LIMIT + 2)

    with pytest.raises(UsageError, match="larger than"):
        snapshot.load_snapshot(file)


def test_missing_file_and_other_device_are_usage(tmp_path: Path) -> None:
    """No file, and a device that was not recorded: exit code 2."""
    file = tmp_path / "machine.json"
    file.write_text(snapshot.render_snapshot({}, "npu"), encoding="utf-8")

    assert run_envcheck("doctor", "--replay", str(tmp_path / "none.json")).returncode == 2
    assert run_envcheck("doctor", "--replay", str(file), "--device", "nvidia").returncode == 2


def test_terminal_escapes_are_never_printed() -> None:
    """Terminal escapes, bells and bidirectional marks of a recording are not printed."""
    nasty = "\x1b]0;owned\x07\x1b[2J\u202eNPU\x9b31m broken \x08\x00"
    with simulate_machine("atlas-800t-a2") as machine:
        answers = facts.ask_machine(machine)
    forged = {key: Answer(key, Outcome.FAILED, a.out, nasty + a.err, 9) for key, a in answers.items()}
    host = json.loads(answers["ask host"].out)
    forged["ask host"] = Answer("ask host", Outcome.ANSWERED, json.dumps({**host, "hostname": nasty, "kernel": nasty}))
    found = read_facts(forged)
    text = render_table(checks.run_checks(found), found)

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
collectors = st.sampled_from(["host", "disks", "limits", "environment", "network", "clock", "packages"])
names = st.sampled_from(
    [
        "hostname",
        "kernel",
        "/",
        "/dev/shm",
        ".",
        "interfaces",
        "packages",
        "environments",
        "synchronised",
        "python",
    ]
)


@pytest.mark.slow
@given(st.dictionaries(collectors, st.dictionaries(names, values, max_size=6) | values, max_size=7))
def test_forged_host_is_judged_without_a_crash(forged: dict[str, object]) -> None:
    """Whatever types a recording claims, each check answers, and none by crashing."""
    answers = {f"ask {n}": Answer(f"ask {n}", Outcome.ANSWERED, json.dumps(value)) for n, value in forged.items()}
    findings = checks.run_checks(read_facts(answers, "npu"))

    assert len(findings) >= 50
    assert not [f for f in findings if "crashed" in f.seen]


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    """Any bytes: answers, or UsageError."""
    try:
        answers, _ = snapshot.parse_snapshot(raw)
    except UsageError:
        return
    assert isinstance(answers, dict)


@pytest.mark.parametrize("name", ["atlas-200t-a2-box16", "atlas-800t-a3"])
def test_quick_way_reads_what_the_parser_reads(name: str) -> None:
    """The fast path for simple follow-ups gives the same values as the tool's full parser."""
    from envcheck.collect import answer_parsers
    from envcheck.core.derived.key_value import fields
    from envcheck.vendors import VENDORS

    with simulate_machine(name, ["ecc", "health-alarm", "link-down"]) as machine:
        answers = facts.ask_machine(machine)
    quick = {
        key: answer_parsers.parse_follow_up(VENDORS["npu"], a) for key, a in answers.items() if " -i " in key and a.ok
    }
    read = [
        (key, k, v, fields(quick[key]).get(k))
        for key in quick
        for k, v in fields(answer_parsers.parse_answer(VENDORS["npu"], answers[key])).items()
    ]

    assert sum(document.kind == "fields" for document in quick.values()) > 40
    assert [found for found in read if found[2] != found[3]] == []

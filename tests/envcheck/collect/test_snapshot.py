"""A recording gives elsewhere what the machine gave here; a stranger's file can do no harm."""

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
from tests.envcheck.checks.doctor_helpers import simulated
from tests.envcheck.report.report_helpers import machine_report, text_of

ENVCHECK = [sys.executable, "-m", "envcheck"]
TOKEN = "hf_" + "a1B2" * 8


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
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
    with simulated(name, [fault] if fault else []) as machine:
        answers = facts.ask(machine)
    read, device = snapshot.parse(snapshot.dump(answers, "auto").encode())
    live, replayed = read_facts(answers), read_facts(read, device)

    assert text_of(checks.run_all(replayed), replayed) == text_of(checks.run_all(live), live)
    said = [formats.render("json", machine_report(checks.run_all(one), one)) for one in (replayed, live)]
    assert said[0] == said[1]


@pytest.mark.slow
def test_commands_end_to_end(tmp_path: Path) -> None:
    """The two commands: a simulated machine recorded, then judged outside of it with the same words and exit code."""
    file = tmp_path / "machine.json"
    recorded = run("simulate", "atlas-800t-a3", "--fault", "ecc", "--", "envcheck", "snapshot", "-o", str(file))
    live = run("simulate", "atlas-800t-a3", "--fault", "ecc", "--", "envcheck", "doctor", COLUMNS="80")
    replayed = run("doctor", "--replay", str(file), COLUMNS="80")

    assert (recorded.returncode, recorded.stdout) == (0, "")
    assert (replayed.returncode, blanked(replayed.stdout)) == (live.returncode, blanked(live.stdout))
    assert replayed.returncode == 1


def blanked(text: str) -> str:
    return re.sub(r"\d+(\.\d+)? (GiB|MiB) free", "N free", text)


def test_snapshot_is_its_owners_alone(tmp_path: Path) -> None:
    """The file is written whole and readable to nobody else; nothing is left beside it."""
    file = tmp_path / "machine.json"
    snapshot.write(file, "{}")

    assert file.stat().st_mode & 0o077 == 0
    assert [p.name for p in tmp_path.iterdir()] == ["machine.json"]


def test_link_is_followed_and_a_device_is_no_file(tmp_path: Path) -> None:
    """What -o names may be a link, whose target is written, or a pipe, which is written into and stays one."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    snapshot.write(tmp_path / "link", "{}")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    snapshot.write(tmp_path / "pipe", "{}")

    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "{}"
    assert os.read(reader, 9) == b"{}" and (tmp_path / "pipe").is_fifo()
    os.close(reader)


@pytest.mark.slow
def test_full_disk_is_a_sentence() -> None:
    """No room for the recording: one sentence and usage, and /dev/full is still what it was."""
    before = os.stat("/dev/full").st_mode  # noqa: PTH116
    done = run("snapshot", "--device", "cpu", "-o", "/dev/full")

    assert done.returncode == 2
    assert "No space left" in done.stderr and "Traceback" not in done.stderr
    assert os.stat("/dev/full").st_mode == before  # noqa: PTH116


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("doctor",), ("doctor", "--json"), ("snapshot", "-o", "-")])
def test_full_standard_output_is_a_sentence(arguments: tuple[str, ...]) -> None:
    """A report that finds no room where it is sent to is no bug of ours: a sentence and the documented code."""
    with Path("/dev/full").open("w") as full:
        argv = [*ENVCHECK, *arguments, "--device", "cpu"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "envcheck: cannot write: No space left on device",
        "  next: make room (df -h), then run it again",
    ]


def test_unwritable_place_is_said_before_the_machine_is_asked(tmp_path: Path) -> None:
    """A folder that is not there: usage, in one sentence, at once."""
    done = run("snapshot", "-o", str(tmp_path / "no" / "machine.json"))

    assert done.returncode == 2
    assert "there is no folder" in done.stderr


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
    """Tokens and passwords do not survive, wherever they stand."""
    assert TOKEN not in secrets.redact(text)


WORD = "correcthorse"  # of no shape that gives it away: what stands around it must


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
    """User information of addresses, whatever their spelling, registries' keys, options and assignments."""
    assert WORD not in secrets.redact(text)


def test_proxy_variable_needs_no_scheme() -> None:
    """curl takes a proxy without http://, and so do we: the host stays, the word goes."""
    assert secrets.blank_value("https_proxy", f"me:{WORD}@proxy:3128") == "proxy:3128"


@pytest.mark.parametrize(
    "text", ["git+https://github.com/a/b@v1.0", "http://proxy:8080/a@b", "author: Jane", "--max-tokens 512"]
)
def test_addresses_and_counts_stay(text: str) -> None:
    """An @ in a path, a port, an author and a count are no secrets."""
    assert secrets.redact(text) == text


@pytest.mark.parametrize("text", ["GPU-8a56a4bc serial 1025C9048791", "http://a.b/c?d=e", "10.0.0.1:2379", "user@host"])
def test_what_is_no_secret_stays(text: str) -> None:
    """Serial numbers, UUIDs and addresses are what a report is about."""
    assert secrets.redact(text) == text


def test_secret_never_reaches_a_snapshot(tmp_path: Path) -> None:
    """A proxy's password and a token in the environment are not in the recording."""
    file = tmp_path / "machine.json"
    env = {"HTTPS_PROXY": f"http://me:{TOKEN}@proxy:1", "PADDLE_API_TOKEN": TOKEN, "MASTER_ADDR": "10.0.0.1"}
    done = run("snapshot", "--device", "cpu", "-o", str(file), **env)
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
    """What is no snapshot is refused with usage and a next step, never with a traceback."""
    with pytest.raises(UsageError) as refused:
        snapshot.parse(raw)

    assert "\n" not in refused.value.message and refused.value.next_step


def test_a_reader_ignores_unknown_keys() -> None:
    """A snapshot of a later envcheck with more keys, at the top or in an answer, is read as if they were not there."""
    known = {"schema": SCHEMA_VERSION, "device": "npu", "answers": {"run lspci": {"outcome": "answered", "out": "x"}}}
    answers = {key: {**answer, "later": [1]} for key, answer in known["answers"].items()}
    more = {**known, "later": {"a": 1}, "answers": answers}

    assert snapshot.parse(json.dumps(more).encode()) == snapshot.parse(json.dumps(known).encode())


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    """A file beyond the bound is refused before it is parsed."""
    file = tmp_path / "huge.json"
    with file.open("wb") as sparse:
        sparse.truncate(snapshot.FILE_LIMIT + 2)

    with pytest.raises(UsageError, match="larger than"):
        snapshot.load(file)


def test_missing_file_and_other_device_are_usage(tmp_path: Path) -> None:
    """No file, and a device that was not recorded: exit code 2."""
    file = tmp_path / "machine.json"
    file.write_text(snapshot.dump({}, "npu"), encoding="utf-8")

    assert run("doctor", "--replay", str(tmp_path / "none.json")).returncode == 2
    assert run("doctor", "--replay", str(file), "--device", "nvidia").returncode == 2


def test_terminal_escapes_are_never_printed() -> None:
    """A recording that holds escapes, bells and text-direction marks prints none of them."""
    nasty = "\x1b]0;owned\x07\x1b[2J\u202eNPU\x9b31m broken \x08\x00"
    with simulated("atlas-800t-a2") as machine:
        answers = facts.ask(machine)
    forged = {key: Answer(key, Outcome.FAILED, a.out, nasty + a.err, 9) for key, a in answers.items()}
    host = json.loads(answers["ask host"].out)
    forged["ask host"] = Answer("ask host", Outcome.ANSWERED, json.dumps({**host, "hostname": nasty, "kernel": nasty}))
    found = read_facts(forged)
    text = text_of(checks.run_all(found), found)

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
collectors = st.sampled_from(["host", "disks", "limits", "environment", "network", "clock", "packages"])
names = st.sampled_from(
    ["hostname", "kernel", "/", "/dev/shm", ".", "interfaces", "packages", "environments", "synchronised", "python"]
)


@pytest.mark.slow
@given(st.dictionaries(collectors, st.dictionaries(names, values, max_size=6) | values, max_size=7))
def test_forged_host_is_judged_without_a_crash(forged: dict[str, object]) -> None:
    """Whatever types a recording claims, each check answers, and none by crashing."""
    answers = {f"ask {n}": Answer(f"ask {n}", Outcome.ANSWERED, json.dumps(value)) for n, value in forged.items()}
    findings = checks.run_all(read_facts(answers, "npu"))

    assert len(findings) >= 50
    assert not [f for f in findings if "crashed" in f.seen]


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    """Any bytes: answers, or UsageError."""
    try:
        answers, _ = snapshot.parse(raw)
    except UsageError:
        return
    assert isinstance(answers, dict)


@pytest.mark.parametrize("name", ["atlas-200t-a2-box16", "atlas-800t-a3"])
def test_quick_way_reads_what_the_parser_reads(name: str) -> None:
    """The quick reading of plain follow-ups has the values that the tool's own parser has."""
    from envcheck.collect import documents
    from envcheck.core.key_value import fields
    from envcheck.vendors import VENDORS

    with simulated(name, ["ecc", "health-alarm", "link-down"]) as machine:
        answers = facts.ask(machine)
    quick = {key: documents.follow_up(VENDORS["npu"], a) for key, a in answers.items() if " -i " in key and a.ok}
    read = [
        (key, k, v, fields(quick[key]).get(k))
        for key in quick
        for k, v in fields(documents.document(VENDORS["npu"], answers[key])).items()
    ]

    assert sum(document.kind == "fields" for document in quick.values()) > 40
    assert [found for found in read if found[2] != found[3]] == []

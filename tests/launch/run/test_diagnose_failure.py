"""Diagnoses of failed runs, by the command and from logs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.explain import catalogue, causality
from launch.run import diagnose_failure
from launch.run.first_failure import FirstFailure
from launch.run.launcher import TrainingEnd
from tests.launch.test_train import make_variables

OOM = (
    "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 61.28 GiB total capacity; 58.11 GiB allocated)"
)
PEER = "RuntimeError: [Rank 0]: Connection reset by peer"


def make_ending(how: str, failed: FirstFailure | None) -> TrainingEnd:
    return TrainingEnd(how, 1, failed, (), 0, 1.0, ())


def write_logs(run: Path, **texts: str) -> Path:
    (run / "log").mkdir()
    for name, text in texts.items():
        (run / "log" / name.replace("_", ".")).write_text(text)
    return run


def test_the_first_failed_workers_log_is_read(tmp_path: Path) -> None:
    """The log of the first failed worker is used, not that of a lost connection or the launcher."""
    run = write_logs(tmp_path, workerlog_0=PEER, workerlog_1=f"step 1\n{OOM}\n", launcher_log="exit code 247\n")

    (first, *_) = diagnose_failure.diagnose_run(run, make_ending("failed", FirstFailure(1, 1, ())), 0.0)

    assert "memory" in first.description.lower()
    assert first.evidence[0].text == OOM
    assert (first.evidence[0].file, first.evidence[0].line) == ("workerlog.1", 2)


def test_the_kernel_log_of_others_is_no_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the host that crashed meanwhile did not end a worker that raised an exception."""
    crash = (
        "2026-11-29T06:59:03,778056+00:00 bash[24633]: segfault at 7ffe ip 00007faf sp 00007ffe error 6 in libc.so.6"
    )
    monkeypatch.setattr("envcheck.explain.kernel_log.read_lines", lambda since: (crash,))
    words = ("Traceback (most recent call last):", '  File "/w/t.py", line 7, in <module>', "KeyError: 'images'")
    run = write_logs(tmp_path, workerlog_1="\n".join(words))

    raised = diagnose_failure.diagnose_run(run, make_ending("failed", FirstFailure(1, None, words)), 0.0)
    silent = diagnose_failure.diagnose_run(run, make_ending("failed", FirstFailure(0, None, ())), 0.0)

    assert [one.name for one in raised] == ["exceptions.missing_key"]
    assert "host.segfault" in {one.name for one in silent}


def test_the_end_of_a_long_log_is_enough(tmp_path: Path) -> None:
    """Only the last megabytes of a large log are read."""
    run = write_logs(tmp_path, workerlog_0="a healthy line of a training\n" * 400_000 + OOM)

    assert diagnose_failure.diagnose_run(run, make_ending("failed", FirstFailure(0, 1, ())), 0.0)


def test_commands_name_the_model_of_the_run(tmp_path: Path) -> None:
    """The commands of every entry have the model and method of the run; a record with another text is not pasted."""
    entries = [entry for entry in catalogue.load_entries() if any("--model MODEL" in text for text in entry.commands)]
    found = [causality.make_diagnosis(entry, {}, (), 1) for entry in entries]
    own = diagnose_failure.name_own_job(found, {"model": "Qwen1.5-7B", "method": "lora"})
    strange = diagnose_failure.name_own_job(found, {"model": "x; rm -rf /", "method": "lora"})

    assert len(found) >= 4
    assert all("--model Qwen1.5-7B --method lora" in " ".join(one.commands) for one in own)
    assert [one.commands for one in strange] == [one.commands for one in found]


def test_commands_name_the_file_of_an_own_job(tmp_path: Path) -> None:
    """A user's own job is planned by its file; without a file, the commands stay general."""
    entries = [entry for entry in catalogue.load_entries() if any("--model MODEL" in text for text in entry.commands)]
    found = [causality.make_diagnosis(entry, {}, (), 1) for entry in entries]
    record = {"model": "unknown", "method": "unknown"}
    named = diagnose_failure.name_own_job(found, {**record, "own": {"source": "my run.sh"}})
    plain = diagnose_failure.name_own_job(found, {**record, "own": {"source": "command"}})

    assert all("'my run.sh'" in " ".join(one.commands) for one in named)
    assert [one.commands for one in plain] == [one.commands for one in found]


def test_commands_name_the_logs_of_the_run() -> None:
    """A command about the logs of the run has their folder, in the form of a shell."""
    entries = [
        entry
        for entry in catalogue.load_entries()
        if any("<log>" in text or "<run>" in text for text in entry.commands)
    ]
    found = [causality.make_diagnosis(entry, {}, (), 1) for entry in entries]
    named = diagnose_failure.name_own_job(found, {"folder": "/data/my runs/a"})

    assert entries
    assert all("'/data/my runs/a/log'" in " ".join(one.commands) for one in named)
    assert not any("<run>" in text or "<log>" in text for one in named for text in one.commands)


def test_commands_name_the_command_of_an_own_job() -> None:
    """A command ends the line, after all options of `envcheck plan`; its model may be a path that no name is."""
    entries = [entry for entry in catalogue.load_entries() if any("--model MODEL" in text for text in entry.commands)]
    found = [causality.make_diagnosis(entry, {}, (), 1) for entry in entries]
    own = {"source": "command", "command": ["torchrun", "train.py", "--data", r"a\1 b"]}
    named = diagnose_failure.name_own_job(found, {"model": "/data/model", "method": "lora", "own": own})
    plans = [text for one in named for text in one.commands if "envcheck plan" in text or "envcheck train -" in text]

    assert len(plans) >= 4
    assert all(text.endswith(r" -- torchrun train.py --data 'a\1 b'") for text in plans)
    assert any("--search --" in text for text in plans)


@pytest.mark.parametrize("how", ("succeeded", "user", "deadline", "rule"))
def test_what_did_not_fail_has_no_cause(tmp_path: Path, how: str) -> None:
    """Errors that the training survived are not reported as the cause."""
    assert diagnose_failure.diagnose_run(write_logs(tmp_path, workerlog_0=OOM), make_ending(how, None), 0.0) == ()


def test_unknown_logs_have_no_diagnosis(tmp_path: Path) -> None:
    """Missing logs yield no diagnosis and no error."""
    assert (
        diagnose_failure.diagnose_run(
            write_logs(tmp_path, workerlog_0="all is well\n"), make_ending("failed", FirstFailure(0, 3, ())), 0.0
        )
        == ()
    )
    assert diagnose_failure.diagnose_run(tmp_path / "gone", make_ending("unstarted", None), 0.0) == ()


@pytest.mark.parametrize("terminal", (True, False))
def test_control_characters_of_logs_are_removed(terminal: bool) -> None:
    """The output of a worker is printed without control characters."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    lines = ("\x1b[2Jgone\x1b]0;owned\x07", "\x9b31m red \u202e back \x00", "OSError:\r\x08 \x1b[5mfull")
    code = f"from launch.run import run_text as telling\nfor line in {lines!r}: telling.print_line('  | ' + line)"
    subprocess.run([sys.executable, "-c", code], stderr=theirs, env={**os.environ, "PYTHONUTF8": "1"}, check=True)
    os.close(theirs)
    said = os.read(ours, 4096).decode().replace("\r\n", "\n")
    os.close(ours)

    assert said == "  | gone0;owned\n  |  31m red   back \n  | OSError: full\n"


@pytest.mark.slow
def test_by_the_command(tmp_path: Path) -> None:
    """A failed training prints and records cause and next step."""
    recipe = tmp_path / "recipes" / "dies.toml"
    recipe.parent.mkdir()
    recipe.write_text(
        'name = "dies"\ntitle = "a failure"\ndevice = "cpu"\nframework = "envcheck"\nmodels = ["dies"]\n'
        'source = "a test"\n[hardware]\nproduct = "any"\nsource = "a test"\n[[jobs]]\nmethod = "lora"\ntitle = "none"\n'
        f'source = "a test"\nlauncher = ["sh", "-c", "echo \'{OOM}\'; exit 1"]\n'
    )
    argv = [sys.executable, "-m", "envcheck", "train", "--recipe", "dies", "--recipes", str(recipe.parent), "--yes"]
    done = subprocess.run(
        [*argv, "--provision", "--json"],
        cwd=tmp_path,
        env=make_variables(tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode in (4, 5), done.stderr
    (first, *_) = json.loads(done.stdout)["diagnoses"]
    assert first["evidence"][0]["text"] == OOM
    assert f"cause       {first['description']}" in done.stderr
    assert first["do"] in done.stderr

"""`envcheck runs` and detached trainings: real ones of the tiny model, and records of strangers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core.errors import UsageError
from launch.run import process_tree, watch
from launch.run.record import NAME
from launch.runs import follow, known, shown
from launch.runs.run_state import Run
from launch.targets.clean_environment import MARK
from tests.launch.test_train import left, record, train, variables

pytestmark = pytest.mark.slow


def runs(home: Path, cwd: Path, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "runs", *more]
    return subprocess.run(argv, cwd=cwd, env=variables(home), capture_output=True, text=True, timeout=120)


def until_steps(home: Path, cwd: Path, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any('"step": 2' in log.read_text(errors="replace") for log in cwd.glob("runs/*/log/workerlog.0")):
            return
        time.sleep(0.2)
    raise AssertionError("no step was made")


def test_detached_followed_stopped(paddle_home: Path, tmp_path: Path) -> None:
    """A detached run goes on without us, is listed and shown from anywhere, followed, and ended as by Ctrl-C."""
    done = train(paddle_home, tmp_path, "--detach", "--steps", "100000", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    name = said["folder"]  # a test beside this one may have begun a run of the same id
    try:
        until_steps(paddle_home, tmp_path)
        assert said["state"] == "running"
        assert os.getsid(said["pid"]) == said["pid"]  # no closed terminal reaches it

        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        listed = json.loads(runs(paddle_home, elsewhere, "--json").stdout)["runs"]
        assert [run["state"] for run in listed if run["folder"] == name] == ["running"]
        shown = runs(paddle_home, elsewhere, "show", name).stdout
        assert "running" in shown
        assert re.search(r"^now +step \d+ of \d+, loss ", shown, re.MULTILINE)

        follower = subprocess.Popen(
            [sys.executable, "-m", "envcheck", "runs", "follow", name],
            cwd=elsewhere, env=variables(paddle_home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        asked = runs(paddle_home, elsewhere, "stop", name)
        assert (asked.returncode, "nobody to ask" in asked.stderr) == (2, True)
        stopped = runs(paddle_home, elsewhere, "stop", name, "--yes")
        assert stopped.returncode == 0, stopped.stderr
        out, err = follower.communicate(timeout=300)
        assert follower.returncode == 130, err
        assert "step " in err
        assert "interrupted" in out
    finally:
        for process in left(tmp_path):
            process.kill()
    assert record(tmp_path)["state"] == "interrupted"
    assert not left(tmp_path)


def test_detached_that_cannot_start(paddle_home: Path, tmp_path: Path) -> None:
    """What ends before its launcher was started is told at once, with its words and its code."""
    script = tmp_path / "recipes" / "broken.toml"
    script.parent.mkdir()
    script.write_text(
        'name = "broken"\ntitle = "no such program"\ndevice = "cpu"\nframework = "envcheck"\nmodels = ["broken"]\n'
        'source = "a test"\n[hardware]\nproduct = "any"\nsource = "a test"\n[[jobs]]\nmethod = "lora"\ntitle = "none"\n'
        'source = "a test"\nlauncher = ["/no/such/program"]\n'
    )
    argv = [sys.executable, "-m", "envcheck", "train", "--recipe", "broken", "--recipes", str(script.parent), "--yes"]
    done = subprocess.run(
        [*argv, "--provision", "--detach"], cwd=tmp_path, env=variables(tmp_path / "home"), capture_output=True,
        text=True, timeout=240,
    )  # fmt: skip

    assert done.returncode == 4, done.stderr
    assert "cannot start /no/such/program" in done.stderr
    assert record(tmp_path)["state"] == "unstarted"


def test_killed_watcher_leaves_an_orphan(paddle_home: Path, tmp_path: Path) -> None:
    """A run whose envcheck was killed outright is told as such, and ended all the same."""
    done = train(paddle_home, tmp_path, "--detach", "--steps", "100000")
    assert done.returncode == 0, done.stderr
    try:
        os.kill(record(tmp_path)["pid"], signal.SIGKILL)

        shown = until_orphaned(paddle_home, tmp_path)
        stopped = runs(paddle_home, tmp_path, "stop", "latest", "--runs", "runs", "--yes")
        assert "orphaned: its envcheck was killed" in shown.stdout
        assert stopped.returncode == 0, stopped.stderr
        assert not left(tmp_path)
    finally:
        for process in left(tmp_path):
            with contextlib.suppress(psutil.NoSuchProcess):  # without its watcher it may be ending by itself
                process.kill()


def until_orphaned(home: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Return what is shown once the kernel has done away with the killed watcher."""
    end = time.monotonic() + 60
    while True:
        shown = runs(home, cwd, "show", "latest", "--runs", "runs")
        if "orphaned" in shown.stdout or time.monotonic() > end:
            return shown
        time.sleep(0.2)


def test_runs_and_the_gate_know_the_same_processes(tmp_path: Path) -> None:
    """What lives of a run whose envcheck is gone is what the next train's gate names; stopped, nothing lives."""
    run = tmp_path / "runs" / "20261121-091500-light"
    run.mkdir(parents=True)
    gone = {"pid": 1 << 22, "pid_began": 1.0}  # no kernel gives such a number out
    (run / NAME).write_text(json.dumps({"state": "running", **gone}))
    worker = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: str(run)})
    try:
        orphan, holder = known.find(str(run), None), process_tree.find_orphan(run.parent)
        ended = follow.stop(orphan)
    finally:
        worker.kill()
        worker.wait()

    assert (orphan.state, orphan.running) == ("orphaned", True)
    assert holder is not None
    assert holder.startswith(f"{worker.pid} ")
    assert ended.state == "interrupted"
    assert process_tree.find_orphan(run.parent) is None


def test_nothing_lives_of_a_lost_run(tmp_path: Path) -> None:
    """Neither its envcheck nor a worker: the run is lost, and the folder is free."""
    run = tmp_path / "runs" / "20261121-091500-light"
    run.mkdir(parents=True)
    (run / NAME).write_text('{"state": "running", "pid": 4194304, "pid_began": 1.0}')

    assert known.find(str(run), None).state == "lost"
    assert process_tree.find_orphan(run.parent) is None


@pytest.mark.parametrize(
    "text",
    (
        "",
        "[]",
        "{}",
        '{"state": 5}',
        "[" * 100_000,
        '{"state": "running", "pid": 1e400}',
        '{"state": "finished", "loss": [[1, null], 7, "x"], "seconds": "long", "exit": [], "recipe": 3, "plan": 1}',
        '{"state": "\\u001b[2J", "started": "yesterday", "exit": {"code": {}}, "checkpoints": [{}], "waived": 3}',
    ),
)
def test_strange_records(tmp_path: Path, text: str) -> None:
    """Records that strangers made are listed or left out, never a fault, and move no cursor."""
    (tmp_path / "runs/a-run").mkdir(parents=True)
    (tmp_path / "runs/a-run/run.json").write_text(text)

    for more in ((), ("show", "a-run"), ("--json",)):
        done = runs(tmp_path / "home", tmp_path, *more)
        assert done.returncode in (0, 2), done.stderr
        assert "bug" not in done.stderr


def test_a_record_moves_no_cursor(tmp_path: Path) -> None:
    """Nor does a terminal get what a plain file does not."""
    run = Run(tmp_path / "a\x1b[2J", "\x1b]0;x\a", None, {"recipe": "\x1b[1m", "error": "\r\x08"})

    for text in (shown.as_page(run), shown.as_table([run], 100), shown.as_table([run], 40)):
        assert all(c.isprintable() or c == "\n" for c in text)


def test_a_record_with_unknown_keys_is_read(tmp_path: Path) -> None:
    """What a later envcheck writes beside what this one knows does not matter."""
    said = {"schema": 99, "state": "finished", "started": "2026-11-23T08:00:00", "recipe": "tiny-cpu"}
    found = []
    for name, written in (("plain", said), ("later", {**said, "later": {"a": [1]}})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(written))
        found.append(known.read(tmp_path / name))

    assert [run.state if run else None for run in found] == ["finished", "finished"]


def test_steps_are_those_that_were_made(tmp_path: Path) -> None:
    """A program that tells every tenth step made as many as it numbers; one without numbers as many as it told."""
    for loss, words in (([[10, 5.0], [50, 4.0]], "50 steps"), ([[None, 5.0], [None, 4.0]], "2 steps")):
        assert f"5.000 -> 4.000, {words}" in shown.as_page(Run(tmp_path, "finished", None, {"loss": loss}))


def test_a_talk_is_no_training(tmp_path: Path) -> None:
    """The page of a run says which of the two it was."""
    for method, words in (("lora", "trains      tiny by lora"), ("chat", "talks with  tiny by chat")):
        assert words in shown.as_page(Run(tmp_path, "finished", None, {"model": "tiny", "method": method}))


def test_names(tmp_path: Path) -> None:
    """A run is found by the beginning of its id, its folder or "latest"; what is meant twice or by none says so."""
    for name in ("20261121-1-a", "20261121-2-b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(f'{{"state": "finished", "started": "{name}"}}')

    for name in ("20261121-2", "latest", "runs/20261121-2-b", str(tmp_path / "runs/20261121-2-b")):
        assert "20261121-2-b" in runs(tmp_path / "home", tmp_path, "show", name).stdout, name
    for name, words in (
        ("20261121", "means 2 runs"),
        ("2026x", "near it: 2026"),
        ("/etc", "holds no run"),
        ("zz", "the newest: 2026"),
    ):
        done = runs(tmp_path / "home", tmp_path, "show", name)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_two_runs_of_one_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trainings may begin in the same second in two folders: then the folders are named."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    folders = [tmp_path / where / "20261121-091500-light" for where in ("a", "b")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / NAME).write_text('{"state": "finished"}')
        known.remember(folder.parent)

    with pytest.raises(UsageError) as refused:
        known.find(folders[0].name, None)
    assert refused.value.next_step == f"say which: {folders[0]}, {folders[1]}"
    assert known.find(str(folders[1]), None).folder == folders[1]


@pytest.mark.parametrize("where", ["begun", "follow"])
def test_who_stops_looking_hears_that_the_run_goes_on(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while a job waits, or between its steps: told after the last of them, which is still held back."""

    def interrupted(*_: object) -> Run:
        raise KeyboardInterrupt

    (tmp_path / "a-run").mkdir()
    (tmp_path / "a-run" / "run.json").write_text('{"state": "finished"}')
    monkeypatch.setattr(follow, where, interrupted)
    monkeypatch.setattr(watch.Teller, "close", lambda _: click.echo("step 9", err=True))
    done = CliRunner().invoke(main.main, ["runs", "--runs", str(tmp_path), "follow", "a-run"])

    said = "step 9\n" * (where == "follow") + "envcheck: the run goes on; envcheck runs stop a-run ends it\n"
    assert done.output.startswith(said)


@pytest.mark.parametrize(
    ("folder", "words"),
    [("nowhere", "no such file"), ("file", "not a directory"), ("runs/a-run", "this is one run, not a folder of runs")],
)
@pytest.mark.parametrize("more", [(), ("--json",), ("show", "latest")])
def test_folder_that_is_none(folder: str, words: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """Runs that are asked of a folder that is not there, or is none of runs, is bad input: never "no runs yet"."""
    (tmp_path / "runs/a-run").mkdir(parents=True)
    (tmp_path / "runs/a-run/run.json").write_text('{"state": "finished"}')
    (tmp_path / "file").write_text("x")
    done = runs(tmp_path / "home", tmp_path, "--runs", folder, *more)

    assert (done.returncode, bool(done.stdout)) == (2, "--json" in more)
    assert words in done.stderr


def test_a_record_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """A record that a full disk cut off: its run is no run that was never there."""
    for name, said in (("good", '{"state": "finished"}'), ("cut", '{"state": "fin'), ("other", "[]")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(said)
    done = runs(tmp_path / "home", tmp_path)

    assert done.returncode == 0
    assert "good" in done.stdout and "cut" not in done.stdout
    assert [line.split()[1] for line in done.stderr.splitlines()] == [
        str(tmp_path / "runs" / name / "run.json") for name in ("cut", "other")
    ]

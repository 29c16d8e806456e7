"""`envcheck runs` and `train --detach`, with the tiny model and with foreign records."""

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
from envcheck.core.messages import _
from launch.run import process_tree, states, watch
from launch.run.record import NAME, list_error_values
from launch.runs import follow, run_index, run_pages, run_state
from launch.runs.run_state import Run
from launch.stop_run import stop_run
from launch.targets.clean_environment import MARK
from tests.launch.test_train import list_remaining_processes, make_variables, read_record, run_train

pytestmark = pytest.mark.slow


def run_runs(home: Path, cwd: Path, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "runs", *more]
    return subprocess.run(argv, cwd=cwd, env=make_variables(home), capture_output=True, text=True, timeout=120)


def wait_for_steps(home: Path, cwd: Path, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any('"step": 2' in log.read_text(errors="replace") for log in cwd.glob("runs/*/log/workerlog.0")):
            return
        time.sleep(0.2)
    raise AssertionError("no step was made")


def test_detached_followed_stopped(paddle_home: Path, tmp_path: Path) -> None:
    """A detached run is listed and shown from anywhere, followed, and stopped as by Ctrl-C."""
    done = run_train(paddle_home, tmp_path, "--detach", "--steps", "100000", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    name = said["folder"]  # a parallel test may have started a run with the same id
    try:
        wait_for_steps(paddle_home, tmp_path)
        assert said["state"] == "running"
        assert os.getsid(said["pid"]) == said["pid"]  # not affected by a closed terminal

        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        listed = json.loads(run_runs(paddle_home, elsewhere, "--json").stdout)["runs"]
        assert [run["state"] for run in listed if run["folder"] == name] == ["running"]
        shown = run_runs(paddle_home, elsewhere, "show", name).stdout
        assert "running" in shown
        assert re.search(r"^progress +step \d+ of \d+, loss ", shown, re.MULTILINE)

        follower = subprocess.Popen(
            [sys.executable, "-m", "envcheck", "runs", "follow", name],
            cwd=elsewhere, env=make_variables(paddle_home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        asked = run_runs(paddle_home, elsewhere, "stop", name)
        assert (asked.returncode, "cannot ask for confirmation: no terminal" in asked.stderr) == (2, True)
        stopped = run_runs(paddle_home, elsewhere, "stop", name, "--yes")
        assert stopped.returncode == 0, stopped.stderr
        out, err = follower.communicate(timeout=300)
        assert follower.returncode == 130, err
        assert "step " in err
        assert "stopped" in out
    finally:
        for process in list_remaining_processes(tmp_path):
            process.kill()
    assert read_record(tmp_path)["state"] == "stopped"
    assert not list_remaining_processes(tmp_path)


def test_detached_that_cannot_start(paddle_home: Path, tmp_path: Path) -> None:
    """A run that fails before its launcher starts is reported immediately with output and exit code."""
    script = tmp_path / "recipes" / "broken.toml"
    script.parent.mkdir()
    script.write_text(
        'name = "broken"\ntitle = "no such program"\ndevice = "cpu"\nframework = "envcheck"\nmodels = ["broken"]\n'
        'source = "a test"\n[hardware]\nproduct = "any"\nsource = "a test"\n[[jobs]]\nmethod = "lora"\ntitle = "none"\n'
        'source = "a test"\nlauncher = ["/no/such/program"]\n'
    )
    argv = [sys.executable, "-m", "envcheck", "train", "--recipe", "broken", "--recipes", str(script.parent), "--yes"]
    done = subprocess.run(
        [*argv, "--provision", "--detach"], cwd=tmp_path, env=make_variables(tmp_path / "home"), capture_output=True,
        text=True, timeout=240,
    )  # fmt: skip

    assert done.returncode == 4, done.stderr
    assert "cannot start /no/such/program" in done.stderr
    assert read_record(tmp_path)["state"] == "unstarted"


def test_killed_watcher_leaves_an_orphan(paddle_home: Path, tmp_path: Path) -> None:
    """A run whose envcheck was killed is reported as orphaned and can be stopped."""
    done = run_train(paddle_home, tmp_path, "--detach", "--steps", "100000")
    assert done.returncode == 0, done.stderr
    try:
        os.kill(read_record(tmp_path)["pid"], signal.SIGKILL)

        shown = wait_until_orphaned(paddle_home, tmp_path)
        stopped = run_runs(paddle_home, tmp_path, "stop", "latest", "--runs", "runs", "--yes")
        assert "orphaned: the supervisor was killed" in shown.stdout
        assert stopped.returncode == 0, stopped.stderr
        assert not list_remaining_processes(tmp_path)
    finally:
        for process in list_remaining_processes(tmp_path):
            with contextlib.suppress(psutil.NoSuchProcess):  # it may end by itself without its supervisor
                process.kill()


def wait_until_orphaned(home: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Return the output once the killed envcheck has been reaped."""
    end = time.monotonic() + 60
    while True:
        shown = run_runs(home, cwd, "show", "latest", "--runs", "runs")
        if "orphaned" in shown.stdout or time.monotonic() > end:
            return shown
        time.sleep(0.2)


def wait_for_orphan(runs: Path) -> None:
    """Wait until the new process has executed its program: before, /proc shows its parent's environment."""
    deadline = time.monotonic() + 60
    while process_tree.find_orphan(runs) is None and time.monotonic() < deadline:
        time.sleep(0.05)


def test_runs_and_the_gate_know_the_same_processes(tmp_path: Path) -> None:
    """The next train's gate names the processes of an orphaned run; after `stop` none is left."""
    run = tmp_path / "runs" / "20261121-091500-light"
    run.mkdir(parents=True)
    gone = {"pid": 1 << 22, "pid_started": 1.0}  # beyond the largest pid
    (run / NAME).write_text(json.dumps({"state": "running", **gone}))
    worker = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: str(run)})
    try:
        wait_for_orphan(run.parent)
        orphan, holder = run_index.find_run(str(run), None), process_tree.find_orphan(run.parent)
        ended = stop_run(orphan)
    finally:
        worker.kill()
        worker.wait()

    assert (orphan.state, orphan.is_running) == ("orphaned", True)
    assert holder == (run.name, worker.pid)
    assert ended.state == "stopped"
    assert process_tree.find_orphan(run.parent) is None


def test_a_lost_run_has_no_processes(tmp_path: Path) -> None:
    """Without envcheck and workers the run is lost and its folder unlocked."""
    run = tmp_path / "runs" / "20261121-091500-light"
    run.mkdir(parents=True)
    (run / NAME).write_text('{"state": "running", "pid": 4194304, "pid_started": 1.0}')

    assert run_index.find_run(str(run), None).state == "lost"
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
        '{"state": "succeeded", "loss": [[1, null], 7, "x"], "seconds": "long", "exit": [], "recipe": 3, "plan": 1}',
        '{"state": "\\u001b[2J", "started": "yesterday", "exit": {"code": {}}, "checkpoints": [{}], "waived": 3}',
    ),
)
def test_strange_records(tmp_path: Path, text: str) -> None:
    """Foreign records are listed or skipped without an error, and print no control characters."""
    (tmp_path / "runs/a-run").mkdir(parents=True)
    (tmp_path / "runs/a-run/run.json").write_text(text)

    for more in ((), ("show", "a-run"), ("--json",)):
        done = run_runs(tmp_path / "home", tmp_path, *more)
        assert done.returncode in (0, 2), done.stderr
        assert "bug" not in done.stderr


def test_a_record_moves_no_cursor(tmp_path: Path) -> None:
    """Terminals also get no control characters."""
    run = Run(tmp_path / "a\x1b[2J", "\x1b]0;x\a", None, {"recipe": "\x1b[1m", "error": "\r\x08"})

    for text in (run_pages.as_page(run), run_pages.as_table([run], 100), run_pages.as_table([run], 40)):
        assert all(c.isprintable() or c == "\n" for c in text)


def test_a_record_with_unknown_keys_is_read(tmp_path: Path) -> None:
    """Unknown fields of newer versions are ignored."""
    said = {"schema": 99, "state": "succeeded", "started": "2026-11-23T08:00:00", "recipe": "tiny-cpu"}
    found = []
    for name, written in (("plain", said), ("later", {**said, "later": {"a": [1]}})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(written))
        found.append(run_index.read_run(tmp_path / name))

    assert [run.state if run else None for run in found] == ["succeeded", "succeeded"]


def test_number_of_steps(tmp_path: Path) -> None:
    """The number of steps is the last logged number, or the count of unnumbered lines."""
    for loss, words in (([[10, 5.0], [50, 4.0]], "50 steps"), ([[None, 5.0], [None, 4.0]], "2 steps")):
        assert f"5.000 -> 4.000, {words}" in run_pages.as_page(Run(tmp_path, "succeeded", None, {"loss": loss}))


def test_page_with_warnings(tmp_path: Path) -> None:
    """Warnings of the training are shown with their names; what is no finding is left out."""
    warning = {"name": "watch.flat", "seen": "the loss is 2.3 since step 4", "message": None}
    page = run_pages.as_page(Run(tmp_path, "succeeded", None, {"warnings": [warning, 3, {"name": "x"}]}))

    assert "watch.flat: the loss is 2.3 since step 4" in " ".join(page.split())


def test_page_of_a_chat(tmp_path: Path) -> None:
    """The page distinguishes chats from trainings."""
    for method, words in (("lora", "model       tiny, method lora"), ("chat", "chat with   tiny, method chat")):
        assert words in run_pages.as_page(Run(tmp_path, "succeeded", None, {"model": "tiny", "method": method}))


def test_names(tmp_path: Path) -> None:
    """A run is found by the beginning of its id, its folder or "latest"; ambiguous and unknown names are errors."""
    for name in ("20261121-1-a", "20261121-2-b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(f'{{"state": "succeeded", "started": "{name}"}}')

    for name in ("20261121-2", "latest", "runs/20261121-2-b", str(tmp_path / "runs/20261121-2-b")):
        assert "20261121-2-b" in run_runs(tmp_path / "home", tmp_path, "show", name).stdout, name
    for name, words in (
        ("20261121", "matches 2 runs"),
        ("2026x", "similar: 2026"),
        ("/etc", "/etc contains no run"),
        ("zz", "newest: 2026"),
    ):
        done = run_runs(tmp_path / "home", tmp_path, "show", name)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_two_runs_of_one_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For equal ids in two folders the error lists the folders."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    folders = [tmp_path / where / "20261121-091500-light" for where in ("a", "b")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / NAME).write_text('{"state": "succeeded"}')
        run_index.remember_folder(folder.parent)

    with pytest.raises(UsageError) as refused:
        run_index.find_run(folders[0].name, None)
    assert refused.value.next_step == f"specify one: {folders[0]}, {folders[1]}"
    assert run_index.find_run(str(folders[1]), None).folder == folders[1]


@pytest.mark.parametrize("where", ["wait_until_started", "follow_run"])
def test_ctrl_c_while_following(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C the pending last step is printed first."""

    def interrupted(*_: object) -> Run:
        raise KeyboardInterrupt

    (tmp_path / "a-run").mkdir()
    (tmp_path / "a-run" / "run.json").write_text('{"state": "succeeded"}')
    monkeypatch.setattr(follow, where, interrupted)
    monkeypatch.setattr(watch.ProgressLine, "close", lambda _: click.echo("step 9", err=True))
    done = CliRunner().invoke(main.main, ["runs", "--runs", str(tmp_path), "follow", "a-run"])

    said = "step 9\n" * (where == "follow_run") + "envcheck: the run continues; stop it with envcheck runs stop a-run\n"
    assert done.output.startswith(said)


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("nowhere", "no such file"),
        ("file", "not a directory"),
        ("runs/a-run", "this is a single run, not a directory of runs"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--json",), ("show", "latest")])
def test_invalid_runs_folder(folder: str, words: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """A missing folder, or one without runs, is an error, not "No runs yet"."""
    (tmp_path / "runs/a-run").mkdir(parents=True)
    (tmp_path / "runs/a-run/run.json").write_text('{"state": "succeeded"}')
    (tmp_path / "file").write_text("x")
    done = run_runs(tmp_path / "home", tmp_path, "--runs", folder, *more)

    assert (done.returncode, bool(done.stdout)) == (2, "--json" in more)
    assert words in done.stderr


def test_an_unreadable_record_is_reported(tmp_path: Path) -> None:
    """A run with a truncated record is reported, not ignored."""
    for name, said in (("good", '{"state": "succeeded"}'), ("cut", '{"state": "fin'), ("other", "[]")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(said)
    done = run_runs(tmp_path / "home", tmp_path)

    assert done.returncode == 0
    assert "good" in done.stdout and "cut" not in done.stdout
    assert done.stderr.splitlines() == [
        f"envcheck: cannot read {tmp_path}/runs/{name}/run.json: this run is not listed" for name in ("cut", "other")
    ]


OLD_RECORDS = (
    ({"state": "finished"}, ("succeeded", None)),
    ({"state": "interrupted"}, ("stopped", "user")),
    ({"state": "deadline"}, ("stopped", "deadline")),
    ({"state": "stopped"}, ("stopped", "rule")),
    ({"state": "stopped", "stop_reason": "user"}, ("stopped", "user")),
    ({"state": "failed"}, ("failed", None)),
)


@pytest.mark.parametrize(("said", "expected"), OLD_RECORDS, ids=str)
def test_first_records_of_0_1_are_read(tmp_path: Path, said: dict[str, str], expected: tuple[str, str | None]) -> None:
    """Their names of states are read as today's."""
    (tmp_path / "run.json").write_text(json.dumps(said))
    run = run_index.read_run(tmp_path)

    assert run is not None
    assert (run.state, run.said["state"], run.said.get("stop_reason")) == (expected[0], *expected)


def test_states_within_first_records_are_upgraded() -> None:
    """Those of a Slurm job's nodes, and of an object in a cluster; Slurm's own word for its job is kept."""
    parts = [{"node": 0, "state": "finished"}, {"node": 1, "state": "interrupted"}, {"node": 2, "state": ["?"]}, None]
    slurm = states.upgrade_record({"state": "finished", "slurm": {"state": "COMPLETED", "parts": parts}})["slurm"]
    cluster = states.upgrade_record({"state": "failed", "kubernetes": {"state": "finished"}})["kubernetes"]

    assert [part and part["state"] for part in slurm["parts"]] == ["succeeded", "stopped", ["?"], None]
    assert (slurm["state"], cluster["state"]) == ("COMPLETED", "succeeded")


def test_a_stop_without_reason_has_one_meaning() -> None:
    """Reading a record and looking for its end agree."""
    old = {"state": "stopped"}

    assert states.find_end(old) == states.find_end(states.upgrade_record(old)) == states.BY_RULE


def test_every_end_has_a_name_in_texts() -> None:
    """Each state in which a run can end is a word of `runs`, and the code of a stopped run depends on why."""
    assert {end.state for end in states.ENDS.values()} <= {str(name) for name in run_state.STATE_NAMES}
    assert {how: end.code for how, end in states.ENDS.items() if end.state == states.STOPPED} == {
        "user": 130, "rule": 5, "deadline": 5,
    }  # fmt: skip


def test_the_reason_of_a_failed_start_is_translated(tmp_path: Path, chinese: None) -> None:
    """The recorded sentence is English; a screen in another language has its translation with the same values."""
    why = _("node {number} failed first; see {record}", number=7, record="/runs/x")
    said = json.loads(json.dumps(list_error_values(why)))
    text = run_pages.as_page(Run(tmp_path / "a", "unstarted", None, said))

    assert said["error"] == "node 7 failed first; see /runs/x"
    assert "failed first" not in text
    assert "7" in text and "/runs/x" in text

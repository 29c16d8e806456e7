"""`envcheck explain RUN` by folder, log folder, record and id."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launch.runs import ended_run, follow, run_index

ROOT = Path(__file__).parents[3]
ID = "20260102-030405-tiny-cpu"
FAILED = {"rank": 1, "code": 3, "lines": [], "follows": False, "log": "workerlog.1"}
REFUSED = "RuntimeError: connect() to 10.0.0.7 port 6170: Connection refused\n"


def run_explain(word: str, folder: Path) -> tuple[int, dict[str, Any]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ENVCHECK_HOME": str(folder / "home")}
    argv = [sys.executable, "-m", "envcheck", "explain", "--json", word]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def write_run(folder: Path, **record: Any) -> Path:
    """A detached run in which worker 0 logged a lost connection first, and worker 1 logged nothing."""
    place = folder / "runs" / ID
    (place / "log").mkdir(parents=True)
    for name, text in {"workerlog.0": REFUSED, "workerlog.1": "bye\n", "envcheck.log": f"| {REFUSED}"}.items():
        (place / "log" / name).write_text(text)
    (place / "run.json").write_text(json.dumps({"state": "failed", **record}))
    return place


@pytest.mark.parametrize("word", (f"runs/{ID}", f"runs/{ID}/log", f"runs/{ID}/run.json", ID, ID[:13], "latest"))
def test_the_record_names_the_worker(tmp_path: Path, word: str) -> None:
    """The first failed worker and its code are from the record, not guessed from the logs."""
    write_run(tmp_path, first_failed_worker=FAILED)
    code, said = run_explain(word, tmp_path)

    assert code == 1
    assert said["first_failed"].endswith(f"runs/{ID}/log/workerlog.1")
    assert said["notes"] == [f"{ID}: state failed; worker 1 failed first with exit code 3"]
    assert [Path(one["name"]).name for one in said["files"]] == ["workerlog.0", "workerlog.1"]


def test_the_watchers_own_log_is_no_workers(tmp_path: Path) -> None:
    """envcheck's own log of a detached run is skipped if there are other logs."""
    place = write_run(tmp_path)
    (place / "log" / "workerlog.0").write_text("well\n")
    code, said = run_explain(f"runs/{ID}/log", tmp_path)

    assert (code, said["first_failed"], said["diagnoses"]) == (3, None, [])


def test_a_run_that_went_well_has_no_telling_lines(tmp_path: Path) -> None:
    """For a finished run no line is shown as a cause."""
    write_run(tmp_path, state="succeeded")
    (tmp_path / "runs" / ID / "log" / "workerlog.0").write_text("well\n")
    code, said = run_explain("latest", tmp_path)

    assert (code, said["notes"], said["relevant_lines"]) == (3, [f"{ID}: state succeeded"], [])


def test_a_signal_explains_where_the_logs_do_not(tmp_path: Path) -> None:
    """Without a diagnosis from the logs the recorded exit code is explained."""
    place = write_run(tmp_path, first_failed_worker={**FAILED, "code": -9})
    (place / "log" / "workerlog.0").write_text("well\n")
    code, said = run_explain(ID, tmp_path)

    assert (code, [one["name"] for one in said["diagnoses"]]) == (1, ["host.killed"])


def test_a_stop_rule_is_the_cause(tmp_path: Path) -> None:
    """The stop rule that ended a run is the first diagnosis."""
    stopped = {"name": "watch.health", "seen": "card 3 has turned", "remedy": {"words": "Take it out."}}
    write_run(tmp_path, state="stopped", stopped=stopped)
    code, said = run_explain(f"runs/{ID}", tmp_path)

    assert (code, said["diagnoses"][0]["name"], said["diagnoses"][0]["description"]) == (
        1,
        "watch.health",
        "card 3 has turned",
    )


@pytest.mark.parametrize("log", ("../../secret.log", "/etc/passwd", ["workerlog.1"], "nothing"))
def test_strange_records(tmp_path: Path, log: object) -> None:
    """A foreign record cannot refer to files outside the run's logs."""
    place = write_run(tmp_path, first_failed_worker={"rank": "x", "code": [1], "log": log}, stopped=[1])
    (place.parent.parent / "secret.log").write_text(REFUSED)
    code, said = run_explain(ID, tmp_path)

    assert code == 1
    assert Path(said["first_failed"]).parent.samefile(place / "log")


def test_no_such_run(tmp_path: Path) -> None:
    """An unknown id is an error that lists similar ones."""
    write_run(tmp_path)
    code, said = run_explain("20260102-030405-tiny-npu", tmp_path)

    assert code == 2
    assert ID in said["next"]


STEPS = "".join(f"step {step}/4 loss 1.{step}\n" for step in (1, 2, 3, 4))


def write_unsupervised_run(folder: Path, status: int) -> Path:
    """A run whose supervisor ended first: the record says running, and the shim wrote the exit status."""
    place = folder / "runs" / ID
    (place / "log").mkdir(parents=True)
    (place / "log" / "launcher.log").write_text(STEPS)
    (place / ".exit").write_text(json.dumps({"status": status}))
    (place / "run.json").write_text(json.dumps({"state": "running", "started": "2026-01-02T03:04:05+00:00"}))
    return place


def test_a_failure_after_the_supervisors_end(tmp_path: Path) -> None:
    """The exit status of the shim decides: a log without an end is not a run that goes on."""
    write_unsupervised_run(tmp_path, 7)
    code, said = run_explain("latest", tmp_path)
    (process,) = said["processes"]

    assert (code, said["exit_code"], said["verdict"]) == (3, 3, "failed")
    assert said["notes"] == [f"{ID}: state failed; the program ended with exit code 7"]
    assert (process["end"], process["reason"], process["last_step"]) == ("error", "exit code 7", 4)
    assert said["next"]


def test_a_signal_after_the_supervisors_end(tmp_path: Path) -> None:
    """A signal in the exit status of the shim is explained."""
    write_unsupervised_run(tmp_path, -11)
    _code, said = run_explain("latest", tmp_path)

    assert (said["verdict"], bool(said["diagnoses"])) == ("failed", True)
    assert said["notes"] == [f"{ID}: state failed; signal 11 ended the program"]
    assert (said["processes"][0]["end"], said["processes"][0]["reason"]) == ("signal", "signal 11")


@pytest.mark.parametrize(("status", "state", "code"), ((7, "failed", 5), (0, "succeeded", 0)))
def test_an_unsupervised_end_has_loss_and_duration(tmp_path: Path, status: int, state: str, code: int) -> None:
    """Duration and losses of a run that ended after its supervisor are from the shim and the logs."""
    place = write_unsupervised_run(tmp_path, status)
    os.utime(place / ".exit", (1767323105, 1767323105))  # a minute after the start
    run = run_index.read_run(place)
    assert run is not None
    done = ended_run.complete_run(run)

    assert (done.state, done.said["state"], done.said["seconds"]) == (state, state, 60.0)
    assert done.said["loss"] == [[1, 1.1], [2, 1.2], [3, 1.3], [4, 1.4]]
    assert done.said["exit"] == {"code": follow.exit_code(done), "status": status} == {"code": code, "status": status}
    assert json.loads((place / "run.json").read_text())["state"] == "running"

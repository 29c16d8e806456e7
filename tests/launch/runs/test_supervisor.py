"""The supervisor of a run: it outlives the typed command; a run without one is orphaned, and stopped or adopted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.launch.runs.hook_server import HookServer
from tests.launch.runs.stand_in import StandInRuns, provision_stand_in, wait_until
from tests.launch.test_train import list_remaining_processes

pytestmark = pytest.mark.slow
LOST_LINK = "OSError: [Errno 113] No route to host"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder with the recipe's environment."""
    return provision_stand_in(tmp_path_factory.mktemp("stand-in"))


@pytest.fixture
def stand_in(home: Path, tmp_path: Path) -> Iterator[StandInRuns]:
    yield StandInRuns(home, tmp_path)
    for process in list_remaining_processes(tmp_path):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def kill_supervisor(stand_in: StandInRuns) -> None:
    pid = stand_in.record["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", "the supervisor's end")


def test_killed_view_and_killed_supervisor(stand_in: StandInRuns) -> None:
    """SIGKILL of the typed command leaves the run supervised; of the supervisor, orphaned until it is adopted."""
    go_on = stand_in.folder / "go-on"
    with stand_in.start_training("--steps", "40", STAND_IN_HOLD=str(go_on)) as view:
        stand_in.wait_for_step(3)
        view.kill()
    listed = stand_in.run_command("runs")
    assert "running" in listed.stdout and "orphaned" not in listed.stdout

    kill_supervisor(stand_in)
    name = Path(stand_in.record["folder"]).name
    listed, refused = stand_in.run_command("runs"), stand_in.train()
    assert f"{name} is orphaned: pids " in listed.stdout
    assert "; step " in listed.stdout and f"envcheck runs stop {name}" in listed.stdout
    assert refused.returncode == 1
    assert f"run {name} is orphaned" in refused.stderr and f"$ envcheck runs stop {name}" in refused.stderr

    adopted = stand_in.run_command("runs", "adopt", "latest")
    assert adopted.returncode == 0, adopted.stderr
    go_on.touch()
    followed = stand_in.run_command("runs", "follow", "latest")
    assert followed.returncode == 0, followed.stderr
    said = stand_in.record
    assert (said["state"], said["exit"]) == ("succeeded", {"code": 0, "status": 0})
    assert [step for step, _ in said["loss"]] == list(range(1, 41))  # also what was logged without a supervisor
    assert len(said["adopted"]) == 1


def test_an_orphan_is_stopped_with_all_its_processes(stand_in: StandInRuns) -> None:
    """`runs stop` also ends a child that left its session and cleared its environment."""
    done = stand_in.train("--detach", STAND_IN_FORK="1")
    assert done.returncode == 0, done.stderr
    stand_in.wait_for_step(3)
    shim = psutil.Process(stand_in.record["launcher"]["pid"])
    below = shim.children(recursive=True)
    kill_supervisor(stand_in)

    stopped = stand_in.run_command("runs", "stop", "latest", "--yes")

    assert stopped.returncode == 0, stopped.stderr
    assert len(below) == 2  # the program and its child
    assert not [process for process in (shim, *below) if process.is_running() and process.status() != "zombie"]
    said = stand_in.record
    assert (said["state"], said["exit"]["code"]) == ("stopped", 130)
    assert [step for step, _loss in said["loss"][:3]] == [1, 2, 3]  # also what was logged without a supervisor
    assert said["seconds"] > 0 and said["tokens_per_s"] == 100.0 and said["checkpoints"]
    assert (Path(said["folder"]) / "loss.svg").is_file()


def test_a_stopped_orphan_sends_events(stand_in: StandInRuns) -> None:
    """Command, webhook and metrics file get the end of an orphan, also if it is stopped from another folder."""
    hook = stand_in.folder / "hook.sh"
    hook.write_text("#!/bin/sh\ncat >> events; echo >> events\n")
    hook.chmod(0o755)
    with HookServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        more = ("--on-event", "./hook.sh", "--webhook", server.url, "--metrics-file", "run.prom", "--detach")
        assert stand_in.train(*more).returncode == 0
        stand_in.wait_for_step(3)
        wait_until(lambda: len(server.received) > 1, "the event of the first step")
        kill_supervisor(stand_in)
        name = stand_in.record["folder"]
        stopped = stand_in.run_command("runs", "stop", name, "--yes", cwd=Path("/"))
        server.shutdown()

    assert stopped.returncode == 0, stopped.stderr
    lines = [json.loads(line) for line in (stand_in.folder / "events").read_text().splitlines()]
    assert [line["event"] for line in lines][-2:] == ["stop", "end"]
    assert [event["event"] for event in server.received] == [line["event"] for line in lines]
    assert (lines[-1]["state"], lines[-1]["exit_code"], lines[-2]["stop_reason"]) == ("stopped", 130, "user")
    assert lines[-1]["step"]["step"] >= 3
    assert 'state="stopped"} 1' in (stand_in.folder / "run.prom").read_text()


def test_a_second_training_names_the_active_run(stand_in: StandInRuns) -> None:
    """It is refused, and `runs stop` of the first one is the remedy."""
    assert stand_in.train("--detach").returncode == 0
    refused = stand_in.train()
    name = Path(stand_in.record["folder"]).name
    stopped = stand_in.run_command("runs", "stop", "latest", "--yes")

    assert refused.returncode == 1
    assert f"$ envcheck runs stop {name}" in refused.stderr and "kill" not in refused.stderr
    assert stopped.returncode == 0, stopped.stderr


def test_an_adopted_run_reports_and_is_restarted(stand_in: StandInRuns) -> None:
    """Its command and webhook get the later events, and a fault of the infrastructure starts it again."""
    go_on, events = stand_in.folder / "go-on", stand_in.folder / "events"
    hook = ("--on-event", f"sh -c 'cat >> {events}; echo >> {events}'")
    with HookServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        more = ("--restart", "1", *hook, "--webhook", server.url, "--steps", "34", "--detach")
        variables = {"STAND_IN_HOLD": str(go_on), "STAND_IN_FAIL": LOST_LINK, "STAND_IN_FAIL_AT": "32"}
        assert stand_in.train(*more, **variables).returncode == 0
        stand_in.wait_for_step(30)
        kill_supervisor(stand_in)
        adopted = stand_in.run_command("runs", "adopt", "latest", **variables)
        go_on.touch()
        wait_until(lambda: len(stand_in.list_records()) == 2, "the restart")
        followed = stand_in.run_command("runs", "follow", "latest")
        first, second = stand_in.list_records()
        wait_until(lambda: "end" in [event["event"] for event in server.received], "the end")
        server.shutdown()

    assert (adopted.returncode, followed.returncode) == (0, 0), adopted.stderr + followed.stderr
    assert (first["state"], second["state"]) == ("failed", "succeeded")
    assert second["resumed_from"]["run"] == Path(first["folder"]).name
    wait_until(lambda: "restarted_as" in stand_in.list_records()[0], "the note of the successor")
    assert stand_in.list_records()[0]["restarted_as"] == Path(second["folder"]).name
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    of_first = [line["event"] for line in lines if line["run"] == Path(first["folder"]).name]
    assert of_first[0] == "start" and of_first[-1] == "end"
    assert [event["event"] for event in server.received if event["run"] == Path(first["folder"]).name] == of_first


def test_a_run_that_ends_without_supervisor_is_not_lost(stand_in: StandInRuns) -> None:
    """The exit status is known although the supervisor was killed long before."""
    go_on = stand_in.folder / "go-on"
    with stand_in.start_training("--steps", "40", STAND_IN_HOLD=str(go_on)) as view:
        stand_in.wait_for_step(3)
        kill_supervisor(stand_in)
        go_on.touch()
        _out, err = view.communicate(timeout=60)

    wait_until(lambda: "succeeded" in stand_in.run_command("runs").stdout, "the end of the run")
    assert view.returncode == 3
    assert "the supervisor of run" in err and "envcheck runs adopt" in err


def test_ctrl_c_stops_the_run_and_its_forks(stand_in: StandInRuns) -> None:
    """Ctrl-C in the typed command asks the supervisor to stop: nothing is left, exit code 130, a complete record."""
    with stand_in.start_training(STAND_IN_FORK="1") as view:
        stand_in.wait_for_step(3)
        below = psutil.Process(stand_in.record["launcher"]["pid"]).children(recursive=True)
        view.send_signal(signal.SIGINT)
        _out, err = view.communicate(timeout=120)

    assert view.returncode == 130, err
    assert "stopped after" in err
    assert len(below) == 2
    assert not [process for process in below if process.is_running() and process.status() != "zombie"]
    assert stand_in.record["state"] == "stopped"

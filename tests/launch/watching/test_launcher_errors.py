"""A launcher that failed but stays alive: recognized tracebacks, and the end of the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from launch.programs import container_agent
from launch.watching import launcher_error

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PORT = 'raise OSError(98, "Address already in use")'
SHOWN = "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()\n"
CHAINED = f"try:\n    1 / 0\nexcept ZeroDivisionError:\n    {PORT}"
THREAD = "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()"
# What runs, and whether it is an error of the main thread that nobody caught.
PROGRAMS = {
    "uncaught": (PORT, True),
    "chained": (CHAINED, True),
    "no words": ("raise RuntimeError", True),
    "after another that was handled": (SHOWN + PORT, True),
    "handled": (SHOWN, False),
    "handled, and more was said": (f"{SHOWN}print('loading', flush=True)", False),
    "of a thread": (THREAD, False),
    "words of more than a line": ('raise OSError("a\\nb")', False),  # what is of the error and what is later: who knows
    "none": ("print('ValueError: not so')", False),
}


def run_python(folder: Path, *argv: str) -> list[str]:
    done = subprocess.run((sys.executable, *argv), cwd=folder, text=True, stdout=-1, stderr=subprocess.STDOUT)
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", PROGRAMS)
def test_traceback_that_is_the_launchers_end(name: str, tmp_path: Path) -> None:
    """Uncaught errors of a module's main thread count; handled ones and those of other threads do not."""
    code, counts = PROGRAMS[name]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__main__.py").write_text(code)
    log = run_python(tmp_path, "-m", "own")
    found = launcher_error.find_uncaught_error(log, ("python", "-m", "own"))

    assert bool(found) == counts, log
    assert not found or (found[0], found[-1]) == (launcher_error.HEAD, log[-1])
    assert launcher_error.find_uncaught_error([*log, "and on"], ("python", "-m", "own")) == ()
    assert (
        launcher_error.find_uncaught_error(log, ("python", "-m", "other.own.launch")) == ()
    )  # a helper that the launcher asked


MAIN = f"def main():\n    {PORT}\n"
# A script, and whether its source shows that nothing could have caught the error that it prints.
SCRIPTS = {
    "bare": (PORT, True),
    "in a function": (f'{MAIN}if __name__ == "__main__":\n    main()', True),
    "after another that was handled": (SHOWN + PORT, True),
    "with a clean end": (f"{MAIN}try:\n    main()\nfinally:\n    pass", True),
    "raised by a handler": (CHAINED, True),
    "handled": (SHOWN, False),
    "handled further out": (
        f"import traceback\n{MAIN}try:\n    for _ in 'x':\n        main()\nexcept OSError:\n    traceback.print_exc()",
        False,
    ),
    "in a with": (f"import threading\n{MAIN}with threading.Lock():\n    main()", False),  # which may catch it
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_traceback_of_a_script(name: str, tmp_path: Path) -> None:
    """For `python FILE.py` the source decides whether the error could have been handled; without source: no."""
    code, counts = SCRIPTS[name]
    path = tmp_path / "launch.py"
    path.write_text(code)
    log = run_python(tmp_path, str(path))
    argv = ("/usr/bin/python3.11", "-u", "launch.py")

    assert log[-1].startswith(("OSError", "ZeroDivisionError"))
    assert bool(launcher_error.find_uncaught_error(log, argv, lambda file: Path(file).read_text())) == counts, log
    assert (
        launcher_error.find_uncaught_error(log, argv)
        == launcher_error.find_uncaught_error(log, argv, lambda _: "def")
        == ()
    )
    for other in (("python", "x.py", "launch.py"), ("torchrun", "launch.py"), ("python", "-m", "x", "launch.py"), ()):
        assert launcher_error.find_uncaught_error(log, other, lambda file: Path(file).read_text()) == ()


def test_traceback_of_a_command(tmp_path: Path) -> None:
    """A command such as torchrun is recognized by name; a script without source is not."""
    for name in ("torchrun", "train.py"):
        (tmp_path / name).write_text(PORT)
    command, script = run_python(tmp_path, str(tmp_path / "torchrun")), run_python(tmp_path, "train.py")

    assert (
        launcher_error.find_uncaught_error(command, ("torchrun", "train.py"))[-1]
        == "OSError: [Errno 98] Address already in use"
    )
    assert launcher_error.find_uncaught_error(command, ("swift", "sft")) == ()
    assert launcher_error.find_uncaught_error(script, ("python", "train.py")) == ()
    assert (
        launcher_error.find_uncaught_error([], ())
        == launcher_error.find_uncaught_error([launcher_error.HEAD], ("x",))
        == ()
    )


def test_the_sitter_tells_of_workers(tmp_path: Path) -> None:
    """A worker in a container lives between its two events."""
    worker = "import os, subprocess as s, sys; s.run([sys.executable, '-c', 'import time; time.sleep(1.5)'], env=%s)"
    code = worker % "{**os.environ, 'PADDLE_TRAINER_ID': '0'}"
    job = {"argv": [sys.executable, "-c", code], "environment": {**os.environ, container_agent.MARK: str(tmp_path)}}
    rest = {"workdir": "", "run": str(tmp_path), "nonce": "-", "grace_s": 1}
    (tmp_path / "job.json").write_text(json.dumps({**job, **rest}))
    argv = (sys.executable, container_agent.__file__, str(tmp_path / "job.json"))
    with subprocess.Popen(argv, stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout
        told = [json.loads(line) for line in child.stdout]

    assert [(name, one[name]) for one in told for name in ("met", "dead") if name in one] == [("met", 0), ("dead", 0)]


# Its worker, which is at work for longer than the limit, says so in the folder of logs when it has done.
LAUNCHER = """
import os, subprocess, sys, threading, time
code = "import pathlib, sys, time; time.sleep(3); pathlib.Path(sys.argv[1], 'worked').write_text('x')"
logs = sys.argv[sys.argv.index("--log_dir") + 1]
subprocess.Popen([sys.executable, "-c", code, logs], env={**os.environ, "PADDLE_TRAINER_ID": "0"})
threading.Thread(target=time.sleep, args=(300,)).start()
raise OSError(98, "Address already in use")
"""


def test_launcher_that_failed_and_stays(paddle_home: Path, tmp_path: Path) -> None:
    """The launcher is ended after its worker, with its last line, an explanation and a next step."""
    (tmp_path / "start.py").write_text(LAUNCHER)
    text = (ROOT / "installers/recipes/tiny-cpu.toml").read_text()
    real = '"-m", "paddle.distributed.launch"'
    assert real in text
    (tmp_path / "own").mkdir()
    (tmp_path / "own/tiny-cpu.toml").write_text(text.replace(real, f'"{tmp_path}/start.py", "--hub_token", "s3cr3t"'))
    words = ("--recipe", "tiny-cpu", "--recipes", "own", "--data", "start.py", "--limit", "launcher.seconds=1")
    argv = (sys.executable, "-m", "envcheck", "train", *words)
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 5, done.stderr
    (path,) = tmp_path.glob("runs/*/run.json")
    record = json.loads(path.read_text())

    assert (
        "s3cr3t" not in done.stderr + path.read_text()
    )  # the option may be in a recipe, but its value not in the record
    for line in (
        "watch.launcher: the launcher failed but did not exit: its log ends with an error",
        "OSError: [Errno 98] Address already in use",
        "next: Fix the problem in the last line of log/launcher.log",
        "cause       ",
    ):
        assert line in done.stderr
    assert (record["state"], record["stopped"]["name"]) == ("stopped", "watch.launcher")
    assert (path.parent / "log" / "worked").exists()
    assert record["seconds"] < 60
    assert "port" in record["diagnoses"][0]["name"]
    assert not [p for p in psutil.process_iter(["cmdline"]) if f"{tmp_path}/start.py" in (p.info["cmdline"] or ())]

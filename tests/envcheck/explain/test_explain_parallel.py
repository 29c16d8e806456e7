"""A log read in parallel parts gives the same result as in one pass; no process is left behind."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.explain import explainer, log_files, log_findings, scan
from envcheck.explain.log_findings import LogFindings, join_pieces
from envcheck.explain.parallel import LogPiece, scan_piece
from envcheck.explain.processes.progress import ProgressMarks, StepLine
from tests.envcheck.explain.diagnose_helpers import SAID

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def make_traceback(size: int, ahead: str, end: str) -> str:
    """A traceback of so many frames; without a last line it ends as the log does, or another one begins."""
    frames = [f'  File "/w/a.py", line {n}, in f{n}\n    go({n})' for n in range(size)]
    lines = ["Traceback (most recent call last):", *"\n".join(frames).split("\n"), *([end] if end else [])]
    return "\n".join(ahead + line for line in lines)


AHEAD = st.sampled_from(("", "", "[rank1]: ", "[rank2]: ", "x: "))
CLOCK = st.integers(0, 59).map(lambda n: f"[2025-07-01 12:00:{n:02d},100] ")
WORDS = st.text("abcdegst", min_size=3, max_size=9)
LINES = st.one_of(
    st.sampled_from(SAID),
    st.builds("{}{}".format, CLOCK, st.sampled_from(SAID)),
    st.sampled_from(("ValueError: no", "", "step", "training completed")),
    st.sampled_from((OOM, OOM, "\r\n", "  3%|x| 1/9\r" * 40 + OOM + "\r 4%", "x" * 700)),
    st.builds("{}step {}".format, CLOCK, st.one_of(st.integers(0, 1), st.integers(0, 10**7))),
    st.builds(lambda loss, times: f"{{'loss': {loss}}}\n" * times, st.integers(0, 9), st.integers(1, 40)),
    st.builds("error in part {} {}".format, WORDS, st.integers(0, 99)),
    st.builds("error code {} failed: {}".format, st.sampled_from((0, 507033, 207001)), WORDS),
    st.builds("{} {}".format, WORDS, st.just("y" * 300 + " failed")),
    st.builds(make_traceback, st.integers(0, 40), AHEAD, st.sampled_from(("", "KeyError: 'a'", OOM))),
    st.builds(lambda line, times: "\n".join([line] * times), st.sampled_from(SAID), st.integers(2, 30)),
)  # fmt: skip
LOGS = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINES, max_size=60), st.sampled_from(("", "\n")))


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Blocks and ends of half a kilobyte, so that short logs have many, and train on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "CHUNK", 512)
        patch.setattr(log_files, "LINE", 256)
        patch.setattr(log_findings, "TAIL", 512)
        patch.setattr(scan, "TAIL", 512)
        patch.setattr(log_findings, "BUFFER", 64)
        yield


def scan_in_pieces(path: Path, chunks: list[int]) -> LogFindings:
    """Read in pieces that end after these numbers of chunks."""
    if not chunks:
        return scan_piece(LogPiece(path), explainer.load_index())
    bounds = [*itertools.pairwise([0, *chunks]), (chunks[-1], None)]
    pieces = [LogPiece(path, start * log_files.CHUNK, end and end - start) for start, end in bounds]
    return join_pieces(scan_piece(piece, explainer.load_index()) for piece in pieces).finish_log()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=LOGS, data=st.data())
def test_pieces_say_what_the_whole_says(small: None, tmp_path: Path, log: str, data: st.DataObject) -> None:
    """Wherever a log is cut: the same numbers, counts, lines, times, exceptions and last lines."""
    path = tmp_path / "a.log"
    path.write_bytes(log.encode())
    last = len(log.encode()) // log_files.CHUNK
    cuts = sorted(data.draw(st.sets(st.integers(1, last), min_size=1, max_size=4)) if last else ())

    assert scan_in_pieces(path, cuts) == scan_piece(LogPiece(path), explainer.load_index())


@given(steps=st.lists(st.sampled_from((None, 1, 2, 3)), max_size=8), data=st.data())
def test_steps_of_pieces(steps: list[int | None], data: st.DataObject) -> None:
    """The last advances are the same wherever a log is cut: the first step of a part may be that of the part before."""
    cut = data.draw(st.integers(0, len(steps)))
    whole, first, second = ProgressMarks(), ProgressMarks(), ProgressMarks()
    for at, step in enumerate(steps):
        whole.add_step(StepLine(at, b"", step, True))
        part, before = (first, 0) if at < cut else (second, cut)
        part.add_step(StepLine(at - before, b"", step, True))
    first.append_part(second, cut)

    assert first == whole


@pytest.mark.parametrize("end", ["KeyError: 'a'\n", ""])
def test_wherever_a_traceback_is_cut(small: None, tmp_path: Path, end: str) -> None:
    """A traceback that goes over the end of a piece is read to its end, or until another one begins."""
    path = tmp_path / "a.log"
    path.write_text(
        f"{make_traceback(20, '', '')}\n3 steps\n{make_traceback(60, '', end)}\n{make_traceback(30, '', '')}\n"
        f"3 steps\n{make_traceback(9, '', OOM)}"
    )
    whole = scan_piece(LogPiece(path), explainer.load_index())

    assert len(whole.raised) == 1 + bool(end)
    assert all(scan_in_pieces(path, [cut]) == whole for cut in range(1, path.stat().st_size // log_files.CHUNK))


def test_the_last_alarms_of_pieces(small: None, tmp_path: Path) -> None:
    """Of more kinds of unknown lines than are kept, those at the beginning and at the end are, with their numbers."""
    path = tmp_path / "a.log"
    path.write_text("".join(f"error in part {'x' * (n % 60)}{'yz' * (n // 60)}\n" for n in range(600)))
    pieces = scan_in_pieces(path, [20, 40])

    assert pieces.odd == scan_piece(LogPiece(path), explainer.load_index()).odd
    assert [pieces.odd[0].line, pieces.odd[-1].line] == [1, 600]


RUN = """
import os, signal, sys, time
from pathlib import Path
from envcheck.cli import main as cli
from envcheck.explain import parallel
from envcheck.core import workers
from envcheck.explain import log_files

parallel.WORTH = parallel.PIECE = 1 << 18
workers.count_usable_cores = lambda: int(sys.argv[1])
really_scan, parent = parallel.scan_piece, os.getpid()
{}
cli.entry(["explain", *sys.argv[2:]])
"""


def run_explain(cores: int, *argv: object, patch: str = "") -> subprocess.CompletedProcess[str]:
    """`envcheck explain` with so many processes, also of small logs."""
    words = [sys.executable, "-c", RUN.format(patch), str(cores), *map(str, argv)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)


def write_rank_logs(folder: Path, count: int, lines: int) -> None:
    """Logs of a training that ends with an error of rank 1."""
    for rank in range(count):
        said = [
            f"[2025-07-01 12:{n // 60 % 60:02d}:{n % 60:02d},{rank:03d}] step {n}, loss: 1.{n}" for n in range(lines)
        ]
        said[lines // 3 : lines // 3] = [f"error in part {'abcdef'[rank % 6]}"]
        said += [make_traceback(9, "", OOM)] if rank == 1 else ["[2025-07-01 13:00:00,000] Connection reset by peer"]
        (folder / f"workerlog.{rank}").write_text("\n".join(said) + "\n")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write_rank_logs(folder, 3, 15_000)
    write_rank_logs(folder, 1, 60_000)
    (folder / "workerlog.3.gz").write_bytes(gzip.compress((folder / "workerlog.2").read_bytes())[:-8])
    (folder / "workerlog.4").write_text("step\n" * 9, encoding="utf-16")
    return folder


def test_any_number_of_processes(logs: Path) -> None:
    """Rank logs, a large one and a truncated compressed one: one, two and five processes give equal results."""
    one = run_explain(1, "--json", logs)

    assert json.loads(one.stdout)["first_failed"] == str(logs / "workerlog.1")
    assert one.stderr.count("is truncated") == 1
    for count in (2, 5):
        several = run_explain(count, "--json", logs, patch="parallel.MOST = 9")
        assert (several.returncode, several.stdout, several.stderr) == (1, one.stdout, one.stderr)


def test_processes_share_the_work(logs: Path) -> None:
    """What is large is read by several processes, and this one reads nothing; what is small is read here."""
    patch = "def scan(*of):\n    os.write(1, b'%d\\n' % (os.getpid() == parent))\n    return really_scan(*of)"
    patch += "\nparallel.scan_piece = scan"

    assert set(run_explain(2, logs, patch=patch).stdout.split("\n")) & {"0", "1"} == {"0"}
    assert set(run_explain(2, logs / "workerlog.4", patch=patch).stdout.split("\n")) & {"0", "1"} == {"1"}


@pytest.mark.parametrize("when", ["piece.start", "True"])
def test_killed_workers(logs: Path, when: str) -> None:
    """Parts that a killed worker did not read are still read."""
    patch = f"parallel.scan_piece = lambda piece, index: {when} and os.getpid() != parent and os.kill(os.getpid(), 9)"
    done = run_explain(2, "--json", logs, patch=f"{patch} or really_scan(piece, index)")

    assert (done.returncode, done.stdout) == (1, run_explain(1, "--json", logs).stdout)


def test_no_process_can_be_started(logs: Path) -> None:
    """Where the system refuses another process this one reads all."""
    done = run_explain(2, "--json", logs, patch="def no(): raise BlockingIOError\nos.fork = no")

    assert (done.returncode, done.stdout) == (1, run_explain(1, "--json", logs).stdout)


def test_a_log_that_cannot_be_read(logs: Path) -> None:
    """The refusal of a log in the middle is the one that a single process gives."""
    patch = """
def blocks(path, start=0, really=log_files.read_blocks):
    if path.name == "workerlog.1":
        raise log_files.UsageError(f"cannot read {path}: input/output error", "look at the disk")
    return really(path, start)
log_files.read_blocks = blocks"""
    one, two = (run_explain(count, logs, patch=patch) for count in (1, 2))

    assert (two.returncode, two.stdout, two.stderr) == (2, "", one.stderr)
    assert "next: look at the disk" in two.stderr


def wait_for_end(pid: int) -> bool:
    """Soon; a zombie has, though who adopted it may be slow to bury it."""
    until, stat = time.monotonic() + 120, Path(f"/proc/{pid}/stat")
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(") ")[2][0] not in "ZX":
                time.sleep(0.02)
                continue
        return True
    return False


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
@pytest.mark.parametrize("group", [False, True])
def test_no_worker_is_left(logs: Path, number: int, code: int, group: bool) -> None:
    """Ctrl-C or a signal ends the workers, without further output."""
    patch = "parallel.scan_piece = lambda *_: time.sleep(60 * bool(os.write(1, b'%d\\n' % os.getpid())))"
    words = [sys.executable, "-c", RUN.format(patch), "2", str(logs)]
    with subprocess.Popen(words, cwd=ROOT, stdout=-1, stderr=-1, text=True, start_new_session=True) as child:
        assert child.stdout and child.stderr
        workers = [int(child.stdout.readline()) for _ in range(2)]
        (os.killpg if group else os.kill)(child.pid, number)
        said = child.stderr.read()

    assert child.returncode == code
    assert said == ("envcheck: interrupted\n" if number == signal.SIGINT else "")
    assert all(map(wait_for_end, workers))


def test_threads_are_not_copied() -> None:
    """A process with another thread does all by itself."""
    code = "import threading, time; from envcheck.core import workers; "
    code += "threading.Thread(target=time.sleep, args=(1,)).start(); print(workers.count_usable_cores())"

    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True) == "1\n"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_large_log(tmp_path: Path) -> None:
    """A log of 40 MB as it comes: by two cores as by one."""
    path = tmp_path / "train.log"
    write_rank_logs(tmp_path, 2, 20_000)
    block = (tmp_path / "workerlog.0").read_bytes()
    path.write_bytes(block * (40_000_000 // len(block)) + (tmp_path / "workerlog.1").read_bytes())
    words = [sys.executable, "-m", "envcheck", "explain", "--json", str(path)]
    one = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *words]

    both, alone = (subprocess.run(argv, cwd=ROOT, capture_output=True) for argv in (words, one))

    assert (both.returncode, both.stdout) == (alone.returncode, alone.stdout)
    assert json.loads(both.stdout)["exit_code"] == both.returncode == 1


def test_a_large_log_shows_how_far_it_is(tmp_path: Path) -> None:
    """On a terminal a bar of the pieces, and then the answer; no thread is at work where this process is forked."""
    log = tmp_path / "train.log"
    log.write_bytes((b"step 1 loss 2.5\n" * 65_536) * 40 + b"torch.OutOfMemoryError: CUDA out of memory.\n")
    argv = ["-W", "error", "-m", "envcheck", "explain", str(log)]
    shown = pexpect.spawn(sys.executable, argv, env={**os.environ, "TERM": "xterm"}, timeout=60, dimensions=(24, 100))
    if len(os.sched_getaffinity(0)) > 1:
        shown.expect("reading.*?[123]/3")
    shown.expect("cause: Out of device memory")
    shown.expect(pexpect.EOF)
    shown.close()

    assert shown.exitstatus == 1

"""Vendor installers run for real: makeself archives that ask, fail, hang, flood, and are interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.core import process, terminal
from envcheck.core.errors import StepError, UsageError
from installers.drivers import dialogue, installation
from installers.drivers.dialogue import DeclinedError, DialogueError
from tests.installers.drivers.driver_helpers import DriverFile, make_host, make_run_file, require_makeself

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_makeself()
    return make_run_file(tmp_path_factory.mktemp("run"), "demo-driver_2.0.run")


@pytest.fixture
def bench(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DriverFile:
    root, scratch = tmp_path / "root", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(terminal, "GRACE_S", 0.7)
    monkeypatch.setattr(dialogue, "SETTLED_S", 0.2)
    return DriverFile(made, root, scratch, [])


def test_accepted(bench: DriverFile) -> None:
    """Every question is answered from the recipe, the licence by a person, and the version is verified."""
    shown: list[str] = []

    did = bench.install_driver("good", ask=lambda text: bool(shown.append(text) or True))

    assert did == "Demo driver 2.0"
    assert "Do you accept the licence?" in shown[0]
    assert [answer for _, answer, _ in bench.kept[0].answers] == ["accept", "k", "y"]
    assert (bench.kept[0].status, "done" in bench.last_output) == (0, True)
    assert bench.has_nothing_left()
    assert "working 100%" in bench.last_output  # the last state of an overwritten line, without control characters
    assert re.findall(r"[\x00-\x09\x0b-\x1f]", bench.last_output) == []


def test_licence_by_option(bench: DriverFile) -> None:
    """With the licence accepted by option nobody is asked."""
    asked: list[str] = []

    assert bench.install_driver("quick", ask=lambda text: bool(asked.append(text)), accept=True) == "Demo driver 2.0"
    assert asked == []


def test_declined(bench: DriverFile) -> None:
    """A refusal is typed, nothing is installed, no process remains, and the dialogue is kept."""
    with pytest.raises(DeclinedError, match="nothing was installed"):
        bench.install_driver("quick", ask=lambda text: False)

    assert not (bench.root / "version.info").exists()
    assert "declined" in bench.last_output
    assert bench.has_nothing_left()


def test_licence_of_the_archive(bench: DriverFile, tmp_path: Path) -> None:
    """makeself's own long licence is shown without a pager, and a person answers it."""
    text = tmp_path / "licence"
    text.write_text("".join(f"clause {number}\n" for number in range(900)))
    bench.file = make_run_file(tmp_path, "demo-driver_2.0.run", "--license", str(text))
    shown: list[str] = []

    assert bench.install_driver("plain", ask=lambda text: bool(shown.append(text) or True)) == "Demo driver 2.0"
    assert ("clause 0\n" in shown[0], "clause 899\n" in shown[0]) == (True, True)


def test_licence_as_an_argument(bench: DriverFile) -> None:
    """An installer that takes the licence as an argument starts only after a person accepts."""
    with pytest.raises(DeclinedError):
        bench.install_driver(
            "plain", ask=lambda text: False, licence="see vendor.example", licence_arguments=("--agree",)
        )

    assert list(bench.root.iterdir()) == []


def test_unknown_question(bench: DriverFile) -> None:
    """A question missing from the recipe is never answered: the run ends, shows it, and suggests a table entry."""
    with pytest.raises(DialogueError, match=r"Erase the disk\? \[y/N\]") as err:
        bench.install_driver("unknown")

    assert 'pattern = "Erase the disk?' in err.value.next_step
    assert not (bench.root / "erased").exists()
    assert "Formatting is next." in bench.last_output
    assert bench.has_nothing_left()


def test_unknown_question_is_noticed_soon(bench: DriverFile) -> None:
    """A waiting installer is noticed within moments, not at its silence limit."""
    began = time.monotonic()
    with pytest.raises(DialogueError, match="asks a question that the recipe does not answer: 'Erase the disk"):
        bench.install_driver("unknown", silence_s=600)

    assert time.monotonic() - began < 300


def test_failing(bench: DriverFile) -> None:
    """An unexpected exit code is a failed step with the last line and the log's path."""
    with pytest.raises(StepError, match="failed with status 17: the compiler is broken") as err:
        bench.install_driver("fails")

    assert "/var/log/demo.log" in err.value.next_step
    assert bench.kept[0].status == 17


def test_expected_code(bench: DriverFile) -> None:
    """The recipe lists the accepted exit codes; the version is verified anyway."""
    with pytest.raises(StepError, match=r"succeeded, but 2\.0 is not installed \(no version found\)"):
        bench.install_driver("fails", exit_codes=(0, 17))


def test_silence(bench: DriverFile) -> None:
    """An installer without output is ended after the recipe's limit, with all its processes."""
    with pytest.raises(DialogueError, match=r"no output from the installer for 1 s; last line: 'Waiting for device"):
        bench.install_driver("hangs", silence_s=1)

    assert bench.has_nothing_left()


def test_deadline(bench: DriverFile) -> None:
    """An installer that keeps printing is ended at its deadline."""
    with pytest.raises(DialogueError, match="the installer did not finish within 2 s"):
        bench.install_driver("slow", silence_s=1, deadline_s=2)

    assert bench.has_nothing_left()


def test_a_person_may_take_their_time(bench: DriverFile) -> None:
    """The time that a person takes for the licence does not count."""
    did = bench.install_driver("quick", ask=lambda text: time.sleep(3.2) is None, silence_s=3, deadline_s=3)

    assert did == "Demo driver 2.0"


def test_flood(bench: DriverFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless output is stopped; its beginning and end are kept."""
    monkeypatch.setattr(dialogue, "FLOOD", 3 << 20)
    monkeypatch.setattr(dialogue, "KEPT", 1 << 16)
    with pytest.raises(DialogueError, match="printed more than"):
        bench.install_driver("floods")

    assert "Demo driver 2.0" in bench.last_output
    assert "characters left out" in bench.last_output
    assert len(bench.last_output) < 1 << 18
    assert bench.has_nothing_left()


def test_password(bench: DriverFile) -> None:
    """A password prompt is never answered."""
    with pytest.raises(DialogueError, match="password: 'Password for root:'"):
        bench.install_driver("password")

    assert not (bench.root / "got").exists()


def test_same_question_again(bench: DriverFile) -> None:
    """A rejected answer is not repeated without end."""
    with pytest.raises(DialogueError, match="the installer rejected the answer 'y'"):
        bench.install_driver("again")

    assert len(bench.kept[0].answers) == dialogue.SAME_AGAIN


def test_not_proved(bench: DriverFile) -> None:
    """An installer that succeeds but leaves no version has failed."""
    with pytest.raises(StepError, match=r"succeeded, but 2\.0 is not installed \(no version found\)"):
        bench.install_driver("absent")


def test_reboot(bench: DriverFile) -> None:
    """A required reboot is reported, and that the version is not active yet."""
    did = bench.install_driver("reboot")

    assert did == "Demo driver 2.0 installed (no version found); reboot, then run `envcheck doctor`"
    assert installation.requires_reboot(did)


def test_daemon_lives_on(bench: DriverFile) -> None:
    """A service that the installer starts in its own session neither blocks the run nor is ended."""
    began = time.monotonic()

    assert bench.install_driver("daemon") == "Demo driver 2.0"
    assert time.monotonic() - began < 100


def test_secrets(bench: DriverFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are redacted in the dialogue, and the caller's variables do not reach the installer."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/conda/lib")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwx")
    bench.install_driver("plain")
    variables = (bench.root / "env").read_text()

    assert "abcdefghijklmnop" not in bench.last_output
    assert ("HF_TOKEN" in variables, "/conda/lib" in variables, "PAGER=cat" in variables) == (False, False, True)


def test_damaged(bench: DriverFile, tmp_path: Path) -> None:
    """A file with a wrong byte is refused by its own checksums before anything of it runs."""
    raw = bytearray(bench.file.read_bytes())
    raw[-20] ^= 1
    bench.file = tmp_path / bench.file.name
    bench.file.write_bytes(raw)
    seen = bench.inspect_file("plain")

    assert [obstacle.why for obstacle in installation.find_obstacles(seen)] == [
        f"{bench.file.name}: the SHA-256 checksum in the header does not match the archive"
    ]
    with pytest.raises(StepError, match="the SHA-256 checksum in the header does not match the archive"):
        bench.install_driver("plain")
    assert list(bench.root.iterdir()) == []


@pytest.mark.parametrize("keep", (0.3, 0.97, 0.9999))
def test_cut_off(bench: DriverFile, tmp_path: Path, keep: float) -> None:
    """A truncated file is refused wherever it ends."""
    raw = bench.file.read_bytes()
    bench.file = tmp_path / bench.file.name
    bench.file.write_bytes(raw[: int(len(raw) * keep)])
    seen = bench.inspect_file("plain")

    assert seen.case.file.intact is not True
    assert bool(installation.find_obstacles(seen)) == (
        keep > 0.5
    )  # a file cut within its header has no size to compare with


def test_changed_meanwhile(bench: DriverFile, tmp_path: Path) -> None:
    """A file replaced between confirmation and run is not run."""
    mine = tmp_path / bench.file.name
    mine.write_bytes(bench.file.read_bytes())
    bench.file = mine
    seen = bench.inspect_file("plain")
    mine.write_bytes(mine.read_bytes() + b"more")

    with pytest.raises(StepError, match=f"expected SHA-256 {seen.sha256}, got "):
        installation.install_driver(
            seen, sha256=seen.sha256, ask_licence=lambda text: True, on_dialogue=bench.kept.append, machine=make_host()
        )
    assert bench.kept == []


def test_file_that_others_may_write(bench: DriverFile, tmp_path: Path) -> None:
    """If others could replace the file, a private copy is compared, run and deleted."""
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    mine = open_folder / bench.file.name
    mine.write_bytes(bench.file.read_bytes())
    open_folder.chmod(0o777)
    bench.file = mine

    assert bench.install_driver("plain") == "Demo driver 2.0"
    assert Path(bench.kept[0].argv[1]).parent.parent == bench.scratch
    assert bench.has_nothing_left()


def test_nobody_agreed(bench: DriverFile) -> None:
    """Without a confirmed checksum nothing runs."""
    with pytest.raises(StepError, match="expected SHA-256 none, got "):
        installation.install_driver(
            bench.inspect_file("plain"),
            sha256="",
            ask_licence=lambda text: True,
            on_dialogue=bench.kept.append,
            machine=make_host(),
        )


@pytest.mark.parametrize("content", (b"", b"\x7fELF\x02", b"#!/usr/bin/python3\nprint()\n", b"\n" * 100, b"#!/bin/sh"))
def test_other_files(bench: DriverFile, tmp_path: Path, content: bytes) -> None:
    """A file that is not a shell archive is a usage error."""
    bench.file = tmp_path / bench.file.name
    bench.file.write_bytes(content)

    with pytest.raises(UsageError, match="not a self-extracting"):
        bench.inspect_file("plain")


def test_other_name(bench: DriverFile, tmp_path: Path) -> None:
    """A file name that no installer matches is a usage error that lists known names."""
    bench.file = tmp_path / "other.run"
    bench.file.write_text("#!/bin/sh\n")

    with pytest.raises(UsageError, match=r"other\.run is not the name of an installer") as err:
        bench.inspect_file("plain")
    assert "demo-driver_VERSION.run" in err.value.next_step


INTERRUPTED = """
from pathlib import Path
from envcheck.core import terminal
from envcheck.core.signals import handle_signals, raise_interrupt
from tests.installers.drivers.driver_helpers import DriverFile
terminal.GRACE_S = 0.7
bench = DriverFile(Path({file!r}), Path({root!r}), Path({scratch!r}), [])
try:
    with handle_signals(raise_interrupt):
        bench.install_driver({mode!r})
except KeyboardInterrupt:
    Path({root!r}, "kept").write_text(bench.last_output)
    raise SystemExit(130)
"""


@pytest.mark.parametrize(
    ("mode", "sign"), [("hangs", signal.SIGINT), ("hangs", signal.SIGTERM), ("stubborn", signal.SIGINT)]
)
def test_interrupted(bench: DriverFile, mode: str, sign: signal.Signals) -> None:
    """SIGINT and SIGTERM leave no process, no unpacked files, and the dialogue, even if the installer ignores them."""
    code = INTERRUPTED.format(file=str(bench.file), root=str(bench.root), scratch=str(bench.scratch), mode=mode)
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    deadline = time.monotonic() + 120
    while not (bench.root / "unpacked").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(sign)
    for later in (0.3, 0.6) if mode == "stubborn" else ():  # repeated signals do not stop the clean-up
        time.sleep(later)
        child.send_signal(sign)

    assert child.wait(300) == 130
    assert "Demo driver 2.0" in (bench.root / "kept").read_text()
    assert bench.list_processes() == []
    assert (bench.root / "heard").exists() == (mode == "hangs")  # the installer received Ctrl-C
    if mode != "stubborn":  # makeself cleans up on SIGTERM, not on SIGKILL
        assert list(bench.scratch.iterdir()) == []


def test_who_waits_is_seen() -> None:
    """A program that reads its terminal differs from a busy one, also if its child reads."""
    with process.open_terminal(["/bin/sh", "-c", "sleep 0.6; sh -c 'read x'; sleep 5"]) as there:
        time.sleep(0.3)
        working = there.is_waiting_for_input()
        time.sleep(0.6)
        reading = there.is_waiting_for_input()
        there.send("x\r")
        time.sleep(0.3)
        after = there.is_waiting_for_input()

    if reading is None:
        pytest.skip("this kernel does not show what its processes wait for")
    assert (working, reading, after) == (False, True, False)


def test_one_door() -> None:
    """pexpect is imported only behind the runner, and not at the runner's import."""
    users = [
        path.relative_to(ROOT).as_posix()
        for package in ("envcheck", "probes", "installers", "launch")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"^\s*(import|from) pexpect", path.read_text(), re.MULTILINE)
    ]
    code = "import sys, envcheck.core.process, installers.drivers.installation; sys.exit('pexpect' in sys.modules)"

    assert users == ["envcheck/core/terminal.py"]
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=dict(os.environ)).returncode == 0

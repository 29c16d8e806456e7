"""Vendors' installers driven for real: makeself archives that ask, fail, hang, flood, and are interrupted."""

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
from installers.drivers import dialogue, driver
from installers.drivers.dialogue import DeclinedError, DialogueError
from tests.installers.drivers.driver_helpers import Bench, archive, host, needs_makeself

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_makeself()
    return archive(tmp_path_factory.mktemp("run"), "demo-driver_2.0.run")


@pytest.fixture
def bench(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    root, scratch = tmp_path / "root", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(terminal, "GRACE_S", 0.7)
    monkeypatch.setattr(dialogue, "SETTLED_S", 0.2)
    return Bench(made, root, scratch, [])


def test_accepted(bench: Bench) -> None:
    """All is answered as the recipe says, the licence by a person who saw it, and the version is proved."""
    shown: list[str] = []

    did = bench.install("good", ask=lambda text: bool(shown.append(text) or True))

    assert did == "Demo driver 2.0"
    assert "Do you accept the licence?" in shown[0]
    assert [answer for _, answer, _ in bench.kept[0].answers] == ["accept", "k", "y"]
    assert (bench.kept[0].status, "done" in bench.said) == (0, True)
    assert bench.nothing_left()
    assert "working 100%" in bench.said  # of a line that was written over, the last state, without control characters
    assert re.findall(r"[\x00-\x09\x0b-\x1f]", bench.said) == []


def test_licence_by_option(bench: Bench) -> None:
    """With the licence accepted beforehand nobody is asked."""
    asked: list[str] = []

    assert bench.install("quick", ask=lambda text: bool(asked.append(text)), accept=True) == "Demo driver 2.0"
    assert asked == []


def test_declined(bench: Bench) -> None:
    """A no is typed as a no, nothing is installed, nobody is left, and the dialogue is kept."""
    with pytest.raises(DeclinedError, match="nothing was installed"):
        bench.install("quick", ask=lambda text: False)

    assert not (bench.root / "version.info").exists()
    assert "declined" in bench.said
    assert bench.nothing_left()


def test_licence_of_the_archive(bench: Bench, tmp_path: Path) -> None:
    """makeself's own licence of many pages comes without a pager, and a person answers for it."""
    text = tmp_path / "licence"
    text.write_text("".join(f"clause {number}\n" for number in range(900)))
    bench.file = archive(tmp_path, "demo-driver_2.0.run", "--license", str(text))
    shown: list[str] = []

    assert bench.install("plain", ask=lambda text: bool(shown.append(text) or True)) == "Demo driver 2.0"
    assert ("clause 0\n" in shown[0], "clause 899\n" in shown[0]) == (True, True)


def test_licence_as_an_argument(bench: Bench) -> None:
    """An installer that takes the licence as an argument is not started before a person says yes."""
    with pytest.raises(DeclinedError):
        bench.install("plain", ask=lambda text: False, licence="see vendor.example", licence_arguments=("--agree",))

    assert list(bench.root.iterdir()) == []


def test_unknown_question(bench: Bench) -> None:
    """A question that the recipe does not know is never answered: it ends the run, is shown, and how to add it."""
    with pytest.raises(DialogueError, match=r"Erase the disk\? \[y/N\]") as err:
        bench.install("unknown")

    assert 'pattern = "Erase the disk?' in err.value.next_step
    assert not (bench.root / "erased").exists()
    assert "Formatting is next." in bench.said
    assert bench.nothing_left()


def test_unknown_question_is_noticed_soon(bench: Bench) -> None:
    """That it waits is seen in a moment, not at the end of its patience."""
    began = time.monotonic()
    with pytest.raises(DialogueError, match="does not know"):
        bench.install("unknown", silence_s=600)

    assert time.monotonic() - began < 300


def test_failing(bench: Bench) -> None:
    """Another exit code than the recipe's is a failed step with its last line and its log."""
    with pytest.raises(StepError, match="ended with 17: the compiler is broken") as err:
        bench.install("fails")

    assert "/var/log/demo.log" in err.value.next_step
    assert bench.kept[0].status == 17


def test_expected_code(bench: Bench) -> None:
    """Which codes are good is the recipe's word; the proof comes all the same."""
    with pytest.raises(StepError, match=r"2\.0 is not there"):
        bench.install("fails", exit_codes=(0, 17))


def test_silence(bench: Bench) -> None:
    """One that says nothing any more is ended after the recipe's patience, with all that it started."""
    with pytest.raises(DialogueError, match=r"said nothing for 1 s; its last line was 'Waiting for device"):
        bench.install("hangs", silence_s=1)

    assert bench.nothing_left()


def test_deadline(bench: Bench) -> None:
    """One that goes on talking is ended at the deadline."""
    with pytest.raises(DialogueError, match="did not end in 2 s"):
        bench.install("slow", silence_s=1, deadline_s=2)

    assert bench.nothing_left()


def test_a_person_may_take_their_time(bench: Bench) -> None:
    """The time that a person needs for the licence is not the installer's."""
    did = bench.install("quick", ask=lambda text: time.sleep(3.2) is None, silence_s=3, deadline_s=3)

    assert did == "Demo driver 2.0"


def test_flood(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless output is stopped, and kept by its beginning and its end."""
    monkeypatch.setattr(dialogue, "FLOOD", 3 << 20)
    monkeypatch.setattr(dialogue, "KEPT", 1 << 16)
    with pytest.raises(DialogueError, match="printed more than"):
        bench.install("floods")

    assert "Demo driver 2.0" in bench.said
    assert "characters left out" in bench.said
    assert len(bench.said) < 1 << 18
    assert bench.nothing_left()


def test_password(bench: Bench) -> None:
    """A password is asked for: nothing is typed."""
    with pytest.raises(DialogueError, match="password: 'Password for root:'"):
        bench.install("password")

    assert not (bench.root / "got").exists()


def test_same_question_again(bench: Bench) -> None:
    """An answer that is not taken is not given for ever."""
    with pytest.raises(DialogueError, match="does not take 'y'"):
        bench.install("again")

    assert len(bench.kept[0].answers) == dialogue.SAME_AGAIN


def test_not_proved(bench: Bench) -> None:
    """An installer that ends well and leaves no version has failed."""
    with pytest.raises(StepError, match=r"ended well, yet 2\.0 is not there: none is told"):
        bench.install("absent")


def test_reboot(bench: Bench) -> None:
    """Where it asks for a reboot, that is said, and that the version is not there yet."""
    assert re.search("none is told; it asks for a reboot, then: envcheck doctor", bench.install("reboot"))


def test_daemon_lives_on(bench: Bench) -> None:
    """A service that the installer starts in a session of its own neither holds us up nor is ended."""
    began = time.monotonic()

    assert bench.install("daemon") == "Demo driver 2.0"
    assert time.monotonic() - began < 100


def test_secrets(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a token is blanked in the dialogue, and our own variables do not reach the installer."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/conda/lib")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwx")
    bench.install("plain")
    variables = (bench.root / "env").read_text()

    assert "abcdefghijklmnop" not in bench.said
    assert ("HF_TOKEN" in variables, "/conda/lib" in variables, "PAGER=cat" in variables) == (False, False, True)


def test_damaged(bench: Bench, tmp_path: Path) -> None:
    """A file with a wrong byte is refused by its own sums before anything of it runs."""
    raw = bytearray(bench.file.read_bytes())
    raw[-20] ^= 1
    bench.file = tmp_path / bench.file.name
    bench.file.write_bytes(raw)
    seen = bench.look("plain")

    assert [obstacle.why for obstacle in driver.checks(seen)] == [
        f"{bench.file.name}: the SHA-256 sum in its head is not that of its archive"
    ]
    with pytest.raises(StepError, match="sum in its head"):
        bench.install("plain")
    assert list(bench.root.iterdir()) == []


@pytest.mark.parametrize("keep", (0.3, 0.97, 0.9999))
def test_cut_off(bench: Bench, tmp_path: Path, keep: float) -> None:
    """A file that is cut off anywhere is refused."""
    raw = bench.file.read_bytes()
    bench.file = tmp_path / bench.file.name
    bench.file.write_bytes(raw[: int(len(raw) * keep)])
    seen = bench.look("plain")

    assert seen.case.file.intact is not True
    assert bool(driver.checks(seen)) == (keep > 0.5)  # cut within the head there is no figure to compare with


def test_changed_meanwhile(bench: Bench, tmp_path: Path) -> None:
    """A file that was replaced between the agreement and the run is not run."""
    mine = tmp_path / bench.file.name
    mine.write_bytes(bench.file.read_bytes())
    bench.file = mine
    seen = bench.look("plain")
    mine.write_bytes(mine.read_bytes() + b"more")

    with pytest.raises(StepError, match="agreed was"):
        driver.install(seen, sha256=seen.sha256, ask_licence=lambda text: True, keep=bench.kept.append, machine=host())
    assert bench.kept == []


def test_file_that_others_may_write(bench: Bench, tmp_path: Path) -> None:
    """Where others could replace the file, a copy of our own is compared and run, and taken away."""
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    mine = open_folder / bench.file.name
    mine.write_bytes(bench.file.read_bytes())
    open_folder.chmod(0o777)
    bench.file = mine

    assert bench.install("plain") == "Demo driver 2.0"
    assert Path(bench.kept[0].argv[1]).parent.parent == bench.scratch
    assert bench.nothing_left()


def test_nobody_agreed(bench: Bench) -> None:
    """Without an agreed sum nothing is run."""
    with pytest.raises(StepError, match="agreed was none"):
        driver.install(
            bench.look("plain"), sha256="", ask_licence=lambda text: True, keep=bench.kept.append, machine=host()
        )


@pytest.mark.parametrize("content", (b"", b"\x7fELF\x02", b"#!/usr/bin/python3\nprint()\n", b"\n" * 100, b"#!/bin/sh"))
def test_other_files(bench: Bench, tmp_path: Path, content: bytes) -> None:
    """What is no shell archive is wrong usage."""
    bench.file = tmp_path / bench.file.name
    bench.file.write_bytes(content)

    with pytest.raises(UsageError, match="not a self-extracting"):
        bench.look("plain")


def test_other_name(bench: Bench, tmp_path: Path) -> None:
    """A name that no installer has is wrong usage, with the names that are known."""
    bench.file = tmp_path / "other.run"
    bench.file.write_text("#!/bin/sh\n")

    with pytest.raises(UsageError, match=r"other.run: not the name") as err:
        bench.look("plain")
    assert "demo-driver_{version}.run" in err.value.next_step


INTERRUPTED = """
from pathlib import Path
from envcheck.core import terminal
from envcheck.core.signals import heard_by, interrupt
from tests.installers.drivers.driver_helpers import Bench
terminal.GRACE_S = 0.7
bench = Bench(Path({file!r}), Path({root!r}), Path({scratch!r}), [])
try:
    with heard_by(interrupt):
        bench.install({mode!r})
except KeyboardInterrupt:
    Path({root!r}, "kept").write_text(bench.said)
    raise SystemExit(130)
"""


@pytest.mark.parametrize(
    ("mode", "sign"), [("hangs", signal.SIGINT), ("hangs", signal.SIGTERM), ("stubborn", signal.SIGINT)]
)
def test_interrupted(bench: Bench, mode: str, sign: signal.Signals) -> None:
    """Ctrl-C and a polite kill leave no process, nothing unpacked, and the dialogue; even where it will not hear."""
    code = INTERRUPTED.format(file=str(bench.file), root=str(bench.root), scratch=str(bench.scratch), mode=mode)
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    deadline = time.monotonic() + 120
    while not (bench.root / "unpacked").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(sign)
    for later in (0.3, 0.6) if mode == "stubborn" else ():  # impatient: the tidying goes on
        time.sleep(later)
        child.send_signal(sign)

    assert child.wait(300) == 130
    assert "Demo driver 2.0" in (bench.root / "kept").read_text()
    assert bench.processes() == []
    assert (bench.root / "heard").exists() == (mode == "hangs")  # Ctrl-C, as a person would type it
    if mode != "stubborn":  # makeself tidies up when it is asked to end, not when it is shot
        assert list(bench.scratch.iterdir()) == []


def test_who_waits_is_seen() -> None:
    """A program that reads its terminal is told from one that works, also where a child of its reads."""
    with process.converse(["/bin/sh", "-c", "sleep 0.6; sh -c 'read x'; sleep 5"]) as there:
        time.sleep(0.3)
        working = there.waits()
        time.sleep(0.6)
        reading = there.waits()
        there.send("x\r")
        time.sleep(0.3)
        after = there.waits()

    if reading is None:
        pytest.skip("this kernel does not show what its processes wait for")
    assert (working, reading, after) == (False, True, False)


def test_one_door() -> None:
    """pexpect is imported behind the runner alone, and not when the runner is."""
    users = [
        path.relative_to(ROOT).as_posix()
        for package in ("envcheck", "probes", "installers", "launch")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"^\s*(import|from) pexpect", path.read_text(), re.MULTILINE)
    ]
    code = "import sys, envcheck.core.process, installers.drivers.driver; sys.exit('pexpect' in sys.modules)"

    assert users == ["envcheck/core/terminal.py"]
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=dict(os.environ)).returncode == 0

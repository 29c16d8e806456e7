"""`envcheck provision --driver` by the real command, with real makeself archives."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.installers.drivers.driver_command import ROOT, Bench
from tests.installers.drivers.driver_helpers import archive, needs_makeself, published

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_makeself()
    return archive(tmp_path_factory.mktemp("run"), "demo-driver_2.0.run")


@pytest.fixture
def bench(made: Path, tmp_path: Path) -> Bench:
    return Bench(tmp_path, made)


def test_dry_run(bench: Bench) -> None:
    """The whole plan: file, version, sum, command, change, way back, licence, reboot; nothing is run or left."""
    done = bench.run("--dry-run")

    assert done.returncode == 0, done.stderr
    for words in (
        f"Demo driver 2.0 for demo, from {bench.file}",
        "already so none is installed",
        f"its SHA-256 is {bench.sha256}",
        f"run /bin/sh {bench.file} -- quick {bench.root}",
        "none is installed, 1.0 or newer is wanted",
        "undo: demo-uninstall --all",
        "you are asked",
        "reboot may follow",
        "mind power must stay on",
    ):
        assert words in " ".join(done.stdout.split())
    assert list(bench.root.iterdir()) == []
    assert not (bench.folder / "home").exists()
    assert not re.search(r"cannot tell [^;]{,60} could not be told", " ".join(done.stdout.split()))


def test_installed_and_then_nothing_to_do(bench: Bench) -> None:
    """With everything said beforehand it is installed, proved and journalled; again: nothing."""
    bench.say("good")
    done = bench.given()
    again = bench.given()
    begun, ended = bench.journal()

    assert done.returncode == 0, done.stderr
    assert "installed: Demo driver 2.0" in done.stdout
    assert "   | working 100%" in done.stderr
    assert (begun["event"], ended["event"], begun["sha256"], begun["sha256_from"]) == (
        "begun",
        "done",
        bench.sha256,
        "given",
    )
    assert [answer for _, answer, _ in ended["dialogue"]["answers"]] == ["accept", "k", "y"]
    assert "Do you accept the licence?" in ended["dialogue"]["said"]
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert len(bench.journal()) == 2
    assert bench.nothing_left()


def test_secrets_stay_out_of_the_journal(bench: Bench) -> None:
    """What looks like a token in the installer's words is blanked on the screen and in the journal."""
    bench.say("plain")
    done = bench.given()
    text = json.dumps(bench.journal())

    assert done.returncode == 0, done.stderr
    assert "abcdefghijklmnop" not in text + done.stdout + done.stderr
    assert "token=***" in text


@pytest.mark.parametrize(
    ("given", "missing"),
    (
        ([], ["--yes", "--sha256", "--accept-licence"]),
        (["--yes"], ["--sha256", "--accept-licence"]),
        (["--yes", "--accept-licence"], ["--sha256"]),
        (["--yes", "--sha256"], ["--accept-licence"]),
    ),
)
def test_nobody_to_ask(given: list[str], missing: list[str], bench: Bench) -> None:
    """What nobody can be asked for is wrong usage, named, before anything is run: --yes is no licence and no sum."""
    done = bench.run(*[word for option in given for word in (option, *[bench.sha256] * (option == "--sha256"))])
    told = done.stderr.partition("nobody to ask")[2]

    assert done.returncode == 2
    assert [option for option in ("--yes", "--sha256", "--accept-licence") if f"{option} " in told] == missing
    assert list(bench.root.iterdir()) == []
    assert bench.journal() == []


def test_a_person_is_asked(bench: Bench) -> None:
    """On a terminal: the sum, then the plan, then the licence below what the installer shows."""
    shell = bench.terminal()
    shell.expect(f"Its SHA-256 is\\s+{bench.sha256}\\s+Is that the vendor's file")
    shell.sendline("y")
    shell.expect("Do this")
    shell.sendline("y")
    shell.expect(re.escape("Do you accept the licence? (accept/decline):"))
    shell.expect("Do you accept the licence of Demo driver")
    shell.sendline("y")
    shell.expect("installed: Demo driver 2.0")
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 0
    assert bench.journal()[0]["sha256_from"] == "agreed by a person"


@pytest.mark.parametrize("at", ("the vendor's file", "Do this", "Do you accept the licence of"))
def test_a_person_says_no(at: str, bench: Bench) -> None:
    """A no to any question installs nothing, with exit code 1; a no to the licence is typed, and recorded."""
    shell = bench.terminal()
    for question in ("the vendor's file", "Do this", "Do you accept the licence of"):
        shell.expect(question)
        shell.sendline("n" if question == at else "y")
        if question == at:
            break
    shell.expect("declined: nothing was installed")
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 1
    assert not bench.installed
    assert bench.events() == (["begun", "failed"] if "licence" in at else [])
    assert bench.nothing_left()


def test_the_licence_is_asked_for_in_spite_of_yes(bench: Bench) -> None:
    """An installer that takes its licence as an argument is not begun before a person saw its text and said yes."""
    bench.say("plain", 'licence = "see vendor.example/licence"\nlicence_arguments = ["--agree"]')
    shell = bench.terminal("--yes", "--sha256", bench.sha256)
    shell.expect("see vendor.example/licence")
    shell.expect("-> run")
    shell.expect("see vendor.example/licence")
    shell.expect("Do you accept the licence of")
    shell.sendline("n")
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 1
    assert list(bench.root.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "told"),
    (
        ("unknown", r"asks what the recipe does not know: 'Erase the disk\? \[y/N\]'"),
        ("fails", "ended with 17: the compiler is broken"),
        ("hangs", "said nothing for 2 s; its last line was 'Waiting for device startup...'"),
        ("absent", r"ended well, yet 2\.0 is not there"),
        ("password", "asks for a password"),
    ),
)
def test_it_fails(mode: str, told: str, bench: Bench) -> None:
    """Exit code 4 with the reason and the journal's place; the dialogue is in it; nobody is left; one document."""
    bench.say(mode, silence_s=2)
    done = bench.given("--json")
    said = json.loads(done.stdout)

    assert done.returncode == 4
    assert re.search(told, done.stderr)
    assert "journal.jsonl" in done.stderr
    assert (said["result"], said["exit_code"]) == ("failed", 4)
    assert bench.events() == ["begun", "failed"]
    assert "Demo driver 2.0" in bench.journal()[1]["dialogue"]["said"]
    assert not (bench.root / "erased").exists()
    assert bench.nothing_left()


def test_sum_wrong(bench: Bench) -> None:
    """Another sum than the one given refuses with both; the plan tells it, nothing is run."""
    done = bench.run("--yes", "--accept-licence", "--sha256", "0" * 64)

    assert done.returncode == 1
    assert f"SHA-256 is {bench.sha256}, expected was {'0' * 64}" in done.stderr
    assert "in the way" in done.stdout
    assert list(bench.root.iterdir()) == []


@pytest.mark.parametrize("text", ("abc", "g" * 64, "0" * 63))
def test_no_sum(text: str, bench: Bench) -> None:
    """What is no SHA-256 is wrong usage."""
    assert bench.run("--sha256", text).returncode == 2


def test_sum_in_the_recipe(bench: Bench) -> None:
    """A published sum is not asked for; one that is given besides must be the same."""
    table = (
        '[[drivers.published]]\nversion = "2.0"\nurl = "https://vendor.example/demo-driver_2.0.run"\nsha256 = "{}"\n'
    )
    bench.say("quick", after=table.format(bench.sha256))
    other = bench.run("--yes", "--accept-licence", "--sha256", "0" * 64)
    done = bench.run("--yes", "--accept-licence")

    assert (other.returncode, "not the sum that the recipe has" in other.stderr) == (2, True)
    assert done.returncode == 0, done.stderr
    assert bench.journal()[0]["sha256_from"] == "published"


def test_downgrade(bench: Bench) -> None:
    """An older one than is installed is refused, and installed when it is meant."""
    (bench.root / "version.info").write_text("Version=3.0\n")
    refused = bench.given()
    done = bench.given("--allow-downgrade")

    assert (refused.returncode, "3.0 is installed, the file is 2.0: that is older" in refused.stderr) == (1, True)
    assert done.returncode == 0, done.stderr
    assert "Version=2.0" in (bench.root / "version.info").read_text()


def test_document(bench: Bench) -> None:
    """--json prints one document: the plan, and what was done; a program finds command, sum, way back and doubts."""
    planned = json.loads(bench.run("--dry-run", "--json").stdout)
    done = json.loads(bench.given("--json").stdout)
    ready = json.loads(bench.given("--json").stdout)

    assert (planned["result"], done["result"], ready["result"]) == ("planned", "done", "ready")
    assert planned["driver"]["argv"] == ["/bin/sh", str(bench.file), "--", "quick", str(bench.root)]
    assert (planned["driver"]["sha256"], planned["driver"]["sha256_from"]) == (bench.sha256, "")
    assert planned["driver"]["undo"] == ["demo-uninstall --all"]
    assert any("nobody publishes a sum" in words for words in planned["doubts"])
    assert done["performed"] == [{"step": "driver", "did": "Demo driver 2.0"}]
    assert (ready["steps"], ready["performed"], ready["driver"]["installed"]) == ([], [], "2.0")


@pytest.mark.parametrize("sign", (signal.SIGINT, signal.SIGTERM))
def test_interrupted(sign: signal.Signals, bench: Bench) -> None:
    """Ctrl-C and a polite kill in the midst of the dialogue: exit 130, no process, the dialogue in a true journal."""
    bench.say("hangs")
    code = bench.interrupted("--yes", "--accept-licence", "--sha256", bench.sha256, sign=sign)

    assert code == 130
    assert bench.events() == ["begun", "interrupted"]
    assert "Waiting for device startup" in bench.journal()[1]["dialogue"]["said"]
    assert bench.nothing_left()


def test_interrupted_at_the_licence(bench: Bench) -> None:
    """Ctrl-C at the question for the licence is a no to everything: exit 130, nothing installed, nobody left."""
    shell = bench.terminal("--yes", "--sha256", bench.sha256)
    shell.expect("Do you accept the licence of Demo driver")
    shell.sendintr()
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 130
    assert bench.events() == ["begun", "interrupted"]
    assert not bench.installed
    assert bench.nothing_left()


@pytest.fixture
def vendor(bench: Bench) -> Iterator[str]:
    """A vendor's server that publishes the file."""
    with published(bench.file) as address:
        yield address


def test_fetched(vendor: str, bench: Bench) -> None:
    """`--driver fetch` shows, fetches into the cache, installs, and then has nothing to do."""
    more = f'[[drivers.published]]\nversion = "2.0"\nurl = "{vendor}"\nsha256 = "{bench.sha256}"\n'
    bench.say("quick", after=more)
    dry = bench.run("--dry-run", file="fetch")
    nobody = bench.run(file="fetch")
    before = (bench.folder / "home").exists()
    done = bench.run("--yes", "--accept-licence", file="fetch")
    again = bench.run("--yes", file="fetch")
    kept = list((bench.folder / "home" / "downloads").rglob("demo-driver_2.0.run"))

    assert (dry.returncode, vendor in dry.stdout, before, nobody.returncode) == (0, True, False, 2)
    assert done.returncode == 0, done.stderr
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in kept] == [bench.sha256]
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert bench.events() == ["begun", "done"]


def test_not_fetched(vendor: str, bench: Bench) -> None:
    """A no before the download fetches nothing, with exit code 1 and a document."""
    bench.say("quick", after=f'[[drivers.published]]\nversion = "2.0"\nurl = "{vendor}"\n')
    shell = bench.terminal("--json", file="fetch")
    shell.expect("Fetch it")
    shell.sendline("n")
    shell.expect('"result": "declined"')
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 1
    assert not (bench.folder / "home").exists()


def test_nothing_is_published(bench: Bench) -> None:
    """Where the vendor publishes nothing that fits, that is said with what to do instead."""
    done = bench.run("--yes", file="fetch")

    assert done.returncode == 2
    assert "--driver FILE.run" in done.stderr


@pytest.mark.parametrize(
    "options", (("--undo",), ("--into", "venv"), ("--as-script",)), ids=lambda options: str(options[0])
)
def test_options_at_odds(options: tuple[str, ...], bench: Bench) -> None:
    """What does not go with --driver is refused in a sentence."""
    assert bench.run(*options).returncode == 2


def envcheck(*argv: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "envcheck", *argv], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )


def test_by_device_alone(bench: Bench, tmp_path: Path) -> None:
    """With several recipes the one that wants most counts, and the others' minima are said."""
    name = "Ascend-hdk-910b-npu-driver_25.3.0_linux-x86_64.run"
    (tmp_path / name).write_bytes(bench.file.read_bytes())
    done = envcheck("provision", "--device", "npu", "--driver", str(tmp_path / name), "--dry-run", tmp_path=tmp_path)

    said = " ".join(done.stdout.split())

    assert "Ascend HDK driver 25.3.0 for qwen-7b-npu-llamafactory" in said, done.stderr
    assert "wants most, 25.3.RC1 or newer (" in said
    for other in ("ernie-300b-npu 23.0.3", "qwen-7b-npu-swift 25.2.0"):
        assert other in said
    assert done.returncode in (1, 2)


def test_simulated(bench: Bench, tmp_path: Path) -> None:
    """On a simulated machine nothing is installed: the installer would run on the real one."""
    command = (sys.executable, "-m", "envcheck", "provision", "--device", "nvidia", "--driver", str(bench.file))
    done = envcheck("simulate", "h200x8", "--", *command, tmp_path=tmp_path)

    assert done.returncode == 2
    assert "simulated" in done.stderr


def test_only_for_driver(tmp_path: Path) -> None:
    """Options of --driver alone are refused without it; processors have no driver."""
    alone = envcheck("provision", "--device", "cpu", "--accept-licence", tmp_path=tmp_path)
    cpu = envcheck("provision", "--device", "cpu", "--driver", "x.run", tmp_path=tmp_path)

    assert (alone.returncode, cpu.returncode) == (2, 2)
    assert "processors need no driver" in cpu.stderr

"""`envcheck provision --install-driver` as a real command with real makeself archives."""

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

from tests.installers.drivers.driver_command import ROOT, DriverCommand
from tests.installers.drivers.driver_helpers import make_run_file, require_makeself, serve_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_makeself()
    return make_run_file(tmp_path_factory.mktemp("run"), "demo-driver_2.0.run")


@pytest.fixture
def bench(made: Path, tmp_path: Path) -> DriverCommand:
    return DriverCommand(tmp_path, made)


def test_dry_run(bench: DriverCommand) -> None:
    """The plan shows file, version, checksum, command, changes, undo, licence and reboot; nothing runs or is left."""
    done = bench.run_command("--dry-run")

    assert done.returncode == 0, done.stderr
    for words in (
        f"Demo driver 2.0 for demo, from {bench.file}",
        "ok not installed",
        f"its SHA-256 is {bench.file_sha256}",
        f"run /bin/sh {bench.file} -- quick {bench.root}",
        "not installed; 1.0 or newer required",
        "undo: demo-uninstall --all",
        "envcheck asks you to accept it",
        "reboot may be required",
        "note power must stay on",
    ):
        assert words in " ".join(done.stdout.split())
    assert list(bench.root.iterdir()) == []
    assert not (bench.folder / "home").exists()
    assert not re.search(r"not checked [^;]{,60} unknown", " ".join(done.stdout.split()))


def test_installed_and_then_nothing_to_do(bench: DriverCommand) -> None:
    """With all options it installs, verifies and journals; the second run does nothing."""
    bench.write_recipe("good")
    done = bench.run_with_answers()
    again = bench.run_with_answers()
    assert len(bench.read_journal()) == 2, (bench.read_journal(), again.stdout, again.stderr)
    begun, ended = bench.read_journal()

    assert done.returncode == 0, done.stderr
    assert "installed: Demo driver 2.0" in done.stdout
    assert "   | working 100%" in done.stderr
    assert (begun["event"], ended["event"], begun["sha256"], begun["sha256_source"]) == (
        "begun",
        "done",
        bench.file_sha256,
        "given",
    )
    assert [answer for _, answer, _ in ended["dialogue"]["answers"]] == ["accept", "k", "y"]
    assert "Do you accept the licence?" in ended["dialogue"]["output"]
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert len(bench.read_journal()) == 2
    assert bench.has_nothing_left()


def test_secrets_stay_out_of_the_journal(bench: DriverCommand) -> None:
    """Tokens in the installer's output are redacted on screen and in the journal."""
    bench.write_recipe("plain")
    done = bench.run_with_answers()
    text = json.dumps(bench.read_journal())

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
def test_nobody_to_ask(given: list[str], missing: list[str], bench: DriverCommand) -> None:
    """Missing confirmations are listed in a usage error before anything runs: --yes covers no licence or checksum."""
    done = bench.run_command(
        *[word for option in given for word in (option, *[bench.file_sha256] * (option == "--sha256"))]
    )
    told = done.stderr.partition("cannot ask for confirmation")[2]

    assert done.returncode == 2
    assert [option for option in ("--yes", "--sha256", "--accept-licence") if f"{option} " in told] == missing
    assert list(bench.root.iterdir()) == []
    assert bench.read_journal() == []


def test_a_person_is_asked(bench: DriverCommand) -> None:
    """A terminal asks for the checksum, then the plan, then the licence below the installer's text."""
    shell = bench.open_terminal()
    shell.expect(f"Its SHA-256 is\\s+{bench.file_sha256}\\s+Is this the vendor's file")
    shell.sendline("y")
    shell.expect("Continue")
    shell.sendline("y")
    shell.expect(re.escape("Do you accept the licence? (accept/decline):"))
    shell.expect("Do you accept the licence of Demo driver")
    shell.sendline("y")
    shell.expect("installed: Demo driver 2.0")
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 0
    assert bench.read_journal()[0]["sha256_source"] == "confirmed"


@pytest.mark.parametrize("at", ("the vendor's file", "Continue", "Do you accept the licence of"))
def test_a_person_says_no(at: str, bench: DriverCommand) -> None:
    """A refusal installs nothing and exits with 1; a declined licence is typed and recorded."""
    shell = bench.open_terminal()
    for question in ("the vendor's file", "Continue", "Do you accept the licence of"):
        shell.expect(question)
        shell.sendline("n" if question == at else "y")
        if question == at:
            break
    shell.expect("declined; nothing was installed")
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 1
    assert not bench.is_installed
    assert bench.list_events() == (["begun", "failed"] if "licence" in at else [])
    assert bench.has_nothing_left()


def test_the_licence_is_asked_for_in_spite_of_yes(bench: DriverCommand) -> None:
    """An installer with the licence as an argument starts only after a person accepts its text."""
    bench.write_recipe("plain", 'licence = "see vendor.example/licence"\nlicence_arguments = ["--agree"]')
    shell = bench.open_terminal("--yes", "--sha256", bench.file_sha256)
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
        ("unknown", r"asks a question that the recipe does not answer: 'Erase the disk\? \[y/N\]'"),
        ("fails", "failed with status 17: the compiler is broken"),
        ("hangs", "no output from the installer for 2 s; last line: 'Waiting for device startup...'"),
        ("absent", r"succeeded, but 2\.0 is not installed"),
        ("password", "asks for a password"),
    ),
)
def test_it_fails(mode: str, told: str, bench: DriverCommand) -> None:
    """Failures exit with 4, name the reason and the journal, record the dialogue, leave no process, print one
    document.
    """
    bench.write_recipe(mode, silence_s=2)
    done = bench.run_with_answers("--json")
    said = json.loads(done.stdout)

    assert done.returncode == 4
    assert re.search(told, done.stderr)
    assert "journal.jsonl" in done.stderr
    assert (said["result"], said["exit_code"]) == ("failed", 4)
    assert bench.list_events() == ["begun", "failed"]
    assert "Demo driver 2.0" in bench.read_journal()[1]["dialogue"]["output"]
    assert not (bench.root / "erased").exists()
    assert bench.has_nothing_left()


def test_sum_wrong(bench: DriverCommand) -> None:
    """Another checksum than the given one is refused with both; the plan shows it, nothing runs."""
    done = bench.run_command("--yes", "--accept-licence", "--sha256", "0" * 64)

    assert done.returncode == 1
    assert f"expected SHA-256 {'0' * 64}, got {bench.file_sha256}" in done.stderr
    assert "blocked" in done.stdout
    assert list(bench.root.iterdir()) == []


@pytest.mark.parametrize("text", ("abc", "g" * 64, "0" * 63))
def test_no_sum(text: str, bench: DriverCommand) -> None:
    """An invalid SHA-256 is a usage error."""
    assert bench.run_command("--sha256", text).returncode == 2


def test_sum_in_the_recipe(bench: DriverCommand) -> None:
    """A published checksum needs no confirmation; a given one must equal it."""
    table = (
        '[[drivers.published]]\nversion = "2.0"\nurl = "https://vendor.example/demo-driver_2.0.run"\nsha256 = "{}"\n'
    )
    bench.write_recipe("quick", after=table.format(bench.file_sha256))
    other = bench.run_command("--yes", "--accept-licence", "--sha256", "0" * 64)
    done = bench.run_command("--yes", "--accept-licence")

    assert (other.returncode, "differs from the recipe's checksum" in other.stderr) == (2, True)
    assert done.returncode == 0, done.stderr
    assert bench.read_journal()[0]["sha256_source"] == "published"


def test_downgrade(bench: DriverCommand) -> None:
    """An older version than the installed one is refused, and installed with --allow-downgrade."""
    (bench.root / "version.info").write_text("Version=3.0\n")
    refused = bench.run_with_answers()
    done = bench.run_with_answers("--allow-downgrade")

    assert (refused.returncode, "3.0 is installed; the file is 2.0: this is a downgrade" in refused.stderr) == (1, True)
    assert done.returncode == 0, done.stderr
    assert "Version=2.0" in (bench.root / "version.info").read_text()


def test_document(bench: DriverCommand) -> None:
    """--json prints one document with the plan and the result: command, checksum, undo and doubts."""
    planned = json.loads(bench.run_command("--dry-run", "--json").stdout)
    done = json.loads(bench.run_with_answers("--json").stdout)
    ready = json.loads(bench.run_with_answers("--json").stdout)

    assert (planned["result"], done["result"], ready["result"]) == ("planned", "done", "ready")
    assert planned["driver"]["argv"] == ["/bin/sh", str(bench.file), "--", "quick", str(bench.root)]
    assert (planned["driver"]["sha256"], planned["driver"]["sha256_source"]) == (bench.file_sha256, "")
    assert planned["driver"]["undo"] == ["demo-uninstall --all"]
    assert any("no checksum is published for this file" in words for words in planned["undetermined"])
    assert done["performed"] == [{"step": "driver", "summary": "Demo driver 2.0"}]
    assert (ready["steps"], ready["performed"], ready["driver"]["installed"]) == ([], [], "2.0")


@pytest.mark.parametrize("sign", (signal.SIGINT, signal.SIGTERM))
def test_interrupted(sign: signal.Signals, bench: DriverCommand) -> None:
    """SIGINT and SIGTERM during the dialogue: exit 130, no process, the dialogue in the journal."""
    bench.write_recipe("hangs")
    code = bench.interrupt_dialogue("--yes", "--accept-licence", "--sha256", bench.file_sha256, sign=sign)

    assert code == 130
    assert bench.list_events() == ["begun", "interrupted"]
    assert "Waiting for device startup" in bench.read_journal()[1]["dialogue"]["output"]
    assert bench.has_nothing_left()


def test_interrupted_at_the_licence(bench: DriverCommand) -> None:
    """Ctrl-C at the licence question: exit 130, nothing installed, no process left."""
    shell = bench.open_terminal("--yes", "--sha256", bench.file_sha256)
    shell.expect("Do you accept the licence of Demo driver")
    shell.sendintr()
    if shell.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=20):
        shell.sendintr()  # Python's input() misses a signal between its last look and the read, on a busy machine
        shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 130
    assert bench.list_events() == ["begun", "interrupted"]
    assert not bench.is_installed
    assert bench.has_nothing_left()


@pytest.fixture
def vendor(bench: DriverCommand) -> Iterator[str]:
    """Yield the URL of a vendor's server that publishes the file."""
    with serve_file(bench.file) as address:
        yield address


def test_fetched(vendor: str, bench: DriverCommand) -> None:
    """`--install-driver fetch` shows the plan, downloads into the cache, installs, and then does nothing."""
    more = f'[[drivers.published]]\nversion = "2.0"\nurl = "{vendor}"\nsha256 = "{bench.file_sha256}"\n'
    bench.write_recipe("quick", after=more)
    dry = bench.run_command("--dry-run", file="fetch")
    nobody = bench.run_command(file="fetch")
    before = (bench.folder / "home").exists()
    done = bench.run_command("--yes", "--accept-licence", file="fetch")
    again = bench.run_command("--yes", file="fetch")
    kept = list((bench.folder / "home" / "downloads").rglob("demo-driver_2.0.run"))

    assert (dry.returncode, vendor in dry.stdout, before, nobody.returncode) == (0, True, False, 2)
    assert done.returncode == 0, done.stderr
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in kept] == [bench.file_sha256]
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert bench.list_events() == ["begun", "done"]


def test_not_fetched(vendor: str, bench: DriverCommand) -> None:
    """A refusal before the download exits with 1 and a document; nothing is downloaded."""
    bench.write_recipe("quick", after=f'[[drivers.published]]\nversion = "2.0"\nurl = "{vendor}"\n')
    shell = bench.open_terminal("--json", file="fetch")
    shell.expect("Download it")
    shell.sendline("n")
    shell.expect('"result": "declined"')
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 1
    assert not (bench.folder / "home").exists()


def test_nothing_is_published(bench: DriverCommand) -> None:
    """Without a published file the error says what to do instead."""
    done = bench.run_command("--yes", file="fetch")

    assert done.returncode == 2
    assert "--install-driver FILE.run" in done.stderr


@pytest.mark.parametrize(
    "options", (("--undo",), ("--into", "venv"), ("--as-script",)), ids=lambda options: str(options[0])
)
def test_options_at_odds(options: tuple[str, ...], bench: DriverCommand) -> None:
    """Options that conflict with --install-driver are refused."""
    assert bench.run_command(*options).returncode == 2


def run_envcheck(*argv: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "envcheck", *argv], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )


def test_by_device_alone(bench: DriverCommand, tmp_path: Path) -> None:
    """Of several recipes the one with the highest requirement is used, and the others' minima are listed."""
    name = "Ascend-hdk-910b-npu-driver_25.3.0_linux-x86_64.run"
    (tmp_path / name).write_bytes(bench.file.read_bytes())
    done = run_envcheck(
        "provision", "--device", "npu", "--install-driver", str(tmp_path / name), "--dry-run", tmp_path=tmp_path
    )

    said = " ".join(done.stdout.split())
    planned = run_envcheck(
        *("provision", "--device", "npu", "--install-driver", str(tmp_path / name), "--dry-run", "--json"),
        tmp_path=tmp_path,
    )

    assert json.loads(planned.stdout)["folder"].endswith("/drivers/npu")  # the driver is the machine's
    assert "Ascend HDK driver 25.3.0 for qwen-7b-npu-llamafactory" in said, done.stderr
    assert "has the highest requirement, 25.3.RC1 or newer (" in said
    for other in ("ernie-300b-npu 23.0.3", "qwen-7b-npu-swift 25.2.0"):
        assert other in said
    assert done.returncode in (1, 2)


def test_simulated(bench: DriverCommand, tmp_path: Path) -> None:
    """On a simulated machine nothing is installed: the installer would run on the real one."""
    command = (sys.executable, "-m", "envcheck", "provision", "--device", "nvidia", "--install-driver", str(bench.file))
    done = run_envcheck("simulate", "h200x8", "--", *command, tmp_path=tmp_path)

    assert done.returncode == 2
    assert "simulated" in done.stderr


def test_only_for_driver(tmp_path: Path) -> None:
    """Options of --install-driver are refused without it; CPU machines have no driver."""
    alone = run_envcheck("provision", "--device", "cpu", "--accept-licence", tmp_path=tmp_path)
    cpu = run_envcheck("provision", "--device", "cpu", "--install-driver", "x.run", tmp_path=tmp_path)

    assert (alone.returncode, cpu.returncode) == (2, 2)
    assert "CPU recipes need no driver" in cpu.stderr


def test_a_reboot_is_an_exit_code(bench: DriverCommand) -> None:
    """A script learns from exit code 6 that the host must be rebooted."""
    bench.write_recipe("reboot")
    done = bench.run_with_answers()

    assert done.returncode == 6, done.stderr
    assert "reboot, then run `envcheck doctor`" in done.stdout

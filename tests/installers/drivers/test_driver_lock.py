"""The driver's file in the lock, by the real command with real makeself archives: recorded, and demanded."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.locks import lockfile
from tests.installers.drivers.driver_command import COMMAND, Bench
from tests.installers.drivers.driver_helpers import archive, needs_makeself, published
from tests.installers.provision_helpers import until

pytestmark = pytest.mark.slow

# SIGKILL behind the installer's end, before anything of it is written down.
CUT = """
import os, signal
from installers.drivers import lock_entries
lock_entries.keep = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_makeself()
    return archive(tmp_path_factory.mktemp("run"), "demo-driver_2.0.run")


@pytest.fixture
def bench(made: Path, tmp_path: Path) -> Bench:
    return Bench(tmp_path, made)


def kept(bench: Bench) -> Path:
    return bench.folder / "home" / "environments" / "demo" / ".envcheck/recipes/demo" / lockfile.NAME


def agreed(bench: Bench, *more: str, file: str = "") -> subprocess.CompletedProcess[str]:
    """A person's answers but for the sum, which the lock vouches for."""
    return bench.run("--yes", "--accept-licence", *more, file=file)


def test_recorded_and_demanded(bench: Bench, tmp_path: Path) -> None:
    """The installed file's name, sum and version stand in the lock; with --locked that file needs nobody's word, and
    one with another sum is refused, also where the release is installed, naming both."""
    done = bench.given()

    assert done.returncode == 0, done.stderr
    assert lockfile.load(kept(bench)).driver == lockfile.DriverFile("demo-driver_2.0.run", bench.sha256, "2.0")
    assert bench.sha256 in done.stderr

    lock = tmp_path / "kept.lock"
    kept(bench).rename(lock)
    other = tmp_path / "other" / bench.file.name
    other.parent.mkdir()
    other.write_bytes(bench.file.read_bytes() + b"\n")
    installed = agreed(bench, "--locked", str(lock), file=str(other))
    (bench.root / "version.info").unlink()
    (bench.root / "unpacked").unlink()
    refused = agreed(bench, "--locked", str(lock), "--json", file=str(other))
    contradicted = agreed(bench, "--locked", str(lock), "--sha256", "0" * 64)

    assert (installed.returncode, refused.returncode, contradicted.returncode) == (1, 1, 2)
    for words in (bench.sha256, hashlib.sha256(other.read_bytes()).hexdigest()):
        assert words in refused.stderr
    assert json.loads(refused.stdout)["exit_code"] == 1
    assert not (bench.root / "unpacked").exists()

    planned = json.loads(bench.run("--dry-run", "--json", "--locked", str(lock)).stdout)
    again = agreed(bench, "--locked", str(lock))

    assert planned["driver"]["sha256_from"] == "locked"
    assert (again.returncode, bench.installed) == (0, True), again.stderr


@pytest.mark.parametrize(
    ("change", "told", "code"),
    (
        (('recipe = "demo"', 'recipe = "other"'), "of another recipe: it says other", 1),
        (('architecture = "', 'architecture = "s390'), "of another architecture", 1),
        (("[driver]", "[[installers]]"), "the lock has no file for the driver", 1),
        (('sha256 = "', 'sha256 = "x'), "64 hexadecimal digits", 2),
    ),
)
def test_of_something_else(change: tuple[str, str], told: str, code: int, bench: Bench, tmp_path: Path) -> None:
    """A lock of another recipe or machine, one without a driver, or none at all is refused before anything is run."""
    driver = lockfile.DriverFile(bench.file.name, bench.sha256, "2.0")
    lock = lockfile.Lock(1, "0", "demo", "0" * 64, os.uname().machine, driver=driver)
    (tmp_path / "l").write_text(lockfile.dump(lock).replace(*change))
    done = agreed(bench, "--locked", str(tmp_path / "l"))

    assert (done.returncode, told in done.stderr) == (code, True), done.stderr
    assert not (bench.folder / "home").exists()
    assert list(bench.root.iterdir()) == []


def test_a_failed_one_is_not_recorded(bench: Bench) -> None:
    """What was not installed does not come to stand in the lock, and leaves there what was."""
    assert bench.given().returncode == 0
    before = kept(bench).read_text()
    (bench.root / "version.info").unlink()
    bench.say("fails")

    assert bench.given().returncode == 4
    assert kept(bench).read_text() == before


def test_cut_behind_the_installer(bench: Bench) -> None:
    """SIGKILL between the installer's end and the lock: the next run finds the driver installed, and the file that the
    journal says was run comes into the lock; another file of that release does not."""
    argv = [word if word is not COMMAND else CUT + COMMAND for word in bench.argv()]
    more = ["--yes", "--accept-licence", "--sha256", bench.sha256]
    child = subprocess.run([*argv, *more], env=bench.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)

    assert child.returncode == -signal.SIGKILL
    assert (bench.installed, kept(bench).exists(), bench.events()) == (True, False, ["begun"])

    other = bench.folder / bench.file.name
    other.write_bytes(bench.file.read_bytes() + b"\n")
    stranger = agreed(bench, file=str(other))
    before = kept(bench).exists()
    again = agreed(bench)

    assert (stranger.returncode, before) == (0, False)
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert (lockfile.load(kept(bench)).driver or lockfile.DriverFile("", "")).sha256 == bench.sha256


@pytest.fixture
def vendor(bench: Bench) -> Iterator[str]:
    """A vendor's server that publishes the file, and no sum of it."""
    with published(bench.file) as address:
        yield address


def test_fetched_without_a_published_sum(vendor: str, bench: Bench, tmp_path: Path) -> None:
    """The sum of a fetched file is shown, asked for, and recorded; with that lock a fetch asks nobody, and takes no
    other file than the lock's."""
    bench.say("quick", after=f'[[drivers.published]]\nversion = "2.0"\nurl = "{vendor}"\n')
    nobody = agreed(bench, file="fetch")
    shell = bench.terminal("--yes", "--accept-licence", file="fetch")
    shell.expect(f"Its SHA-256 is\\s+{bench.sha256}\\s+Is that the vendor's file")
    shell.sendline("y")
    shell.expect("installed: Demo driver 2.0")
    until(lambda: kept(bench).exists(), 20)
    shell.close()

    assert (nobody.returncode, f"--sha256 {bench.sha256}" in nobody.stderr) == (2, True)
    assert (lockfile.load(kept(bench)).driver or lockfile.DriverFile("", "")).sha256 == bench.sha256

    lock, text = tmp_path / "l", kept(bench).read_text()
    (bench.root / "version.info").unlink()
    lock.write_text(text.replace(bench.sha256, "0" * 64))
    other = agreed(bench, "--locked", str(lock), file="fetch")
    lock.write_text(text.replace("demo-driver_2.0.run", "demo-driver_1.9.run"))
    named = agreed(bench, "--locked", str(lock), file="fetch")
    lock.write_text(text)
    done = agreed(bench, "--locked", str(lock), file="fetch")

    assert other.returncode in (1, 4)
    assert bench.sha256 in other.stderr
    assert "0" * 64 in other.stderr
    assert (named.returncode, "the lock has demo-driver_1.9.run" in named.stderr) == (1, True)
    assert (done.returncode, bench.installed) == (0, True), done.stderr

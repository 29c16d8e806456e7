"""Drivers in the lock file, with the real command and real makeself archives: recorded and enforced."""

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
from tests.installers.drivers.driver_command import COMMAND, DriverCommand
from tests.installers.drivers.driver_helpers import make_run_file, require_makeself, serve_file
from tests.installers.provision_helpers import wait_until

pytestmark = pytest.mark.slow

# SIGKILL after the installer has ended, before anything is recorded.
CUT = """
import os, signal
from installers.drivers import lock_entries
lock_entries.record_driver = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_makeself()
    return make_run_file(tmp_path_factory.mktemp("run"), "demo-driver_2.0.run")


@pytest.fixture
def bench(made: Path, tmp_path: Path) -> DriverCommand:
    return DriverCommand(tmp_path, made)


def find_lock(bench: DriverCommand) -> Path:
    return bench.folder / "home" / "environments" / "demo" / ".envcheck/recipes/demo" / lockfile.NAME


def run_with_answers(bench: DriverCommand, *more: str, file: str = "") -> subprocess.CompletedProcess[str]:
    """Run with all confirmations except the checksum, which the lock provides."""
    return bench.run_command("--yes", "--accept-licence", *more, file=file)


def test_recorded_and_demanded(bench: DriverCommand, tmp_path: Path) -> None:
    """The lock records file name, checksum and version; with --locked that file needs no confirmation, and another one
    is refused with both checksums, even if the release is installed.
    """
    done = bench.run_with_answers()

    assert done.returncode == 0, done.stderr
    assert lockfile.load_lock(find_lock(bench)).driver == lockfile.LockedDriverFile(
        "demo-driver_2.0.run", bench.file_sha256, "2.0"
    )
    assert bench.file_sha256 in done.stderr

    lock = tmp_path / "kept.lock"
    find_lock(bench).rename(lock)
    other = tmp_path / "other" / bench.file.name
    other.parent.mkdir()
    other.write_bytes(bench.file.read_bytes() + b"\n")
    installed = run_with_answers(bench, "--locked", str(lock), file=str(other))
    (bench.root / "version.info").unlink()
    (bench.root / "unpacked").unlink()
    refused = run_with_answers(bench, "--locked", str(lock), "--json", file=str(other))
    contradicted = run_with_answers(bench, "--locked", str(lock), "--sha256", "0" * 64)

    assert (installed.returncode, refused.returncode, contradicted.returncode) == (1, 1, 2)
    for words in (bench.file_sha256, hashlib.sha256(other.read_bytes()).hexdigest()):
        assert words in refused.stderr
    assert json.loads(refused.stdout)["exit_code"] == 1
    assert not (bench.root / "unpacked").exists()

    planned = json.loads(bench.run_command("--dry-run", "--json", "--locked", str(lock)).stdout)
    again = run_with_answers(bench, "--locked", str(lock))

    assert planned["driver"]["sha256_source"] == "locked"
    assert (again.returncode, bench.is_installed) == (0, True), again.stderr


@pytest.mark.parametrize(
    ("change", "told", "code"),
    (
        (('recipe = "demo"', 'recipe = "other"'), "the lock file is for another recipe: expected demo, got other", 1),
        (('architecture = "', 'architecture = "s390'), "the lock file is for another architecture", 1),
        (("[driver]", "[[installers]]"), "the lock file lists no file for the driver", 1),
        (('sha256 = "', 'sha256 = "x'), "64 hexadecimal digits", 2),
    ),
)
def test_of_something_else(change: tuple[str, str], told: str, code: int, bench: DriverCommand, tmp_path: Path) -> None:
    """A lock for another recipe or machine, without a driver, or invalid is refused before anything runs."""
    driver = lockfile.LockedDriverFile(bench.file.name, bench.file_sha256, "2.0")
    lock = lockfile.Lock(1, "0", "demo", "0" * 64, os.uname().machine, driver=driver)
    (tmp_path / "l").write_text(lockfile.render_lock(lock).replace(*change))
    done = run_with_answers(bench, "--locked", str(tmp_path / "l"))

    assert (done.returncode, told in done.stderr) == (code, True), done.stderr
    assert not (bench.folder / "home").exists()
    assert list(bench.root.iterdir()) == []


def test_a_failed_one_is_not_recorded(bench: DriverCommand) -> None:
    """A failed installation does not change the lock."""
    assert bench.run_with_answers().returncode == 0
    before = find_lock(bench).read_text()
    (bench.root / "version.info").unlink()
    bench.write_recipe("fails")

    assert bench.run_with_answers().returncode == 4
    assert find_lock(bench).read_text() == before


def test_cut_behind_the_installer(bench: DriverCommand) -> None:
    """SIGKILL between the installer's end and the lock: the next run finds the driver installed and records the file
    that the journal lists; another file of that release is not recorded.
    """
    argv = [word if word is not COMMAND else CUT + COMMAND for word in bench.make_argv()]
    more = ["--yes", "--accept-licence", "--sha256", bench.file_sha256]
    child = subprocess.run([*argv, *more], env=bench.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)

    assert child.returncode == -signal.SIGKILL
    assert (bench.is_installed, find_lock(bench).exists(), bench.list_events()) == (True, False, ["begun"])

    other = bench.folder / bench.file.name
    other.write_bytes(bench.file.read_bytes() + b"\n")
    stranger = run_with_answers(bench, file=str(other))
    before = find_lock(bench).exists()
    again = run_with_answers(bench)

    assert (stranger.returncode, before) == (0, False)
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert (
        lockfile.load_lock(find_lock(bench)).driver or lockfile.LockedDriverFile("", "")
    ).sha256 == bench.file_sha256


@pytest.fixture
def vendor(bench: DriverCommand) -> Iterator[str]:
    """Yield the URL of a vendor's server that publishes the file without a checksum."""
    with serve_file(bench.file) as address:
        yield address


def test_fetched_without_a_published_sum(vendor: str, bench: DriverCommand, tmp_path: Path) -> None:
    """A downloaded file's checksum is shown, confirmed and recorded; with that lock the download needs no confirmation
    and accepts no other file.
    """
    bench.write_recipe("quick", after=f'[[drivers.published]]\nversion = "2.0"\nurl = "{vendor}"\n')
    nobody = run_with_answers(bench, file="fetch")
    shell = bench.open_terminal("--yes", "--accept-licence", file="fetch")
    shell.expect(f"Its SHA-256 is\\s+{bench.file_sha256}\\s+Is this the vendor's file")
    shell.sendline("y")
    shell.expect("installed: Demo driver 2.0")
    wait_until(lambda: find_lock(bench).exists(), 20)
    shell.close()

    assert (nobody.returncode, f"--sha256 {bench.file_sha256}" in nobody.stderr) == (2, True)
    assert (
        lockfile.load_lock(find_lock(bench)).driver or lockfile.LockedDriverFile("", "")
    ).sha256 == bench.file_sha256

    lock, text = tmp_path / "l", find_lock(bench).read_text()
    (bench.root / "version.info").unlink()
    lock.write_text(text.replace(bench.file_sha256, "0" * 64))
    other = run_with_answers(bench, "--locked", str(lock), file="fetch")
    lock.write_text(text.replace("demo-driver_2.0.run", "demo-driver_1.9.run"))
    named = run_with_answers(bench, "--locked", str(lock), file="fetch")
    lock.write_text(text)
    done = run_with_answers(bench, "--locked", str(lock), file="fetch")

    assert other.returncode in (1, 4)
    assert bench.file_sha256 in other.stderr
    assert "0" * 64 in other.stderr
    assert (named.returncode, "the lock file lists demo-driver_1.9.run" in named.stderr) == (1, True)
    assert (done.returncode, bench.is_installed) == (0, True), done.stderr

"""doctor --fix: shown, done on the real system, proved, journaled, taken back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from envcheck.checks import run_all
from envcheck.core.errors import StepError
from envcheck.core.facts import Disk, Facts, Host, VendorFacts, Wanted
from envcheck.core.model import Answer, Device, Finding, Outcome, Process, Status
from envcheck.vendors import VENDORS
from installers.fixes import deeds
from installers.fixes.deeds import End, Remount, Sysctl, Unset
from installers.fixes.proposed import FIXES, proposed

GIB = 1 << 30
PROFILE = (
    'export RANK=3\nexport FOO=1\n export MASTER_ADDR="10.0.0.1"\n[ -n "$X" ] && export WORLD_SIZE=2\nPATH=/x:$PATH'
)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="a mount namespace wants root and unshare"
)


def doctor(home: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "doctor", *more]
    around = {**os.environ, "HOME": str(home), "ENVCHECK_HOME": str(home / "kept"), **env}
    return subprocess.run(argv, cwd=home, env=around, capture_output=True, text=True, timeout=120)


def wrong(name: str) -> Finding:
    return Finding(name, Status.WARN, "seen")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".bashrc").write_text(PROFILE)
    (tmp_path / ".bashrc").chmod(0o640)
    return tmp_path


@pytest.mark.slow
def test_stale_variable_in_a_profile(home: Path) -> None:
    """Shown, commented out, and back to the byte, with the file's mode; lines that do more than set one stay."""
    asked = ("--fix", "--only", "host.stale_variables")
    shown = doctor(home, *asked, "--dry-run", RANK="3")
    untouched = (home / ".bashrc").read_text()
    done = doctor(home, *asked, "--yes", RANK="3")
    now = (home / ".bashrc").read_text()
    again = doctor(home, *asked, "--yes", RANK="3")
    back = doctor(home, "--undo", "--yes")

    assert shown.returncode == 1 and "export RANK=3" in shown.stdout and untouched == PROFILE
    assert done.returncode == 1, done.stderr  # the line that does more is left
    assert now.splitlines()[0] == "# envcheck: export RANK=3" and "&& export WORLD_SIZE=2" in now
    assert "line 4 of " in done.stdout and "WORLD_SIZE" in done.stdout
    assert "To be done" not in again.stdout and "RANK: set in this shell, by no line of your profiles" in again.stdout
    assert back.returncode == 0 and (home / ".bashrc").read_text() == PROFILE
    assert (home / ".bashrc").stat().st_mode & 0o777 == 0o640
    assert "nothing to take back" in doctor(home, "--undo", "--yes").stdout


def test_profile_behind_a_link(home: Path) -> None:
    """A profile that is a link into somebody's collection stays a link."""
    (home / ".bashrc").rename(home / "real")
    (home / ".bashrc").symlink_to("real")
    doctor(home, "--fix", "--only", "host.stale_variables", "--yes", RANK="3")
    assert (home / ".bashrc").is_symlink() and "# envcheck: export RANK" in (home / "real").read_text()


def test_journal_is_written_before_the_deed(home: Path) -> None:
    """A run that is cut off between the two leaves what an undo knows of."""
    doctor(home, "--fix", "--only", "host.stale_variables", "--yes", RANK="3")
    line = json.loads((home / "kept/fixes/.envcheck/journal.jsonl").read_text().splitlines()[0])
    (home / ".bashrc").write_text(PROFILE)  # as if it had been cut off
    back = doctor(home, "--undo", "--yes")

    assert line["event"] == "made" and line["deed"].startswith("unset ")
    assert back.returncode == 0 and (home / ".bashrc").read_text() == PROFILE


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--replay", "x.json"), "--replay cannot be combined with --fix"),
        (("--json",), "--json cannot be combined with --fix"),
    ],
)
def test_refusals(home: Path, more: tuple[str, ...], words: str) -> None:
    """What cannot be mended is refused with exit 2 and a next step."""
    done = doctor(home, "--fix", *more)
    assert done.returncode == 2 and words in done.stderr and "next:" in done.stderr


def test_nobody_to_ask(home: Path) -> None:
    """Without a terminal and without --yes nothing is done."""
    done = doctor(home, "--fix", "--only", "host.stale_variables", RANK="3")
    assert done.returncode == 2 and "--yes" in done.stderr and (home / ".bashrc").read_text() == PROFILE


def test_failure_without_a_safe_remedy_is_left(home: Path) -> None:
    """A failure that nothing of ours mends is named, and is no exit code of 0."""
    site = home / "site.toml"
    site.write_text('[[check]]\nname = "own.a"\ncommand = ["true"]\npattern = "x"\nremedy = "y"\nsays = "A."\n')
    done = doctor(home, "--fix", "--yes", "--only", "own", "--config", str(site))

    assert done.returncode == 1
    assert "left for you, as envcheck doctor tells: own.a" in done.stdout


def test_simulated_machine_is_not_mended(home: Path) -> None:
    """The machine around a simulation is not the one that the findings are about."""
    argv = [sys.executable, "-m", "envcheck", "simulate", "h200x8", "--", sys.executable, "-m", "envcheck"]
    done = subprocess.run([*argv, "doctor", "--fix"], cwd=home, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "simulated" in done.stderr


def test_which_remedies() -> None:
    """Sizes come from the job and the thresholds; a container's /dev/shm is its engine's; waived findings stay."""
    facts = Facts(disks={"/dev/shm": Disk(64 << 20, 64 << 20)})
    job = Wanted("r", "lora", "npu", shm_gib=128)
    boxed = Facts(disks=facts.disks, host=Host(in_container=True))
    pages = Facts(host=Host(hugepages_total=1000, hugepages_free=900))

    assert [f.deed for f in proposed([wrong("host.shm")], facts)] == [Remount("/dev/shm", 16 * GIB, 64 << 20)]
    larger = proposed([wrong("host.shm"), wrong("job.shm")], Facts(disks=facts.disks, wanted=job))
    assert [f.deed for f in larger] == [Remount("/dev/shm", 128 * GIB, 64 << 20)]
    assert proposed([wrong("host.shm")], boxed) == []
    assert [f.deed for f in proposed([wrong("host.hugepages")], pages)] == [Sysctl("vm.nr_hugepages", "100", "1000")]
    assert proposed([Finding("host.shm", Status.WARN, "x", waived="until then")], facts) == []
    assert proposed([Finding("host.shm", Status.UNKNOWN, "x")], facts) == []
    assert all(fix.root for fix in proposed([wrong("host.shm"), wrong("host.hugepages")], facts))


def test_names_are_checks() -> None:
    """The table names checks that exist."""
    from envcheck.checks import CHECKS

    assert set(FIXES) <= {check.name for check in CHECKS}


@needs_root
def test_remount_in_a_namespace(tmp_path: Path) -> None:
    """A real tmpfs grows, and shrinks again with the undo."""
    script = (
        "import os; from installers.fixes.deeds import Remount\n"
        "size = lambda: os.statvfs('/dev/shm').f_blocks * os.statvfs('/dev/shm').f_frsize\n"
        "deed = Remount('/dev/shm', 256 << 20, size()); seen = [size()]\n"
        "deed.do(); seen.append(size()); deed.back(); seen.append(size()); print(seen)\n"
    )
    mount = f'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec {sys.executable} -c "$0"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", mount, script], capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == [64 << 20, 256 << 20, 64 << 20], done.stderr


@needs_root
def test_sysctl_in_a_namespace() -> None:
    """A real parameter of a network namespace changes and comes back, unless somebody changed it meanwhile."""
    script = (
        "from installers.fixes.deeds import Sysctl; import subprocess\n"
        "deed = Sysctl('net.ipv4.ip_local_reserved_ports', '60000-60031', ''); seen = [deed.now()]\n"
        "deed.do(); seen.append(deed.now()); seen.append(deed.back()); seen.append(deed.now()); deed.do()\n"
        "subprocess.run(['sysctl', '-q', '-w', deed.name + '=7'], check=True); seen.append(deed.back()); print(seen)\n"
    )
    argv = ["unshare", "-n", sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str([[], ["60000-60031"], "", [], "kept, since somebody has changed it since"]), done


def _asked(reserved: str) -> Facts:
    """Two NPUs' facts, with ports that the system gives out as it does by default."""
    from envcheck.core.derived import ports

    said = {ports.EPHEMERAL: "32768\t60999", ports.RESERVED: reserved}
    answers = {key: Answer(key, Outcome.ANSWERED if out else Outcome.EMPTY, out) for key, out in said.items()}
    cards = VendorFacts(VENDORS["npu"], devices=(Device(npu=0), Device(npu=1)))
    return Facts(vendors=(cards,), environment={}, answers=answers)


@needs_root
@pytest.mark.parametrize("reserved", ["", "8080"])
def test_ports_of_the_collectives_in_a_namespace(reserved: str) -> None:
    """The remedy of the check keeps what was reserved, makes the check content, and is taken back, in a real kernel."""
    (fix,) = proposed([wrong("network.port_range")], _asked(reserved))
    script = (
        "import subprocess, sys; from installers.fixes.deeds import Sysctl; from pathlib import Path\n"
        "deed = Sysctl(*sys.argv[1:4]); read = lambda: Path('/proc/sys', *deed.name.split('.')).read_text().strip()\n"
        "subprocess.run(['sysctl', '-q', '-w', f'{deed.name}={deed.before}'], check=True); deed.do()\n"
        "print(read()); print(deed.back() or read())\n"
    )
    assert isinstance(fix.deed, Sysctl) and fix.root
    argv = ["unshare", "-n", sys.executable, "-c", script, fix.deed.name, fix.deed.value, fix.deed.before]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    now, before = [*done.stdout.splitlines(), "", ""][:2]

    assert before == reserved and now == ",".join(filter(None, (reserved, "60000-60031"))), done.stderr
    assert proposed([wrong("network.port_range")], replace(_asked(reserved), host=Host(in_container=True))) == []
    healed = run_all(_asked(now), only=["network.port_range"])
    assert [f.status for f in healed] == [Status.OK]


def _told(**said: dict[str, object]) -> dict[str, Answer]:
    """Collectors' answers."""
    return {f"ask {n}": Answer(f"ask {n}", Outcome.ANSWERED, json.dumps(one)) for n, one in said.items()}


@pytest.mark.slow
def test_left_over_process(tmp_path: Path) -> None:
    """An orphan of the caller's own, listed or with a node open, is found and ended; one waited for is not offered.

    Where the tool's numbers are another namespace's, none of them is offered.
    """
    start = f"{sys.executable} -c 'import time; time.sleep(300)' >/dev/null 2>&1 & echo $!"
    said = subprocess.run(["setsid", "sh", "-c", start], capture_output=True, text=True, timeout=60)
    orphan, waited = psutil.Process(int(said.stdout)), subprocess.Popen(["sleep", "300"])
    try:
        held = VendorFacts(VENDORS["npu"], processes=(Process(0, pid=orphan.pid), Process(0, pid=waited.pid)))
        fixes = proposed([wrong("devices.processes")], Facts(vendors=(held,)))
        assert [(fix.deed.pid, fix.asks) for fix in fixes if isinstance(fix.deed, End)] == [(orphan.pid, True)]
        for host_pids, offered in ((False, set()), (None, {orphan.pid}), (True, {orphan.pid})):
            inside = Facts(vendors=(held,), answers=_told(caller={"uid": 0, "host_pids": host_pids}))
            assert {
                f.deed.pid for f in proposed([wrong("devices.memory")], inside) if isinstance(f.deed, End)
            } == offered
        open_ = [{"pid": one.pid, "nodes": ["/dev/davinci0"]} for one in (orphan, waited)]
        unlisted = Facts(vendors=(replace(held, processes=()),), answers=_told(processes={"holding": open_}))
        assert proposed([wrong("devices.leftovers")], unlisted)[0].deed == fixes[0].deed
        stranger = End(orphan.pid, orphan.create_time() - 5, "other")
        stranger.do()
        assert orphan.is_running()
        fixes[0].deed.do()
        deadline = time.monotonic() + 120
        while orphan.is_running() and orphan.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
    finally:
        waited.kill()
        waited.wait()


@pytest.mark.parametrize("deed", [Remount("/x", 2, 1), Sysctl("a.b", "1", "0"), Unset("/f", ("a",)), End(1, 2.0, "n")])
def test_deed_through_the_journal(deed: deeds.Deed) -> None:
    """What was noted is read back as it was; a line that nobody understands is none."""
    assert deeds.read(json.loads(json.dumps(deeds.noted(deed)))) == deed
    assert deeds.read({"deed": "format /dev/sda", "values": {}}) is None
    assert deeds.read({"deed": "sysctl a", "values": {"evil": 1}}) is None


def test_deed_that_fails() -> None:
    """A refusal of the system is a sentence with a next step."""
    with pytest.raises(StepError) as failed:
        Remount("/nowhere/at/all", 1 << 20, 1 << 20).do()
    assert failed.value.next_step

"""doctor --fix: shown, applied on the real system, verified, journaled, undone."""

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

from envcheck.checks import run_checks
from envcheck.core.errors import StepError
from envcheck.core.facts import Disk, Facts, MachineRequirements, SystemFacts, VendorFacts
from envcheck.core.model import Answer, Device, Finding, Outcome, Process, Status
from envcheck.vendors import VENDORS
from installers.fixes import actions
from installers.fixes.actions import CommentOutLines, EndProcess, ResizeTmpfs, SetSysctl
from installers.fixes.proposals import FIXES, propose_fixes

GIB = 1 << 30
PROFILE = (
    'export RANK=3\nexport FOO=1\n export MASTER_ADDR="10.0.0.1"\n[ -n "$X" ] && export WORLD_SIZE=2\nPATH=/x:$PATH'
)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="a mount namespace wants root and unshare"
)


def run_doctor(home: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "doctor", *more]
    around = {**os.environ, "HOME": str(home), "ENVCHECK_HOME": str(home / "kept"), **env}
    return subprocess.run(argv, cwd=home, env=around, capture_output=True, text=True, timeout=120)


def make_warning(name: str) -> Finding:
    return Finding(name, Status.WARN, "seen")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".bashrc").write_text(PROFILE)
    (tmp_path / ".bashrc").chmod(0o640)
    return tmp_path


@pytest.mark.slow
def test_stale_variable_in_a_profile(home: Path) -> None:
    """Lines are shown, commented out, and restored exactly, with the file's mode; lines with more commands stay."""
    asked = ("--fix", "--only", "host.stale_variables")
    shown = run_doctor(home, *asked, "--dry-run", RANK="3")
    untouched = (home / ".bashrc").read_text()
    done = run_doctor(home, *asked, "--yes", RANK="3")
    now = (home / ".bashrc").read_text()
    again = run_doctor(home, *asked, "--yes", RANK="3")
    back = run_doctor(home, "--undo", "--yes")

    assert shown.returncode == 1 and "export RANK=3" in shown.stdout and untouched == PROFILE
    assert done.returncode == 1, done.stderr  # the line with more commands is left
    assert now.splitlines()[0] == "# envcheck: export RANK=3" and "&& export WORLD_SIZE=2" in now
    assert "line 4 of " in done.stdout and "WORLD_SIZE" in done.stdout
    assert (
        "Changes to make:" not in again.stdout
        and "RANK: set in this shell, but not in any of your profile files" in again.stdout
    )
    assert back.returncode == 0 and (home / ".bashrc").read_text() == PROFILE
    assert (home / ".bashrc").stat().st_mode & 0o777 == 0o640
    assert "Nothing to undo." in run_doctor(home, "--undo", "--yes").stdout


def test_profile_behind_a_link(home: Path) -> None:
    """A profile that is a symbolic link stays a link."""
    (home / ".bashrc").rename(home / "real")
    (home / ".bashrc").symlink_to("real")
    run_doctor(home, "--fix", "--only", "host.stale_variables", "--yes", RANK="3")
    assert (home / ".bashrc").is_symlink() and "# envcheck: export RANK" in (home / "real").read_text()


def test_journal_is_written_before_the_deed(home: Path) -> None:
    """A run interrupted between journal and action leaves what an undo needs."""
    run_doctor(home, "--fix", "--only", "host.stale_variables", "--yes", RANK="3")
    line = json.loads((home / "kept/fixes/.envcheck/journal.jsonl").read_text().splitlines()[0])
    (home / ".bashrc").write_text(PROFILE)  # as if the run had been interrupted
    back = run_doctor(home, "--undo", "--yes")

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
    """Impossible combinations are refused with exit 2 and a next step."""
    done = run_doctor(home, "--fix", *more)
    assert done.returncode == 2 and words in done.stderr and "next:" in done.stderr


def test_nobody_to_ask(home: Path) -> None:
    """Without a terminal and without --yes nothing is changed."""
    done = run_doctor(home, "--fix", "--only", "host.stale_variables", RANK="3")
    assert done.returncode == 2 and "--yes" in done.stderr and (home / ".bashrc").read_text() == PROFILE


def test_failure_without_a_safe_remedy_is_left(home: Path) -> None:
    """A failure without a safe fix is listed, and the exit code is not 0."""
    site = home / "site.toml"
    site.write_text('[[check]]\nname = "own.a"\ncommand = ["true"]\npattern = "x"\nremedy = "y"\ndescription = "A."\n')
    done = run_doctor(home, "--fix", "--yes", "--only", "own", "--config", str(site))

    assert done.returncode == 1
    assert "you must do these yourself" in done.stdout and ": own.a" in done.stdout


def test_simulated_machine_is_not_mended(home: Path) -> None:
    """The machine around a simulation is not changed."""
    argv = [sys.executable, "-m", "envcheck", "simulate", "h200x8", "--", sys.executable, "-m", "envcheck"]
    done = subprocess.run([*argv, "doctor", "--fix"], cwd=home, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "simulated" in done.stderr


def test_which_remedies() -> None:
    """Sizes come from the job and the thresholds; a container's /dev/shm is its engine's; waived findings stay."""
    facts = Facts(disks={"/dev/shm": Disk(64 << 20, 64 << 20)})
    job = MachineRequirements("r", "lora", "npu", shm_gib=128)
    boxed = Facts(disks=facts.disks, host=SystemFacts(in_container=True))
    pages = Facts(host=SystemFacts(hugepages_total=1000, hugepages_free=900))

    assert [f.action for f in propose_fixes([make_warning("host.shm")], facts)] == [
        ResizeTmpfs("/dev/shm", 16 * GIB, 64 << 20)
    ]
    larger = propose_fixes([make_warning("host.shm"), make_warning("job.shm")], Facts(disks=facts.disks, wanted=job))
    assert [f.action for f in larger] == [ResizeTmpfs("/dev/shm", 128 * GIB, 64 << 20)]
    assert propose_fixes([make_warning("host.shm")], boxed) == []
    assert [f.action for f in propose_fixes([make_warning("host.hugepages")], pages)] == [
        SetSysctl("vm.nr_hugepages", "100", "1000")
    ]
    assert propose_fixes([Finding("host.shm", Status.WARN, "x", waived="until then")], facts) == []
    assert propose_fixes([Finding("host.shm", Status.UNKNOWN, "x")], facts) == []
    assert all(fix.root for fix in propose_fixes([make_warning("host.shm"), make_warning("host.hugepages")], facts))


def test_names_are_checks() -> None:
    """The table has existing checks only."""
    from envcheck.checks import CHECKS

    assert set(FIXES) <= {check.name for check in CHECKS}


@needs_root
def test_remount_in_a_namespace(tmp_path: Path) -> None:
    """A real tmpfs grows, and shrinks again by the undo."""
    script = (
        "import os; from installers.fixes.actions import ResizeTmpfs\n"
        "size = lambda: os.statvfs('/dev/shm').f_blocks * os.statvfs('/dev/shm').f_frsize\n"
        "deed = ResizeTmpfs('/dev/shm', 256 << 20, size()); seen = [size()]\n"
        "deed.apply_action(); seen.append(size()); deed.undo_action(); seen.append(size()); print(seen)\n"
    )
    mount = f'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec {sys.executable} -c "$0"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", mount, script], capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == [64 << 20, 256 << 20, 64 << 20], done.stderr


@needs_root
def test_sysctl_in_a_namespace() -> None:
    """A real parameter of a network namespace changes and is restored, unless it was changed since."""
    script = (
        "from installers.fixes.actions import SetSysctl; import subprocess\n"
        "deed = SetSysctl('net.ipv4.ip_local_reserved_ports', '60000-60031', ''); seen = [deed.read_current()]\n"
        "deed.apply_action(); seen.append(deed.read_current()); seen.append(deed.undo_action())\n"
        "seen.append(deed.read_current()); deed.apply_action()\n"
        "subprocess.run(['sysctl', '-q', '-w', deed.name + '=7'], check=True)\n"
        "seen.append(deed.undo_action()); print(seen)\n"
    )
    argv = ["unshare", "-n", sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str([[], ["60000-60031"], "", [], "kept: changed by someone else since"]), done


def _make_port_facts(reserved: str) -> Facts:
    """Return facts of two NPUs with the system's default ephemeral ports."""
    from envcheck.core.derived import collective_ports

    said = {collective_ports.EPHEMERAL: "32768\t60999", collective_ports.RESERVED: reserved}
    answers = {key: Answer(key, Outcome.ANSWERED if out else Outcome.EMPTY, out) for key, out in said.items()}
    cards = VendorFacts(VENDORS["npu"], devices=(Device(npu=0), Device(npu=1)))
    return Facts(vendors=(cards,), environment={}, answers=answers)


@needs_root
@pytest.mark.parametrize("reserved", ["", "8080"])
def test_ports_of_the_collectives_in_a_namespace(reserved: str) -> None:
    """The fix keeps reserved ports, satisfies the check, and is undone, in a real kernel."""
    (fix,) = propose_fixes([make_warning("network.port_range")], _make_port_facts(reserved))
    script = (
        "import subprocess, sys; from installers.fixes.actions import SetSysctl; from pathlib import Path\n"
        "deed = SetSysctl(*sys.argv[1:4])\n"
        "read = lambda: Path('/proc/sys', *deed.name.split('.')).read_text().strip()\n"
        "subprocess.run(['sysctl', '-q', '-w', f'{deed.name}={deed.before}'], check=True); deed.apply_action()\n"
        "print(read()); print(deed.undo_action() or read())\n"
    )
    assert isinstance(fix.action, SetSysctl) and fix.root
    argv = ["unshare", "-n", sys.executable, "-c", script, fix.action.name, fix.action.value, fix.action.before]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    now, before = [*done.stdout.splitlines(), "", ""][:2]

    assert before == reserved and now == ",".join(filter(None, (reserved, "60000-60031"))), done.stderr
    assert (
        propose_fixes(
            [make_warning("network.port_range")],
            replace(_make_port_facts(reserved), host=SystemFacts(in_container=True)),
        )
        == []
    )
    healed = run_checks(_make_port_facts(now), only=["network.port_range"])
    assert [f.status for f in healed] == [Status.OK]


def _make_answers(**said: dict[str, object]) -> dict[str, Answer]:
    """Return collectors' answers."""
    return {f"ask {n}": Answer(f"ask {n}", Outcome.ANSWERED, json.dumps(one)) for n, one in said.items()}


@pytest.mark.slow
def test_left_over_process(tmp_path: Path) -> None:
    """An orphan of the user, listed or with a node open, is found and ended; one with a waiting parent is not offered.

    If the tool's ids are from another namespace, none is offered.
    """
    start = f"{sys.executable} -c 'import time; time.sleep(300)' >/dev/null 2>&1 & echo $!"
    said = subprocess.run(["setsid", "sh", "-c", start], capture_output=True, text=True, timeout=60)
    orphan, waited = psutil.Process(int(said.stdout)), subprocess.Popen(["sleep", "300"])
    try:
        held = VendorFacts(VENDORS["npu"], processes=(Process(0, pid=orphan.pid), Process(0, pid=waited.pid)))
        fixes = propose_fixes([make_warning("devices.processes")], Facts(vendors=(held,)))
        assert [(fix.action.pid, fix.asks) for fix in fixes if isinstance(fix.action, EndProcess)] == [
            (orphan.pid, True)
        ]
        for host_pids, offered in ((False, set()), (None, {orphan.pid}), (True, {orphan.pid})):
            inside = Facts(vendors=(held,), answers=_make_answers(caller={"uid": 0, "host_pids": host_pids}))
            assert {
                f.action.pid
                for f in propose_fixes([make_warning("devices.memory")], inside)
                if isinstance(f.action, EndProcess)
            } == offered
        open_ = [{"pid": one.pid, "nodes": ["/dev/davinci0"]} for one in (orphan, waited)]
        unlisted = Facts(vendors=(replace(held, processes=()),), answers=_make_answers(processes={"holding": open_}))
        assert propose_fixes([make_warning("devices.leftovers")], unlisted)[0].action == fixes[0].action
        stranger = EndProcess(orphan.pid, orphan.create_time() - 5, "other")
        stranger.apply_action()
        assert orphan.is_running()
        fixes[0].action.apply_action()
        deadline = time.monotonic() + 120
        while orphan.is_running() and orphan.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
    finally:
        waited.kill()
        waited.wait()


@pytest.mark.parametrize(
    "deed",
    [ResizeTmpfs("/x", 2, 1), SetSysctl("a.b", "1", "0"), CommentOutLines("/f", ("a",)), EndProcess(1, 2.0, "n")],
)
def test_deed_through_the_journal(deed: actions.FixAction) -> None:
    """A journaled action is read back unchanged; unknown entries give none."""
    assert actions.parse_journal_entry(json.loads(json.dumps(actions.build_journal_entry(deed)))) == deed
    assert actions.parse_journal_entry({"deed": "format /dev/sda", "values": {}}) is None
    assert actions.parse_journal_entry({"deed": "sysctl a", "values": {"evil": 1}}) is None


def test_deed_that_fails() -> None:
    """A refusal of the system is a message with a next step."""
    with pytest.raises(StepError) as failed:
        ResizeTmpfs("/nowhere/at/all", 1 << 20, 1 << 20).apply_action()
    assert failed.value.next_step

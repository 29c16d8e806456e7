"""`provision --hosts` over real ssh: one plan, a journal on each host, hosts that fail midway."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envcheck.cli import schemas
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost
from tests.installers.provision_helpers import PackageIndex, serve_index, stock_index, wait_until, write_recipe

pytestmark = pytest.mark.real


class ProvisionedFleet:
    """Two hosts, a package index that they can reach, and a recipe that only this machine has."""

    def __init__(self, fleet: SshFleet, index: PackageIndex, recipes: Path) -> None:
        self.fleet, self.index, self.recipes = fleet, index, recipes

    def make_options(self, *more: str, hosts: str = "node[01-02]") -> tuple[str, ...]:
        return ("provision", "--recipe", "little", "--recipes", str(self.recipes), "--hosts", hosts, *more)

    def run_command(self, *more: str, hosts: str = "node[01-02]") -> subprocess.CompletedProcess[str]:
        return self.fleet.run_envcheck(*self.make_options(*more, hosts=hosts))

    def start_command(self, *more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "envcheck", *self.make_options(*more)]
        return subprocess.Popen(
            argv, cwd=fleet_parts.ROOT, env=self.fleet.make_environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def start_host(self, host: SshHost, index: str = "") -> None:
        host.stop_sshd()
        host.variables = {
            "ENVCHECK_SYSROOT": "", "ENVCHECK_HOME": str(host.home / "data"), "PIP_CONFIG_FILE": os.devnull,
            "LANG": "zh_CN.UTF-8",  # of these machines; who asks them speaks English
            "PIP_INDEX_URL": index or self.index.base_url, "PIP_TRUSTED_HOST": self.index.address, "PIP_RETRIES": "1",
        }  # fmt: skip
        host.start_sshd(self.fleet.key)
        self.fleet.wait_for_sshd(host)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvisionedFleet]:
    folder = tmp_path_factory.mktemp("site")
    stock_index(folder / "index")
    recipes = write_recipe(folder / "recipes", "alpha ==1.0", "beta <2")
    with (
        fleet_parts.start_fleet(folder / "fleet", 2, "cpu") as made,
        serve_index(folder / "index", f"{made.net}.254") as index,
    ):
        yield ProvisionedFleet(made, index, recipes)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment, created once because it is most of the work."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


def make_environments(site: ProvisionedFleet, empty: Path) -> None:
    """Give both hosts the environment without packages."""
    for host in site.fleet.hosts:
        shutil.copytree(empty, host.home / "data" / "environments" / "little", symlinks=True)


@pytest.fixture(autouse=True)
def well(site: ProvisionedFleet) -> None:
    """Running hosts on which nothing is provisioned."""
    site.index.mode = ""
    for host in site.fleet.hosts:
        site.start_host(host)
        shutil.rmtree(host.home / "data", ignore_errors=True)


def read_versions(host: SshHost) -> str:
    python = host.home / "data" / "environments" / "little" / "bin" / "python"
    code = "import alpha, beta; print(alpha.__version__, beta.__version__)"
    done = (
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=False) if python.exists() else None
    )
    return done.stdout.strip() if done else ""


def read_journal(host: SshHost) -> list[dict[str, Any]]:
    path = host.home / "data" / "environments" / "little" / ".envcheck" / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_pip_running(host: SshHost) -> bool:
    """Return whether pip is installing on the host."""
    lines = [path.read_bytes() for pid in host.list_processes() if (path := Path(f"/proc/{pid}/cmdline")).exists()]
    begun = any(line["step"] == "packages" for line in read_journal(host))
    return begun and any(b"pip" in line and b"install" in line and b"pyz-" not in line for line in lines)


def test_from_the_plan_to_the_undo(site: ProvisionedFleet) -> None:
    """An unreachable host is excluded and named, the other one is done; then the plan shows the difference,
    --unfinished completes it, and --undo removes everything on both."""
    site.fleet.hosts[1].stop_sshd()
    done = site.run_command("--yes")
    site.start_host(site.fleet.hosts[1])
    planned = site.run_command("--dry-run")
    later = site.run_command("--yes", "--unfinished", "--json")
    said = json.loads(later.stdout)
    there = [read_versions(host) for host in site.fleet.hosts]
    last = site.run_command("--yes", "--unfinished", "--lang", "zh")
    undone = site.run_command("--undo", "--yes")

    assert done.returncode == 1
    assert "node01:\n  little in " in done.stdout
    assert "node02 excluded: ssh port refuses connections" in done.stdout
    assert "done        node01" in done.stdout
    assert "node01: -> install alpha==1.0, beta<2" in done.stderr
    assert "--hosts node[01-02] --unfinished" in done.stdout
    assert planned.returncode == 0
    assert "differences:" in planned.stdout
    assert "step 1       create a virtual environment" in planned.stdout
    assert later.returncode == 0, later.stderr
    assert {name: one["state"] for name, one in said["hosts"].items()} == {"node02": "done"}
    jsonschema.validate(said, schemas.build_schema("provision-hosts"))
    assert there == ["1.0 1.5", "1.0 1.5"]
    assert last.stdout == "所有主机均已完成\n"
    assert undone.returncode == 0, undone.stderr
    assert "removed     node[01-02]" in undone.stdout
    assert [read_versions(host) for host in site.fleet.hosts] == ["", ""]


def test_a_reboot_in_the_middle(site: ProvisionedFleet, empty: Path) -> None:
    """A host whose processes are killed is reported with its step; the other one is done; --unfinished repairs it."""
    make_environments(site, empty)
    site.index.mode = "slow"
    child = site.start_command("--yes")
    wait_until(lambda: all(is_pip_running(host) for host in site.fleet.hosts))
    site.fleet.hosts[1].stop_sshd()
    site.index.mode = ""
    out, err = child.communicate(timeout=120)
    site.start_host(site.fleet.hosts[1])
    later = site.run_command("--yes", "--unfinished")

    assert child.returncode == 4, err
    assert "done        node01" in out
    assert "lost        node02: after the check started: connection lost" in out
    assert "(step: install alpha==1.0, beta<2)" in out
    assert later.returncode == 0, later.stderr
    assert "done        node02" in later.stdout
    assert "node01" not in later.stdout.split("done ")[1]
    assert [read_versions(host) for host in site.fleet.hosts] == ["1.0 1.5", "1.0 1.5"]


def test_ctrl_c(site: ProvisionedFleet, empty: Path) -> None:
    """Ctrl-C in the terminal interrupts every host once; each records it and ends, the states are reported, and
    --unfinished continues."""
    make_environments(site, empty)
    site.index.mode = "slow"
    child = site.start_command("--yes")
    wait_until(lambda: all(is_pip_running(host) for host in site.fleet.hosts))
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=120)
    site.index.mode = ""
    left = [is_pip_running(host) for host in site.fleet.hosts]
    noted = [read_journal(host)[-1] for host in site.fleet.hosts]
    later = site.run_command("--yes", "--unfinished")

    assert child.returncode == 130, err
    assert "interrupted node[01-02]: (step: install alpha==1.0, beta<2)" in out
    assert left == [False, False]
    assert [(line["step"], line["event"]) for line in noted] == [("packages", "interrupted")] * 2
    assert later.returncode == 0, later.stderr
    assert [read_versions(host) for host in site.fleet.hosts] == ["1.0 1.5", "1.0 1.5"]


@pytest.mark.extended
def test_a_full_disk_on_one(site: ProvisionedFleet) -> None:
    """A host without disk space fails with the reason and the path of its journal; the other one is not affected."""
    full = site.fleet.hosts[1]
    (full.home / "data").mkdir()
    assert full.child
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(full.home / "data")]
    subprocess.run(["nsenter", "-t", str(full.child.pid), "-m", *mount], check=True)
    done = site.run_command("--yes", "--json")
    said = json.loads(done.stdout)["hosts"]

    assert done.returncode in (1, 4), done.stderr
    assert said["node01"]["state"] == "done"
    assert said["node02"]["state"] in ("failed", "blocked")
    assert "MiB" in said["node02"]["seen"] or "full" in said["node02"]["seen"], said["node02"]


def test_nobody_to_ask(site: ProvisionedFleet) -> None:
    """Without --yes and a terminal nothing is done; an unknown recipe is reported by each host, exit code 2."""
    done = site.run_command()
    none = site.fleet.run_envcheck("provision", "--recipe", "none-such", "--hosts", "node[01-02]", "--yes")

    assert done.returncode == 2
    assert "cannot ask for confirmation: no terminal" in done.stderr
    assert [read_versions(host) for host in site.fleet.hosts] == ["", ""]
    assert none.returncode == 2
    assert "none-such" in none.stdout + none.stderr


NO_PYTHON = "#!/bin/sh\nexit 1\n"
FLOOD = "#!/bin/sh\ncase $* in *version_info*) exit 0;; esac\nexec tr '\\0' x < /dev/zero\n"
HANG = "#!/bin/sh\ncase $* in *version_info*) exit 0;; esac\nexec sleep 60\n"


def test_hosts_that_answer_oddly(site: ProvisionedFleet) -> None:
    """A line without an end and a silent host are stopped and named; so is a host with old Pythons only."""
    first, second = site.fleet.hosts
    first.write_tool("python3", FLOOD)
    second.write_tool("python3", HANG)
    odd = site.run_command("--dry-run", "--host-timeout", "4")
    for name in ("python3", *(f"python3.{minor}" for minor in range(10, 15))):
        second.write_tool(name, NO_PYTHON)
    old = site.run_command("--dry-run", "--host-timeout", "20", hosts="node02")
    for host in (first, second):
        shutil.rmtree(host.bin)
        host.bin.mkdir()

    assert odd.returncode == 1
    assert "node01 excluded: output exceeds 8 MiB or 20000 lines" in odd.stdout
    assert "node02 excluded: no response within 4 s" in odd.stdout
    assert "node02 excluded: Python 3.10 or newer not found on the host" in old.stdout


def test_nothing_is_left_where_that_is_asked(site: ProvisionedFleet) -> None:
    """The payload is complete in the host's cache; with --forget it is removed afterwards."""
    cache = site.fleet.hosts[0].home / ".cache" / "envcheck"
    shutil.rmtree(cache, ignore_errors=True)
    site.run_command("--dry-run", hosts="node01")
    kept = sorted(path.name.rpartition("-")[0] for path in cache.iterdir())
    done = site.run_command("--dry-run", "--forget", hosts="node01")

    assert done.returncode == 0, done.stderr
    assert kept == ["attachments", "pyz"]
    assert not cache.exists()


@pytest.mark.extended
def test_the_site_of_the_user(site: ProvisionedFleet, empty: Path, tmp_path: Path) -> None:
    """The hosts install from the index in the user's own settings, although their own leads nowhere."""
    make_environments(site, empty)
    for host in site.fleet.hosts:
        site.start_host(host, "http://nobody.invalid/simple")
    config = tmp_path / "site.toml"
    config.write_text(f'[site]\nindex = "{site.index.base_url}"\n')
    without = site.run_command("--yes")
    done = site.run_command("--yes", "--config", str(config))

    assert without.returncode == 4, without.stdout + without.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert [read_versions(host) for host in site.fleet.hosts] == ["1.0 1.5", "1.0 1.5"]

"""provision --hosts over real ssh: one plan, each host's own journal, hosts that fail in the middle."""

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
from tests.envcheck.fleet.fleet_parts import Fleet, Host
from tests.installers.provision_helpers import Index, recipe_file, serving, stock, until

pytestmark = pytest.mark.real


class Site:
    """Two hosts, an index of packages that they reach, and a recipe that only this side has."""

    def __init__(self, fleet: Fleet, index: Index, recipes: Path) -> None:
        self.fleet, self.index, self.recipes = fleet, index, recipes

    def words(self, *more: str, hosts: str = "node[01-02]") -> tuple[str, ...]:
        return ("provision", "--recipe", "little", "--recipes", str(self.recipes), "--hosts", hosts, *more)

    def run(self, *more: str, hosts: str = "node[01-02]") -> subprocess.CompletedProcess[str]:
        return self.fleet.run(*self.words(*more, hosts=hosts))

    def start(self, *more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "envcheck", *self.words(*more)]
        return subprocess.Popen(
            argv, cwd=fleet_parts.ROOT, env=self.fleet.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def begin(self, host: Host) -> None:
        host.stop()
        host.variables = {
            "ENVCHECK_SYSROOT": "", "ENVCHECK_HOME": str(host.home / "data"), "PIP_CONFIG_FILE": os.devnull,
            "LANG": "zh_CN.UTF-8",  # of these machines; who asks them speaks English
            "PIP_INDEX_URL": self.index.url, "PIP_TRUSTED_HOST": self.index.address, "PIP_RETRIES": "1",
        }  # fmt: skip
        host.start(self.fleet.key)
        self.fleet.wait(host)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    stock(folder / "index")
    recipes = recipe_file(folder / "recipes", "alpha ==1.0", "beta <2")
    with (
        fleet_parts.fleet(folder / "fleet", 2, "cpu") as made,
        serving(folder / "index", f"{made.net}.254") as index,
    ):
        yield Site(made, index, recipes)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment, made once: most of a provisioning's work."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


def given(site: Site, empty: Path) -> None:
    """Both hosts have the environment already, without packages."""
    for host in site.fleet.hosts:
        shutil.copytree(empty, host.home / "data" / "environments" / "little", symlinks=True)


@pytest.fixture(autouse=True)
def well(site: Site) -> None:
    """Hosts that run, with nothing provisioned."""
    site.index.mode = ""
    for host in site.fleet.hosts:
        site.begin(host)
        shutil.rmtree(host.home / "data", ignore_errors=True)


def versions(host: Host) -> str:
    python = host.home / "data" / "environments" / "little" / "bin" / "python"
    code = "import alpha, beta; print(alpha.__version__, beta.__version__)"
    done = (
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=False) if python.exists() else None
    )
    return done.stdout.strip() if done else ""


def journal(host: Host) -> list[dict[str, Any]]:
    path = host.home / "data" / "environments" / "little" / ".envcheck" / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def pips(host: Host) -> bool:
    """Its pip is in the middle of installing."""
    lines = [path.read_bytes() for pid in host.running() if (path := Path(f"/proc/{pid}/cmdline")).exists()]
    begun = any(line["step"] == "packages" for line in journal(host))
    return begun and any(b"pip" in line and b"install" in line and b"pyz-" not in line for line in lines)


def test_from_the_plan_to_the_undo(site: Site) -> None:
    """A host that does not answer is left out and named, and the other one is done; then the plan shows it apart,
    --resume does it alone, and --undo takes everything back on both."""
    site.fleet.hosts[1].stop()
    done = site.run("--yes")
    site.begin(site.fleet.hosts[1])
    planned = site.run("--dry-run")
    later = site.run("--yes", "--resume", "--json")
    said = json.loads(later.stdout)
    there = [versions(host) for host in site.fleet.hosts]
    last = site.run("--yes", "--resume", "--lang", "zh")
    undone = site.run("--undo", "--yes")

    assert done.returncode == 1
    assert "node01:\n  little in " in done.stdout
    assert "node02, left out: nobody listens at its ssh port" in done.stdout
    assert "done        node01" in done.stdout
    assert "node01: -> install alpha==1.0, beta<2" in done.stderr
    assert "--hosts node[01-02] --resume" in done.stdout
    assert planned.returncode == 0
    assert "otherwise:" in planned.stdout
    assert "step 1       make a virtual environment" in planned.stdout
    assert later.returncode == 0, later.stderr
    assert {name: one["state"] for name, one in said["hosts"].items()} == {"node02": "done"}
    jsonschema.validate(said, schemas.schema("provision-hosts"))
    assert there == ["1.0 1.5", "1.0 1.5"]
    assert last.stdout == "所有主机均已完成\n"
    assert undone.returncode == 0, undone.stderr
    assert "removed     node[01-02]" in undone.stdout
    assert [versions(host) for host in site.fleet.hosts] == ["", ""]


def test_a_reboot_in_the_middle(site: Site, empty: Path) -> None:
    """A host whose processes are all killed is named with the step that it was at; the other one is done; --resume
    repairs it."""
    given(site, empty)
    site.index.mode = "slow"
    child = site.start("--yes")
    until(lambda: all(pips(host) for host in site.fleet.hosts))
    site.fleet.hosts[1].stop()
    site.index.mode = ""
    out, err = child.communicate(timeout=120)
    site.begin(site.fleet.hosts[1])
    later = site.run("--yes", "--resume")

    assert child.returncode == 4, err
    assert "done        node01" in out
    assert "lost        node02: after it had begun, the connection broke off" in out
    assert "(at: install alpha==1.0, beta<2)" in out
    assert later.returncode == 0, later.stderr
    assert "done        node02" in later.stdout
    assert "node01" not in later.stdout.split("done ")[1]
    assert [versions(host) for host in site.fleet.hosts] == ["1.0 1.5", "1.0 1.5"]


def test_ctrl_c(site: Site, empty: Path) -> None:
    """A terminal's Ctrl-C, which goes to all that runs in it, is one on every host: each notes it and ends; where each
    stands is said; --resume goes on."""
    given(site, empty)
    site.index.mode = "slow"
    child = site.start("--yes")
    until(lambda: all(pips(host) for host in site.fleet.hosts))
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=120)
    site.index.mode = ""
    left = [pips(host) for host in site.fleet.hosts]
    noted = [journal(host)[-1] for host in site.fleet.hosts]
    later = site.run("--yes", "--resume")

    assert child.returncode == 130, err
    assert "interrupted node[01-02]: (at: install alpha==1.0, beta<2)" in out
    assert left == [False, False]
    assert [(line["step"], line["event"]) for line in noted] == [("packages", "interrupted")] * 2
    assert later.returncode == 0, later.stderr
    assert [versions(host) for host in site.fleet.hosts] == ["1.0 1.5", "1.0 1.5"]


def test_a_full_disk_on_one(site: Site) -> None:
    """The host without room fails with its reason and the place of its journal; the other is not held up."""
    full = site.fleet.hosts[1]
    (full.home / "data").mkdir()
    assert full.child
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(full.home / "data")]
    subprocess.run(["nsenter", "-t", str(full.child.pid), "-m", *mount], check=True)
    done = site.run("--yes", "--json")
    said = json.loads(done.stdout)["hosts"]

    assert done.returncode in (1, 4), done.stderr
    assert said["node01"]["state"] == "done"
    assert said["node02"]["state"] in ("failed", "blocked")
    assert "MiB" in said["node02"]["seen"] or "full" in said["node02"]["seen"], said["node02"]


def test_nobody_to_ask(site: Site) -> None:
    """Without --yes and without a person nothing is done; a recipe that is none is each host's own word, exit 2."""
    done = site.run()
    none = site.fleet.run("provision", "--recipe", "none-such", "--hosts", "node[01-02]", "--yes")

    assert done.returncode == 2
    assert "there is nobody to ask" in done.stderr
    assert [versions(host) for host in site.fleet.hosts] == ["", ""]
    assert none.returncode == 2
    assert "none-such" in none.stdout + none.stderr


NO_PYTHON = "#!/bin/sh\nexit 1\n"
FLOOD = "#!/bin/sh\ncase $* in *version_info*) exit 0;; esac\nexec tr '\\0' x < /dev/zero\n"
HANG = "#!/bin/sh\ncase $* in *version_info*) exit 0;; esac\nexec sleep 60\n"


def test_hosts_that_answer_oddly(site: Site) -> None:
    """A line without an end and a silence are ended and named; so is a host whose Pythons are all too old."""
    first, second = site.fleet.hosts
    first.tool("python3", FLOOD)
    second.tool("python3", HANG)
    odd = site.run("--dry-run", "--deadline", "4")
    for name in ("python3", *(f"python3.{minor}" for minor in range(10, 15))):
        second.tool(name, NO_PYTHON)
    old = site.run("--dry-run", "--deadline", "20", hosts="node02")
    for host in (first, second):
        shutil.rmtree(host.bin)
        host.bin.mkdir()

    assert odd.returncode == 1
    assert "node01, left out: it sent more than" in odd.stdout
    assert "node02, left out: no answer within 4 s" in odd.stdout
    assert "node02, left out: it has no Python 3.10 or newer" in old.stdout


def test_nothing_is_left_where_that_is_asked(site: Site) -> None:
    """What travels lies in the host's cache, whole; with --forget all is gone afterwards."""
    cache = site.fleet.hosts[0].home / ".cache" / "envcheck"
    shutil.rmtree(cache, ignore_errors=True)
    site.run("--dry-run", hosts="node01")
    kept = sorted(path.name.rpartition("-")[0] for path in cache.iterdir())
    done = site.run("--dry-run", "--forget", hosts="node01")

    assert done.returncode == 0, done.stderr
    assert kept == ["attachments", "pyz"]
    assert not cache.exists()

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

from envcheck import schemas
from tests import fleet_parts
from tests.fleet_parts import Fleet, Host
from tests.provision_helpers import Index, recipe_file, serving, stock, until


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
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def begin(self, host: Host) -> None:
        host.stop()
        host.variables = {
            "ENVCHECK_SYSROOT": "", "ENVCHECK_HOME": str(host.home / "data"), "PIP_CONFIG_FILE": os.devnull,
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
    return begun and any(b"pip" in line and b"install" in line and b"entry()" not in line for line in lines)


def test_a_host_that_does_not_answer_is_left_out_and_gone_on_with(site: Site) -> None:
    """The plan is shown once for all that answer; they are provisioned; --resume does the missing host alone."""
    site.fleet.hosts[1].stop()
    planned = site.run("--dry-run")
    done = site.run("--yes")
    site.begin(site.fleet.hosts[1])
    later = site.run("--yes", "--resume", "--json")
    said = json.loads(later.stdout)
    last = site.run("--yes", "--resume")

    assert planned.returncode == 1
    assert "node01:\n  little in " in planned.stdout
    assert "node02, left out: nobody listens at its ssh port" in planned.stdout
    assert done.returncode == 1
    assert "done        node01" in done.stdout
    assert "node01: -> install alpha==1.0, beta<2" in done.stderr
    assert "--hosts node[01-02] --resume" in done.stdout
    assert later.returncode == 0, later.stderr
    assert {name: one["state"] for name, one in said["hosts"].items()} == {"node02": "done"}
    jsonschema.validate(said, schemas.schema("provision-hosts"))
    assert [versions(host) for host in site.fleet.hosts] == ["1.0 1.5", "1.0 1.5"]
    assert last.stdout == "every host is done\n"


def test_a_host_that_differs_is_shown_apart_and_undo_goes_everywhere(site: Site) -> None:
    """What one host has already is told of it alone; --undo takes back on every host what was made there."""
    site.run("--yes", hosts="node01")
    planned = site.run("--dry-run", "--exclude", "node03")
    site.run("--yes")
    undone = site.run("--undo", "--yes")

    assert "node02, otherwise:" in planned.stdout
    assert "  +   step 1       make a virtual environment" in planned.stdout
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
    """Ctrl-C is one on every host: each notes it and ends; where each stands is said; --resume goes on."""
    given(site, empty)
    site.index.mode = "slow"
    child = site.start("--yes")
    until(lambda: all(pips(host) for host in site.fleet.hosts))
    child.send_signal(signal.SIGINT)
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

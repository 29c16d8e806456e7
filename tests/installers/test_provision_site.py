"""[site] of envcheck.toml with a real index behind a proxy with a login, and a clone at another address."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installers.provision_helpers import ProvisionCommand, serve_index, write_recipe, write_wheel
from tests.installers.proxy_parts import LoginProxy, serve_proxy
from tests.installers.software.source_parts import make_project
from tests.installers.test_container_provision import ContainerCommand, box  # noqa: F401 (a fixture)

pytestmark = pytest.mark.real


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[LoginProxy]:
    write_wheel(tmp_path / "index", "alpha", "1.0", needs="beta>=1")
    write_wheel(tmp_path / "index", "beta", "1.0")
    with serve_index(tmp_path / "index") as index, serve_proxy(index.base_url) as made:
        yield made


def test_behind_a_proxy(tmp_path: Path, proxy: LoginProxy) -> None:
    """Index, second index and clone are reached as the file says; plan, lock and journal show no password."""
    commit = make_project(tmp_path / "mirror" / "tool", {"tool.py": "made = True\n"})
    machine = ProvisionCommand(tmp_path, "http://nobody.invalid/simple")
    clone = tmp_path / "work" / "tool"
    write_recipe(
        machine.recipes, "alpha ==1.0", more=f'[[checkouts]]\nurl = "https://git.invalid/tool"\nref = "{commit}"\n'
        f'directory = "{clone}"\nsource = "test"\n'
    )  # fmt: skip
    recipe = machine.recipes / "little.toml"
    recipe.write_text(
        recipe.read_text().replace('name = "alpha"', 'name = "alpha"\nindex = "https://vendor.invalid/x"')
    )
    config = tmp_path / "site.toml"
    config.write_text(
        f'[site]\nindex = "http://pypi.corp.test/"\nproxy = "{proxy.base_url}"\n'
        f'[site.rewrites]\n"https://git.invalid/" = "file://{tmp_path}/mirror/"\n'
        '"https://vendor.invalid/x" = "http://wheels.corp.test"\n'
        '[site.environment]\nPIP_TRUSTED_HOST = "pypi.corp.test wheels.corp.test"\n'
    )
    done = machine.run_command("--yes", "--config", str(config))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "proxy = http://***@127.0.0.1" in done.stdout
    assert any(url.startswith("http://wheels.corp.test/alpha") for url in proxy.asked)
    assert not proxy.refused
    lock, journal = machine.lock_path.read_text(), (machine.notes_folder / "journal.jsonl").read_text()
    assert "[site]" in lock
    used = [entry for entry in map(json.loads, journal.splitlines()) if entry["event"] == "used"]
    assert used[0]["values"]["index"] == "http://pypi.corp.test/"
    logs = "".join(path.read_text(errors="replace") for path in machine.notes_folder.rglob("*.log"))
    assert "geheim" not in done.stdout + done.stderr + lock + journal + logs
    again = machine.run_command("--yes", "--config", str(config))
    assert "nothing to do" in again.stdout
    locked = machine.run_command("--yes", "--locked", str(machine.lock_path), "--config", str(config))
    assert locked.returncode == 0, locked.stderr


def test_an_index_that_fails(tmp_path: Path) -> None:
    """An index that answers 500 is not one that lacks the package."""
    write_wheel(tmp_path / "index", "alpha", "1.0")
    with serve_index(tmp_path / "index") as index:
        index.mode = "broken"
        done = ProvisionCommand(tmp_path, index).run_command("--yes")

    assert done.returncode == 4
    assert "the package index failed: HTTP status 500" in done.stderr, done.stderr


@pytest.mark.extended
def test_a_container(box: ContainerCommand) -> None:  # noqa: F811 (the fixture)
    """A container gets the mounts and variables of the site, and its commands the proxy, which is not shown."""
    shared = box.folder / "shared"
    shared.mkdir()
    (shared / "told.txt").write_text("here")
    config = box.folder / "site.toml"
    config.write_text(
        '[site]\nproxy = "http://me:geheim@127.0.0.1:9"\nno_proxy = ["127.0.0.1"]\n'
        f'[[site.mounts]]\nsource = "{shared}"\ntarget = "/shared"\nread_only = true\n'
        '[site.environment]\nOF_SITE = "yes"\n'
    )
    done = box.run_command("--yes", "--config", str(config))
    again = box.run_command("--yes", "--config", str(config))
    without = box.run_command("--yes")

    assert done.returncode == 0, done.stdout + done.stderr
    assert box.run_inside("cat", "/shared/told.txt") == "here"
    assert box.run_inside("printenv", "OF_SITE").strip() == "yes"
    assert "geheim" not in done.stdout + box.engine.run_docker("inspect", box.name).stdout
    assert "nothing to do" in again.stdout
    assert (without.returncode, "differs from the plan in mounts, environment" in without.stderr) == (1, True)
    # Training does not know the file: it takes the container as it was provisioned.
    train = ("train", "--recipe", "boxed", "--recipes", str(box.folder / "recipes"), "--method", "lora", "--gates")
    checked = subprocess.run(
        [sys.executable, "-m", "envcheck", *train],
        cwd=box.folder, env=box.child_variables, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    # Where the tests run in a container themselves, that is taken for the recipe's, and nothing proves what it has.
    is_inside = "gate.container: the job runs in the current container" in checked.stdout
    seen = "cannot determine whether boxed is installed" if is_inside else "boxed is installed and verified"
    assert f"gate.environment: {seen}" in checked.stdout, checked.stdout + checked.stderr
    assert "differs from the plan" not in checked.stdout


def test_train_provisions_with_the_site(tmp_path: Path, proxy: LoginProxy) -> None:
    """What train --provision installs comes from the index and through the proxy of the site's file."""
    machine = ProvisionCommand(tmp_path, "http://nobody.invalid/simple")
    write_recipe(machine.recipes, "alpha ==1.0")
    config = tmp_path / "site.toml"
    config.write_text(
        f'[site]\nindex = "http://pypi.corp.test/"\nproxy = "{proxy.base_url}"\n'
        '[site.environment]\nPIP_TRUSTED_HOST = "pypi.corp.test"\n'
    )
    done = machine.run_train("--provision", "--yes", "--config", str(config))

    assert "proxy = http://***@127.0.0.1" in done.stderr, done.stdout + done.stderr
    assert any(url.startswith("http://pypi.corp.test/alpha") for url in proxy.asked)
    assert "geheim" not in done.stdout + done.stderr

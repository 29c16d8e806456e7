"""`provision --hosts --registry` over real ssh, with an engine on each host: the image comes from the mirror."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from envcheck.cli import schemas
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost
from tests.installers.containers.container_helpers import render_recipe
from tests.installers.images import engine_parts, image_parts
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry
from tests.installers.images.registry_faults import FaultyProxy, start_proxy

pytestmark = pytest.mark.real

HOSTS = "node[01-02]"


@dataclass(frozen=True)
class RegistryFleet:
    """Two hosts with an engine each, the registry `outside`, and a `mirror` of it that the hosts can reach."""

    fleet: SshFleet
    engines: list[DockerEngine]
    outside: FaultyProxy
    mirror: FaultyProxy
    recipes: Path

    def run_command(self, *more: str) -> subprocess.CompletedProcess[str]:
        words = ("--recipe", "mirrored", "--recipes", str(self.recipes), "--hosts", HOSTS, *more)
        return self.fleet.run_envcheck("provision", *words)

    def list_done_steps(self, host: SshHost) -> list[str]:
        """Return the steps that were completed on the host."""
        path = host.home / "data" / "environments" / "mirrored" / ".envcheck" / "journal.jsonl"
        events = map(json.loads, path.read_text().splitlines())
        return [event["step"] for event in events if event["event"] == "done"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, registry: LocalRegistry) -> Iterator[RegistryFleet]:
    folder = tmp_path_factory.mktemp("mirrored")
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(fleet_parts.start_fleet(folder / "fleet", 2, "cpu"))
        engines = [stack.enter_context(_start_engine(fleet, host)) for host in fleet.hosts]
        fronts = [stack.enter_context(start_proxy(registry.base_url, host=f"{fleet.net}.254")) for _ in range(2)]
        (folder / "recipes").mkdir()
        yield RegistryFleet(fleet, engines, *fronts, folder / "recipes")


@contextlib.contextmanager
def _start_engine(fleet: SshFleet, host: SshHost) -> Iterator[DockerEngine]:
    """Start an engine in the host's network, and restart its sshd with the engine's address."""
    host.stop_sshd()
    options = ("--insecure-registry", f"{fleet.net}.0/24")
    with engine_parts.start_engine(*options, space=host.space) as engine:
        host.variables = {"ENVCHECK_SYSROOT": "", "ENVCHECK_HOME": str(host.home / "data"),
                          "DOCKER_HOST": engine.docker_host, "DOCKER_CONFIG": str(engine.folder)}  # fmt: skip
        host.start_sshd(fleet.key)
        fleet.wait_for_sshd(host)
        yield engine


@dataclass(frozen=True)
class SmallImage:
    """An image by its name in the outside registry."""

    name: str
    digest: str


@pytest.fixture
def small(site: RegistryFleet, registry: LocalRegistry) -> SmallImage:
    """A new image with nothing to start in it: the step after the pull fails on every host."""
    path = f"envcheck/mirrored:{secrets.token_hex(4)}"
    digest = image_parts.push_image(f"{registry.address}/{path}", image_parts.make_random_layers(1, 1 << 20))
    name = f"{site.outside.host_port}/{path}"
    text = render_recipe("mirrored", name, "envcheck-test-mirrored", "/root", "import json", 'shm_size = "64m"')
    (site.recipes / "mirrored.toml").write_text(text)
    return SmallImage(name, digest)


def test_all_pull_from_the_mirror(site: RegistryFleet, small: SmallImage) -> None:
    """With --registry both hosts pull the image from the mirror, with the recipe's digest, and nothing from outside; a
    second run finds it."""
    done = site.run_command("--yes", "--registry", site.mirror.host_port)
    there = [e.run_docker("image", "ls", "--digests", "--format", "{{.Digest}}").stdout.split() for e in site.engines]
    again = json.loads(site.run_command("--dry-run", "--json", "--registry", site.mirror.host_port).stdout)

    assert [site.list_done_steps(host) for host in site.fleet.hosts] == [["image"]] * 2, done.stdout + done.stderr
    assert [set(digests) for digests in there] == [{small.digest}] * 2
    assert not any("/blobs/" in path for path in site.outside.sent)
    assert [one["document"]["steps"][0]["name"] for one in again["hosts"].values()] == ["container"] * 2
    jsonschema.validate(again, schemas.build_schema("provision-hosts"))

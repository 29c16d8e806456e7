"""What `envcheck provision` does when the tag of a recipe's image moves, with real parts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from installers.locks import lockfile
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry
from tests.installers.provision_helpers import serve_index, write_wheel
from tests.installers.test_container_provision import ContainerCommand

pytestmark = pytest.mark.real


class TaggedContainerCommand(ContainerCommand):
    """A recipe whose image has a tag of the test's own."""

    image = ""

    def push_image(self, what: bytes) -> str:
        """Push an image with this content under the tag; return its digest."""
        layers = [image_parts.load_debian(), image_parts.make_layer({"etc/what": what})]
        return image_parts.push_image(self.image, layers, config=image_parts.PYTHON_CONFIG)

    def run_for_document(self, *more: str) -> dict[str, Any]:
        done = self.run_command("--json", *more)
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def read_image_id(self) -> str:
        """Return the image that has the tag in the engine."""
        return self.engine.run_docker("image", "inspect", "-f", "{{.Id}}", self.image, check=False).stdout.strip()


@pytest.fixture
def box(
    engine: DockerEngine, registry: LocalRegistry, python_image_here: str, tmp_path: Path
) -> Iterator[TaggedContainerCommand]:
    write_wheel(tmp_path / "index", "first", "1.0")
    write_wheel(tmp_path / "index", "second", "2.1")
    image = f"{registry.address}/envcheck/python:{tmp_path.name.replace('_', '-')}"
    with serve_index(tmp_path / "index") as served:
        made = TaggedContainerCommand(engine, image, served.base_url, tmp_path)
        made.image = image
        yield made
        engine.run_docker("rm", "-f", made.name, check=False)
        for each in engine.run_docker("image", "ls", "-q", "--no-trunc", image, check=False).stdout.split():
            engine.run_docker("image", "rm", "--force", each, check=False)


@pytest.mark.extended
def test_an_image_of_another_registry_is_locked_by_digest(box: TaggedContainerCommand) -> None:
    """The engine has the image of a mirror: the container names it by id, the lock by the digest of that pull."""
    digest = box.push_image(b"mirrored")
    mirror = box.image.replace("127.0.0.1", "localhost")
    box.engine.run_docker("pull", "--quiet", mirror)
    lock = box.folder / "made.lock"
    done = box.run_command("--yes", "--lock", str(lock))
    box.engine.run_docker("image", "rm", "--force", mirror, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    image = lockfile.load_lock(lock).image
    assert image and (image.reference, image.digest, image.id) == (box.image, digest, "")


def test_a_tag_that_moved(box: TaggedContainerCommand) -> None:
    """If the tag of a local image has moved, that is reported, the new image is pulled, gets the tag and runs; an undo
    gives the tag back."""
    old = box.push_image(b"old")
    box.engine.run_docker("pull", "--quiet", box.image)
    before = box.read_image_id()
    new = box.push_image(b"new")
    planned = box.run_for_document("--dry-run")["steps"][:2]

    assert [step["name"] for step in planned] == ["image", "container"]
    assert "the tag has moved" in planned[0]["why"]
    assert planned[1]["container"]["image"].endswith(new)

    done = box.run_for_document("--yes")

    assert [deed["step"] for deed in done["performed"]] == ["image", "container", "packages", "proof"]
    assert box.run_inside("cat", "/etc/what") == "new"
    assert box.read_image_id() != before
    assert box.run_for_document("--yes")["performed"] == []

    assert box.run_command("--undo", "--yes").returncode == 0
    assert box.read_image_id() == before
    assert (
        box.image.rpartition(":")[0] + "@" + old
        in box.engine.run_docker("image", "inspect", "-f", "{{.RepoDigests}}", before).stdout.strip("[]\n").split()
    )


def test_a_container_keeps_its_image(box: TaggedContainerCommand) -> None:
    """A container keeps its image when the tag moves; recreated, it uses the new one."""
    box.push_image(b"old")
    box.run_for_document("--yes")
    box.push_image(b"new")

    assert box.run_for_document("--yes")["performed"] == []
    assert box.run_inside("cat", "/etc/what") == "old"

    titles = [step["title"] for step in box.run_for_document("--dry-run", "--recreate")["steps"]]
    again = box.run_for_document("--yes", "--recreate")

    assert titles[1] == f"recreate container {box.name}"
    assert [deed["step"] for deed in again["performed"]] == ["image", "container", "packages", "proof"]
    assert box.run_inside("cat", "/etc/what") == "new"


def test_no_registry_to_ask(box: TaggedContainerCommand) -> None:
    """If the registry no longer has the tag, the local image is used and that is reported."""
    digest = box.push_image(b"old")
    box.engine.run_docker("pull", "--quiet", box.image)
    name = box.image.rpartition(":")[0].partition("/")
    deleted = subprocess.run(
        ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "DELETE",
         f"http://{name[0]}/v2/{name[2]}/manifests/{digest}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    said = box.run_for_document("--dry-run")

    assert deleted.stdout == "202"
    assert said["steps"][0]["name"] == "container"
    assert any("cannot check whether its tag has moved" in words for words in said["satisfied"])


def test_an_image_of_ones_own(box: TaggedContainerCommand) -> None:
    """An image from no registry is used by its id, and no registry is queried."""
    box.push_image(b"published")
    box.engine.run_docker("pull", "--quiet", box.image)
    box.engine.run_docker("run", "--name", f"{box.name}-own", box.image, "sh", "-c", "printf own > /etc/what")
    box.engine.run_docker("commit", f"{box.name}-own", box.image)
    box.engine.run_docker("rm", "-f", f"{box.name}-own")
    steps = box.run_for_document("--dry-run")["steps"]

    assert steps[0]["name"] == "container"
    assert steps[0]["container"]["image"] == box.read_image_id()

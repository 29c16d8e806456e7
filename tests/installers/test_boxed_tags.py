"""A recipe names its image by a tag, and tags move: what `envcheck provision` does then, with real parts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.installers.images import image_parts
from tests.installers.images.engine_parts import Engine, Registry
from tests.installers.provision_helpers import serving, wheel
from tests.installers.test_boxed import Box

pytestmark = pytest.mark.real


class Tagged(Box):
    """A recipe whose image stands under a tag of the test's own."""

    image = ""

    def push(self, what: bytes) -> str:
        """The tag leads to an image that holds this; its digest."""
        layers = [image_parts.debian(), image_parts.layer({"etc/what": what})]
        return image_parts.push(self.image, layers, config=image_parts.PYTHON_CONFIG)

    def said(self, *more: str) -> dict[str, Any]:
        done = self.run("--json", *more)
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def here(self) -> str:
        """The image to which the tag leads in the engine."""
        return self.engine.docker("image", "inspect", "-f", "{{.Id}}", self.image, check=False).stdout.strip()


@pytest.fixture
def box(engine: Engine, registry: Registry, python_image_here: str, tmp_path: Path) -> Iterator[Tagged]:
    wheel(tmp_path / "index", "first", "1.0")
    wheel(tmp_path / "index", "second", "2.1")
    image = f"{registry.address}/envcheck/python:{tmp_path.name.replace('_', '-')}"
    with serving(tmp_path / "index") as served:
        made = Tagged(engine, image, served.url, tmp_path)
        made.image = image
        yield made
        engine.docker("rm", "-f", made.name, check=False)
        for each in engine.docker("image", "ls", "-q", "--no-trunc", image, check=False).stdout.split():
            engine.docker("image", "rm", "--force", each, check=False)


def test_a_tag_that_moved(box: Tagged) -> None:
    """The image is here, and its tag leads elsewhere by now: that is said, the new one is pulled, runs, and has the
    tag; an undo gives the tag back."""
    old = box.push(b"old")
    box.engine.docker("pull", "--quiet", box.image)
    before = box.here()
    new = box.push(b"new")
    planned = box.said("--dry-run")["steps"][:2]

    assert [step["name"] for step in planned] == ["image", "container"]
    assert "the tag has moved" in planned[0]["why"]
    assert planned[1]["container"]["image"].endswith(new)

    done = box.said("--yes")

    assert [deed["step"] for deed in done["performed"]] == ["image", "container", "packages", "proof"]
    assert box.inside("cat", "/etc/what") == "new"
    assert box.here() != before
    assert box.said("--yes")["performed"] == []

    assert box.run("--undo", "--yes").returncode == 0
    assert box.here() == before
    assert (
        box.image.rpartition(":")[0] + "@" + old
        in box.engine.docker("image", "inspect", "-f", "{{.RepoDigests}}", before).stdout.strip("[]\n").split()
    )


def test_a_container_keeps_its_image(box: Tagged) -> None:
    """What a container was made from stays, wherever the tag leads meanwhile; made anew, it takes the new one."""
    box.push(b"old")
    box.said("--yes")
    box.push(b"new")

    assert box.said("--yes")["performed"] == []
    assert box.inside("cat", "/etc/what") == "old"

    titles = [step["title"] for step in box.said("--dry-run", "--recreate")["steps"]]
    again = box.said("--yes", "--recreate")

    assert titles[1] == f"make the container {box.name} anew"
    assert [deed["step"] for deed in again["performed"]] == ["image", "container", "packages", "proof"]
    assert box.inside("cat", "/etc/what") == "new"


def test_no_registry_to_ask(box: Tagged) -> None:
    """Where the registry does not have the tag any more, the image that is here is used, and that is said."""
    digest = box.push(b"old")
    box.engine.docker("pull", "--quiet", box.image)
    name = box.image.rpartition(":")[0].partition("/")
    deleted = subprocess.run(
        ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "DELETE",
         f"http://{name[0]}/v2/{name[2]}/manifests/{digest}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    said = box.said("--dry-run")

    assert deleted.stdout == "202"
    assert said["steps"][0]["name"] == "container"
    assert any("could not be asked" in words for words in said["satisfied"])


def test_an_image_of_ones_own(box: Tagged) -> None:
    """What came from no registry is used by its id, and nobody is asked where its name leads."""
    box.push(b"published")
    box.engine.docker("pull", "--quiet", box.image)
    box.engine.docker("run", "--name", f"{box.name}-own", box.image, "sh", "-c", "printf own > /etc/what")
    box.engine.docker("commit", f"{box.name}-own", box.image)
    box.engine.docker("rm", "-f", f"{box.name}-own")
    steps = box.said("--dry-run")["steps"]

    assert steps[0]["name"] == "container"
    assert steps[0]["container"]["image"] == box.here()

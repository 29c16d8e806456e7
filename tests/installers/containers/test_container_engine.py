"""Containers on a real engine: made, found again, made anew, refused, and never left half made."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from envcheck.core import errors
from envcheck.core.errors import EnvcheckError, StepError
from installers.containers import container
from installers.containers.compare import Action
from installers.recipes.container_spec import Port, Spec, Ulimit
from installers.recipes.recipe import Mount
from tests.installers.containers.container_helpers import LOCAL_MAJOR, scene
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import WRAPPER, Engine, Registry, free_port, running_engine

Made = Callable[..., Spec]


@pytest.fixture
def api(engine: Engine) -> Iterator[APIClient]:
    client = APIClient(base_url=engine.url)
    yield client
    client.close()


@pytest.fixture
def spec(engine: Engine, python_image_here: str, tmp_path: Path) -> Iterator[Spec]:
    """A container with something of everything; whatever has its name afterwards is removed."""
    (tmp_path / "a,b").mkdir()
    os.mknod(tmp_path / "card", stat.S_IFCHR | 0o660, os.makedev(LOCAL_MAJOR, 9))
    made = Spec(
        name=f"envcheck-test-{os.getpid()}",
        image=python_image_here,
        recipe="little",
        workdir="/work",
        mounts=(Mount(str(tmp_path / "a,b"), "/work/"), Mount("/etc/hostname", "/etc/info", True)),
        devices=(f"{tmp_path / 'card'}:/dev/card0:rwm",),
        capabilities=("SYS_PTRACE",),
        shm_bytes=128 << 20,
        ports=(Port("127.0.0.1", free_port(), 7860),),
        ulimits=(Ulimit("nofile", 512, 1024),),
        environment={"A": "1"},
    )
    yield made
    engine.docker("rm", "--force", made.name, check=False)


def inspected(api: APIClient, spec: Spec) -> Any:
    found = container.look(api, spec.name)
    assert found is not None
    return found


def test_made_as_planned(spec: Spec, engine: Engine, api: APIClient) -> None:
    """What the container itself sees is what the plan says: memory, limits, folder, node, variable.

    Only the hard limit is asked inside: runc, a Go program, may raise its own soft limit before it starts the process
    (opencontainers/runc issue 4195).
    """
    container.ensure(api, spec)
    script = "ulimit -Hn; pwd; df -k /dev/shm | tail -1; ls /dev/card0; echo $A; "
    script += "touch /work/made; touch /etc/info || echo read-only"
    said = engine.docker("exec", spec.name, "bash", "-c", script).stdout.split()

    assert said[:2] == ["1024", "/work"]
    assert inspected(api, spec)["HostConfig"]["Ulimits"] == [{"Name": "nofile", "Soft": 512, "Hard": 1024}]
    assert "131072" in said
    assert said[-3:] == ["/dev/card0", "1", "read-only"]
    assert (Path(spec.mounts[0].source) / "made").exists()


def test_found_again(spec: Spec, engine: Engine, api: APIClient) -> None:
    """The same container is used as it is, and started where it was stopped; it stays the same one."""
    first = container.ensure(api, spec)
    running = container.stands(api, spec).action
    second = container.ensure(api, spec)
    engine.docker("kill", spec.name)
    stopped = container.stands(api, spec).action
    third = container.ensure(api, spec)

    assert (running, stopped) == (Action.REUSE, Action.START)
    assert first == second == third
    assert inspected(api, spec)["State"]["Running"]


def test_a_different_one_wants_to_be_asked_for(spec: Spec, api: APIClient) -> None:
    """A container of ours that differs is refused with the field and both values, and made anew with --recreate."""
    first = container.ensure(api, spec)
    other = replace(spec, shm_bytes=256 << 20, environment={"A": "1", "API_TOKEN": "hidden"})
    with pytest.raises(EnvcheckError) as refused:
        container.ensure(api, other)
    kept = inspected(api, spec)["Id"]
    second = container.ensure(api, other, recreate=True)

    assert refused.value.code == errors.UNFIT
    assert "shm_size: wanted 256m, there 128m" in refused.value.message
    assert "hidden" not in refused.value.message
    assert "--recreate" in refused.value.next_step
    assert first == kept != second


def test_an_id_is_no_name(spec: Spec, api: APIClient) -> None:
    """The engine takes the beginning of an id for a name; a plan does not."""
    identity = container.ensure(api, spec)

    assert container.look(api, identity[:12]) is None
    assert container.look(api, identity) is not None


def test_a_paused_one(spec: Spec, engine: Engine, api: APIClient) -> None:
    """A paused container is not said to run."""
    container.ensure(api, spec)
    engine.docker("pause", spec.name)
    said = container.still_wrong(api, spec)
    engine.docker("unpause", spec.name)

    assert said == f"the container {spec.name} is paused: docker unpause {spec.name}"
    assert container.still_wrong(api, spec) is None


def test_a_strangers_container_is_left_alone(spec: Spec, engine: Engine, api: APIClient) -> None:
    """A name that a stranger's container has is refused, even with --recreate, and the container is as it was."""
    engine.docker("create", "--name", spec.name, spec.image, "true")
    before = inspected(api, spec)["Id"]
    for deed in (lambda: container.ensure(api, spec, recreate=True), lambda: container.remove(api, spec.name)):
        with pytest.raises(EnvcheckError) as refused:
            deed()

        assert refused.value.code == errors.UNFIT
        assert spec.name in refused.value.message
    assert inspected(api, spec)["Id"] == before


def source_gone(spec: Spec) -> tuple[Spec, str]:
    gone = f"{spec.mounts[0].source}/gone"
    return replace(spec, mounts=(Mount(gone, "/x"),)), f"{gone} is not on the host of the engine"


def node_gone(spec: Spec) -> tuple[Spec, str]:
    return replace(spec, devices=("/dev/davinci99:/dev/davinci99:rwm",)), "the device node /dev/davinci99 is not"


def runtime_gone(spec: Spec) -> tuple[Spec, str]:
    return replace(spec, runtime="ascend"), "the engine has no runtime ascend"


def names_without_engine(spec: Spec) -> tuple[Spec, str]:
    return replace(spec, cdi=("iluvatar.com/gpu=0",)), "the engine cannot give cards to a container (cdi)"


def image_gone(spec: Spec) -> tuple[Spec, str]:
    return replace(spec, image="nobody/has:this"), "the engine has no image nobody/has:this"


def program_gone(spec: Spec) -> tuple[Spec, str]:
    return replace(spec, command=("no-such-shell",)), "the image has no program no-such-shell"


def ends_at_once(spec: Spec) -> tuple[Spec, str]:
    return replace(spec, command=("false",)), f"the container {spec.name} ended at once with status 1"


def ends_with_a_word(spec: Spec) -> tuple[Spec, str]:
    return replace(spec, command=("sh", "-c", "echo the licence has run out; exit 3")), "3: the licence has run out"


@pytest.mark.parametrize(
    "fault",
    (
        source_gone,
        node_gone,
        runtime_gone,
        names_without_engine,
        image_gone,
        program_gone,
        ends_at_once,
        ends_with_a_word,
    ),
)
def test_nothing_is_left_half_made(fault: Callable[[Spec], tuple[Spec, str]], spec: Spec, api: APIClient) -> None:
    """What the engine refuses is one sentence and exit 4; no container and no folder stays."""
    wrong, sentence = fault(spec)
    with pytest.raises(StepError) as failed:
        container.ensure(api, wrong)

    assert sentence in failed.value.message
    assert "\n" not in failed.value.message
    assert failed.value.next_step
    assert failed.value.code == errors.STEP_FAILED
    assert container.look(api, spec.name) is None
    assert not Path(f"{spec.mounts[0].source}/gone").exists()


def test_proxies_of_dockers_settings(
    spec: Spec, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What docker's own settings put into every container comes in, and is no difference from the plan, whether they
    are still the same later or not."""
    settings = {"proxies": {"default": {"httpProxy": "http://proxy.example:3128", "noProxy": "localhost"}}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with contextlib.closing(APIClient(base_url=engine.url)) as behind:
        container.ensure(behind, spec)
        (tmp_path / "config.json").unlink()

        assert "http_proxy=http://proxy.example:3128" in inspected(behind, spec)["Config"]["Env"]
        assert container.stands(behind, spec).action is Action.REUSE

        own = replace(spec, environment={**spec.environment, "http_proxy": "http://recipe.example"})

        assert [d.field for d in container.stands(behind, own).differences] == ["environment"]


def test_a_port_that_is_taken(spec: Spec, api: APIClient) -> None:
    """A port that somebody listens on is named, and no container stays."""
    with socket.create_server(("127.0.0.1", spec.ports[0].host)), pytest.raises(StepError) as failed:
        container.ensure(api, spec)

    assert failed.value.message == f"the port 127.0.0.1:{spec.ports[0].host} of this host is taken"
    assert failed.value.code == errors.STEP_FAILED
    assert container.look(api, spec.name) is None


def test_one_that_was_there_stays(spec: Spec, engine: Engine, api: APIClient) -> None:
    """A container that cannot be started again is not removed by the attempt: only what this call made is."""
    first = container.ensure(api, spec)
    engine.docker("kill", spec.name)
    with socket.create_server(("127.0.0.1", spec.ports[0].host)), pytest.raises(StepError):
        container.ensure(api, spec)

    assert inspected(api, spec)["Id"] == first


def test_an_engine_that_is_gone() -> None:
    """An engine out of reach is a sentence and exit 4."""
    with pytest.raises(StepError) as failed:
        container.look(APIClient(base_url="unix:///nowhere/s", version="1.41"), "x")

    assert failed.value.message.startswith("the engine")


def test_a_container_sees_its_cards_alone(
    engine: Engine, api: APIClient, python_image_here: str, tmp_path: Path
) -> None:
    """Unprivileged, a container has the listed nodes, none of the host's others, and not all capabilities."""
    at = scene("ernie-300b-npu", "atlas-200t-a2-box16", tmp_path)
    drawn = at.with_runtimes("runc").drawn(python_image_here)
    made = at.on_engine(drawn.spec)
    try:
        container.ensure(api, made)
        seen = engine.docker("exec", made.name, "ls", "/dev").stdout.split()
        status = engine.docker("exec", made.name, "cat", "/proc/self/status").stdout
    finally:
        container.remove(api, made.name)
    capabilities = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd")), 16)

    assert sum(name.startswith("davinci") for name in seen) == 17
    assert {"devmm_svm", "hisi_hdc"} <= set(seen)
    assert not {"kmsg", "loop0", "mem"} & set(seen)
    assert capabilities & 1 << 21 == 0  # CAP_SYS_ADMIN


def test_the_vendors_runtime(registry: Registry, tmp_path: Path) -> None:
    """Where the cards come in by a runtime of the engine's, that makes the container, told their physical numbers."""
    image = f"{registry.address}/envcheck/shell:1"
    image_parts.push(image, [image_parts.busybox()])
    at = scene("qwen-7b-npu-llamafactory", "atlas-800t-a2", tmp_path)
    with running_engine("--add-runtime", f"ascend={WRAPPER}") as own:
        client = APIClient(base_url=own.url)
        own.docker("pull", "--quiet", image)
        drawn = at.with_runtimes(*client.info()["Runtimes"]).drawn(image)
        container.make_folders(drawn.folders)
        chosen = {"runtime": "ascend", "devices": (), "environment": {"ASCEND_VISIBLE_DEVICES": "0"}}
        made = replace(at.on_engine(drawn.spec), ports=(), command=("sh",), **chosen)
        container.ensure(client, made)
        found = inspected(client, made)
        client.close()

    assert drawn.obstacles == ()
    assert found["HostConfig"]["Runtime"] == "ascend"
    assert "ASCEND_VISIBLE_DEVICES=0" in found["Config"]["Env"]
    assert not found["HostConfig"]["Devices"]


def test_folders_of_ours(tmp_path: Path) -> None:
    """Folders are made with what is missing above them and told in that order; a refusal is a sentence."""
    (tmp_path / "file").write_text("")

    assert container.make_folders([str(tmp_path / "a/b"), str(tmp_path / "a")]) == (
        str(tmp_path / "a"),
        str(tmp_path / "a/b"),
    )
    with pytest.raises(StepError, match="cannot be made"):
        container.make_folders([str(tmp_path / "file/x")])

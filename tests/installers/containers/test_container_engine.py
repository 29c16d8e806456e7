"""Containers on a real engine: create, reuse, recreate, refuse, and clean up after failures."""

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
from installers.containers import lifecycle
from installers.containers.compare import ContainerAction
from installers.recipes.container_spec import ContainerSpec, PublishedPort, Ulimit
from installers.recipes.recipe import Mount
from tests.installers.containers.container_helpers import LOCAL_MAJOR, make_scene
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import WRAPPER, DockerEngine, LocalRegistry, find_free_port, start_engine

Made = Callable[..., ContainerSpec]


@pytest.fixture
def api(engine: DockerEngine) -> Iterator[APIClient]:
    client = APIClient(base_url=engine.docker_host)
    yield client
    client.close()


@pytest.fixture
def spec(engine: DockerEngine, python_image_here: str, tmp_path: Path) -> Iterator[ContainerSpec]:
    """A specification that uses every field; a container of its name is removed afterwards."""
    (tmp_path / "a,b").mkdir()
    os.mknod(tmp_path / "card", stat.S_IFCHR | 0o660, os.makedev(LOCAL_MAJOR, 9))
    made = ContainerSpec(
        name=f"envcheck-test-{os.getpid()}",
        image=python_image_here,
        recipe="little",
        workdir="/work",
        mounts=(Mount(str(tmp_path / "a,b"), "/work/"), Mount("/etc/hostname", "/etc/info", True)),
        devices=(f"{tmp_path / 'card'}:/dev/card0:rwm",),
        capabilities=("SYS_PTRACE",),
        shm_bytes=128 << 20,
        ports=(PublishedPort("127.0.0.1", find_free_port(), 7860),),
        ulimits=(Ulimit("nofile", 512, 1024),),
        environment={"A": "1"},
    )
    yield made
    engine.run_docker("rm", "--force", made.name, check=False)


def inspect_container(api: APIClient, spec: ContainerSpec) -> Any:
    found = lifecycle.inspect_container(api, spec.name)
    assert found is not None
    return found


def test_made_as_planned(spec: ContainerSpec, engine: DockerEngine, api: APIClient) -> None:
    """The container has the planned memory, limits, folder, device node and variable.

    Only the hard limit is checked: runc may raise its own soft limit before it starts the process (opencontainers/runc
    issue 4195).
    """
    lifecycle.ensure_running(api, spec)
    script = "ulimit -Hn; pwd; df -k /dev/shm | tail -1; ls /dev/card0; echo $A; "
    script += "touch /work/made; touch /etc/info || echo read-only"
    said = engine.run_docker("exec", spec.name, "bash", "-c", script).stdout.split()

    assert said[:2] == ["1024", "/work"]
    assert inspect_container(api, spec)["HostConfig"]["Ulimits"] == [{"Name": "nofile", "Soft": 512, "Hard": 1024}]
    assert "131072" in said
    assert said[-3:] == ["/dev/card0", "1", "read-only"]
    assert (Path(spec.mounts[0].source) / "made").exists()


def test_found_again(spec: ContainerSpec, engine: DockerEngine, api: APIClient) -> None:
    """An equal container is reused, and started if it was stopped; its id stays the same."""
    first = lifecycle.ensure_running(api, spec)
    running = lifecycle.read_status(api, spec).action
    second = lifecycle.ensure_running(api, spec)
    engine.run_docker("kill", spec.name)
    stopped = lifecycle.read_status(api, spec).action
    third = lifecycle.ensure_running(api, spec)

    assert (running, stopped) == (ContainerAction.REUSE, ContainerAction.START)
    assert first == second == third
    assert inspect_container(api, spec)["State"]["Running"]


def test_a_different_one_wants_to_be_asked_for(spec: ContainerSpec, api: APIClient) -> None:
    """A differing container is refused with the field and both values, and recreated with --recreate."""
    first = lifecycle.ensure_running(api, spec)
    other = replace(spec, shm_bytes=256 << 20, environment={"A": "1", "API_TOKEN": "hidden"})
    with pytest.raises(EnvcheckError) as refused:
        lifecycle.ensure_running(api, other)
    kept = inspect_container(api, spec)["Id"]
    second = lifecycle.ensure_running(api, other, recreate=True)

    assert refused.value.code == errors.CHECK_FAILED
    assert "shm_size: expected 256m, got 128m" in refused.value.message
    assert "hidden" not in refused.value.message
    assert "--recreate" in refused.value.next_step
    assert first == kept != second


def test_an_id_is_no_name(spec: ContainerSpec, api: APIClient) -> None:
    """The engine accepts the beginning of an id as a name; a plan does not."""
    identity = lifecycle.ensure_running(api, spec)

    assert lifecycle.inspect_container(api, identity[:12]) is None
    assert lifecycle.inspect_container(api, identity) is not None


def test_a_paused_one(spec: ContainerSpec, engine: DockerEngine, api: APIClient) -> None:
    """A paused container does not count as running."""
    lifecycle.ensure_running(api, spec)
    engine.run_docker("pause", spec.name)
    said = lifecycle.explain_mismatch(api, spec)
    engine.run_docker("unpause", spec.name)

    assert said == f"container {spec.name} is paused; run `docker unpause {spec.name}`"
    assert lifecycle.explain_mismatch(api, spec) is None


def test_a_strangers_container_is_left_alone(spec: ContainerSpec, engine: DockerEngine, api: APIClient) -> None:
    """A name used by a foreign container is refused, even with --recreate, and that container is unchanged."""
    engine.run_docker("create", "--name", spec.name, spec.image, "true")
    before = inspect_container(api, spec)["Id"]
    for deed in (
        lambda: lifecycle.ensure_running(api, spec, recreate=True),
        lambda: lifecycle.remove_container(api, spec.name),
    ):
        with pytest.raises(EnvcheckError) as refused:
            deed()

        assert refused.value.code == errors.CHECK_FAILED
        assert spec.name in refused.value.message
    assert inspect_container(api, spec)["Id"] == before


def lose_source(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    gone = f"{spec.mounts[0].source}/gone"
    return replace(
        spec, mounts=(Mount(gone, "/x"),)
    ), f"{gone} does not exist on the engine's host, but the container mounts it"


def lose_node(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    return replace(
        spec, devices=("/dev/davinci99:/dev/davinci99:rwm",)
    ), "device node /dev/davinci99 is missing on this host"


def lose_runtime(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    return replace(spec, runtime="ascend"), "the engine has no runtime ascend"


def name_unknown_cards(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    return replace(spec, cdi=("iluvatar.com/gpu=0",)), "the container engine cannot pass devices to containers (cdi)"


def lose_image(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    return replace(spec, image="nobody/has:this"), "the engine has no image nobody/has:this"


def lose_program(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    return replace(spec, command=("no-such-shell",)), "the image does not contain the program no-such-shell"


def end_at_once(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    return replace(spec, command=("false",)), f"container {spec.name} exited immediately with status 1"


def end_with_message(spec: ContainerSpec) -> tuple[ContainerSpec, str]:
    return replace(spec, command=("sh", "-c", "echo the licence has run out; exit 3")), "3: the licence has run out"


@pytest.mark.parametrize(
    "fault",
    (
        lose_source,
        lose_node,
        lose_runtime,
        name_unknown_cards,
        lose_image,
        lose_program,
        end_at_once,
        end_with_message,
    ),
)
def test_nothing_is_left_half_made(
    fault: Callable[[ContainerSpec], tuple[ContainerSpec, str]], spec: ContainerSpec, api: APIClient
) -> None:
    """An error of the engine is one message with exit code 4; no container and no folder remain."""
    wrong, sentence = fault(spec)
    with pytest.raises(StepError) as failed:
        lifecycle.ensure_running(api, wrong)

    assert sentence in failed.value.message
    assert "\n" not in failed.value.message
    assert failed.value.next_step
    assert failed.value.code == errors.STEP_FAILED
    assert lifecycle.inspect_container(api, spec.name) is None
    assert not Path(f"{spec.mounts[0].source}/gone").exists()


def test_proxies_of_dockers_settings(
    spec: ContainerSpec, engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies from docker's settings in a container are no difference to the plan, even if they change later."""
    settings = {"proxies": {"default": {"httpProxy": "http://proxy.example:3128", "noProxy": "localhost"}}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with contextlib.closing(APIClient(base_url=engine.docker_host)) as behind:
        lifecycle.ensure_running(behind, spec)
        (tmp_path / "config.json").unlink()

        assert "http_proxy=http://proxy.example:3128" in inspect_container(behind, spec)["Config"]["Env"]
        assert lifecycle.read_status(behind, spec).action is ContainerAction.REUSE

        own = replace(spec, environment={**spec.environment, "http_proxy": "http://recipe.example"})

        assert [d.field for d in lifecycle.read_status(behind, own).differences] == ["environment"]


def test_a_port_that_is_taken(spec: ContainerSpec, api: APIClient) -> None:
    """A port that is in use is reported, and no container remains."""
    with socket.create_server(("127.0.0.1", spec.ports[0].host)), pytest.raises(StepError) as failed:
        lifecycle.ensure_running(api, spec)

    assert failed.value.message == f"port 127.0.0.1:{spec.ports[0].host} on this host is in use"
    assert failed.value.code == errors.STEP_FAILED
    assert lifecycle.inspect_container(api, spec.name) is None


def test_one_that_was_there_stays(spec: ContainerSpec, engine: DockerEngine, api: APIClient) -> None:
    """A container that cannot be started is removed only if this call created it."""
    first = lifecycle.ensure_running(api, spec)
    engine.run_docker("kill", spec.name)
    with socket.create_server(("127.0.0.1", spec.ports[0].host)), pytest.raises(StepError):
        lifecycle.ensure_running(api, spec)

    assert inspect_container(api, spec)["Id"] == first


def test_an_engine_that_is_gone() -> None:
    """An unreachable engine is one message with exit code 4."""
    with pytest.raises(StepError) as failed:
        lifecycle.inspect_container(APIClient(base_url="unix:///nowhere/s", version="1.41"), "x")

    assert failed.value.message.startswith("the container engine does not respond: ")


def test_a_container_sees_its_cards_alone(
    engine: DockerEngine, api: APIClient, python_image_here: str, tmp_path: Path
) -> None:
    """An unprivileged container has the listed device nodes, no others of the host, and not all capabilities."""
    at = make_scene("ernie-300b-npu", "atlas-200t-a2-box16", tmp_path)
    drawn = at.set_runtimes("runc").draw_plan(python_image_here)
    made = at.move_to_engine(drawn.spec)
    try:
        lifecycle.ensure_running(api, made)
        seen = engine.run_docker("exec", made.name, "ls", "/dev").stdout.split()
        status = engine.run_docker("exec", made.name, "cat", "/proc/self/status").stdout
    finally:
        lifecycle.remove_container(api, made.name)
    capabilities = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd")), 16)

    assert sum(name.startswith("davinci") for name in seen) == 17
    assert {"devmm_svm", "hisi_hdc"} <= set(seen)
    assert not {"kmsg", "loop0", "mem"} & set(seen)
    assert capabilities & 1 << 21 == 0  # CAP_SYS_ADMIN


def test_the_vendors_runtime(registry: LocalRegistry, tmp_path: Path) -> None:
    """If devices are passed by a runtime of the engine, it creates the container and gets their physical numbers."""
    image = f"{registry.address}/envcheck/shell:1"
    image_parts.push_image(image, [image_parts.make_busybox()])
    at = make_scene("qwen-7b-npu-llamafactory", "atlas-800t-a2", tmp_path)
    with start_engine("--add-runtime", f"ascend={WRAPPER}") as own:
        client = APIClient(base_url=own.docker_host)
        own.run_docker("pull", "--quiet", image)
        drawn = at.set_runtimes(*client.info()["Runtimes"]).draw_plan(image)
        lifecycle.make_folders(drawn.folders)
        chosen = {"runtime": "ascend", "devices": (), "environment": {"ASCEND_VISIBLE_DEVICES": "0"}}
        made = replace(at.move_to_engine(drawn.spec), ports=(), command=("sh",), **chosen)
        lifecycle.ensure_running(client, made)
        found = inspect_container(client, made)
        client.close()

    assert drawn.obstacles == ()
    assert found["HostConfig"]["Runtime"] == "ascend"
    assert "ASCEND_VISIBLE_DEVICES=0" in found["Config"]["Env"]
    assert not found["HostConfig"]["Devices"]


def test_folders_of_ours(tmp_path: Path) -> None:
    """Missing folders are created with their parents and returned in order; a failure is one message."""
    (tmp_path / "file").write_text("")

    assert lifecycle.make_folders([str(tmp_path / "a/b"), str(tmp_path / "a")]) == (
        str(tmp_path / "a"),
        str(tmp_path / "a/b"),
    )
    with pytest.raises(StepError, match=r"^cannot create /.*: not a directory$"):
        lifecycle.make_folders([str(tmp_path / "file/x")])

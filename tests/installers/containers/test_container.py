"""The planned container and its comparison with an existing one: plain data, no engine."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envcheck.core import errors
from installers.containers.compare import ContainerAction, compare_container, decide_action
from installers.containers.host_paths import PathKind, plan_container
from installers.containers.inspect_document import EngineDefaults
from installers.containers.path_kinds import observe_paths
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import SITE_LABEL, read_site_label
from installers.recipes.recipe import Mount
from installers.targets.container_errors import explain_error
from tests.installers.containers.container_helpers import SPEC, ContainerScene, make_scene

KNOWN = EngineDefaults("sha256:ab", "runc", "/root", {"PATH": "/bin"})


def make_inspection() -> dict[str, Any]:
    """Return an engine's document about a container equal to SPEC, in the engine's notation."""
    return {
        "Id": "c0",
        "Name": "/box",
        "Image": "sha256:ab",
        "State": {"Running": True},
        "Mounts": [
            {"Type": "bind", "Source": "/etc/info/", "Destination": "/etc/info", "RW": False},
            {"Type": "bind", "Source": "/data", "Destination": "/data/", "RW": True},
            {"Type": "volume", "Name": "of-the-image", "Source": "/var/lib/x", "Destination": "/cache", "RW": True},
        ],
        "Config": {
            "Image": "name@sha256:12",
            "Cmd": ["bash"],
            "Env": ["PATH=/bin", "A=1"],
            "WorkingDir": "/workspace/",
            "Tty": True,
            "OpenStdin": True,
            "Labels": {"envcheck.recipe": "little", "org.image": "x"},
        },
        "HostConfig": {
            "Runtime": "runc",
            "CapAdd": ["CAP_IPC_LOCK", "sys_ptrace"],
            "Privileged": False,
            "ShmSize": 68719476736,
            "NetworkMode": "default",
            "IpcMode": "private",
            "PidMode": "",
            "Devices": [
                {"PathOnHost": "/dev/card1", "PathInContainer": "/dev/card1", "CgroupPermissions": "rwm"},
                {"PathOnHost": "/dev/card0", "PathInContainer": "/dev/card0", "CgroupPermissions": "rwm"},
            ],
            "DeviceRequests": None,
            "PortBindings": {
                "7860/tcp": [{"HostIp": "127.0.0.1", "HostPort": "7860"}],
                "53/udp": [{"HostIp": "0.0.0.0", "HostPort": "53"}],
            },
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}, {"Name": "nofile", "Soft": 1, "Hard": 2}],
        },
    }


def change_inspection(path: str, value: Any) -> dict[str, Any]:
    """Return `make_inspection` with one value changed, at a path like Config.Env or State.Running."""
    made = copy.deepcopy(make_inspection())
    *folders, last = path.split(".")
    inner = made
    for name in folders:
        inner = inner[name]
    inner[last] = value
    return made


@pytest.fixture
def box16(tmp_path: Path) -> ContainerScene:
    return make_scene("ernie-300b-npu", "atlas-200t-a2-box16", tmp_path)


def test_a_missing_source_is_named(box16: ContainerScene) -> None:
    """Missing mount sources are listed in one error with a next step, exit code 1."""
    (box16.root / "etc/ascend_install.info").unlink()
    (box16.root / "usr/local/bin/npu-smi").unlink()
    (found,) = box16.draw_plan().obstacles

    assert found.why.startswith("/usr/local/bin/npu-smi and /etc/ascend_install.info do not exist on this host")
    assert "envcheck doctor --device npu" in found.remedy
    assert found.code == errors.CHECK_FAILED


def test_a_folder_that_an_engine_once_made(box16: ContainerScene) -> None:
    """A folder in place of npu-smi, left by an earlier `docker run -v`, is reported."""
    (box16.root / "usr/local/bin/npu-smi").unlink()
    (box16.root / "usr/local/bin/npu-smi").mkdir()
    (found,) = box16.draw_plan().obstacles

    assert found.why.startswith("/usr/local/bin/npu-smi is a folder but should be a file")
    assert found.remedy.startswith("run `rmdir /usr/local/bin/npu-smi`")


def test_missing_cards_are_one_sentence(tmp_path: Path) -> None:
    """Device nodes that the recipe needs and the machine lacks are reported together."""
    at = make_scene("ernie-300b-npu", "atlas-800t-a2", tmp_path).set_runtimes("runc")
    (found,) = at.draw_plan().obstacles

    assert found.why == "/dev/davinci8, /dev/davinci9, /dev/davinci10 and 5 more do not exist on this host"
    assert found.code == errors.CHECK_FAILED


def test_own_folders_are_made_not_missed(tmp_path: Path) -> None:
    """A missing source below the user's folder is created; a file in its place is an obstacle."""
    at = make_scene("qwen-7b-npu-llamafactory", "atlas-800t-a2", tmp_path)
    before = at.draw_plan()
    (at.work / "hf_cache").mkdir()
    (at.work / "output").write_text("")
    after = at.draw_plan()

    assert before.folders == tuple(str(at.work / name) for name in ("hf_cache", "ms_cache", "output"))
    assert before.obstacles == ()
    assert after.folders == (str(at.work / "ms_cache"),)
    assert [obstacle.why for obstacle in after.obstacles] == [
        f"{at.work / 'output'} is a file, but the container needs a folder there"
    ]


def test_no_way_into_a_container(tmp_path: Path) -> None:
    """NVIDIA device nodes alone do not work in a container: without CDI and runtime the plan is blocked."""
    at = make_scene("ernie-21b-iluvatar", "bi-v150x8", tmp_path).set_runtimes("runc")
    at = replace(at, recipe=replace(at.recipe, device="nvidia"), facts=replace(at.facts, vendors=()))

    assert "no CDI name and no runtime nvidia" in at.draw_plan().obstacles[-1].why


def test_missing_files_of_the_published_container(tmp_path: Path) -> None:
    """A mount of --as-published that the host lacks is reported; the derived container does not need /dev."""
    at = make_scene("ernie-21b-iluvatar", "bi-v150x8", tmp_path)
    derived, published = at.draw_plan(), at.draw_plan(as_published=True)

    assert (derived.obstacles, published.obstacles) == ((), ())
    assert [m.source for m in published.spec.mounts if m not in derived.spec.mounts] == ["/dev"]


def test_the_engines_spellings_are_no_difference() -> None:
    """Order, trailing slashes, CAP_, 0.0.0.0, and the image's variables and volumes make no difference."""
    assert compare_container(make_inspection(), SPEC, KNOWN) == ()
    assert compare_container(make_inspection(), SPEC) == ()


@pytest.mark.parametrize(
    ("path", "value", "field"),
    (
        ("Name", "/other", "name"),
        ("Image", "sha256:cd", "image"),
        ("Mounts", [], "mounts"),
        ("Config.Labels", {"envcheck.recipe": "another"}, "recipe"),
        ("Config.Cmd", ["sh"], "command"),
        ("Config.WorkingDir", "/", "workdir"),
        ("Config.Env", ["PATH=/bin", "A=2"], "environment"),
        ("Config.Env", ["PATH=/bin", "A=1", "LD_PRELOAD=x"], "environment"),
        ("Config.Tty", False, "tty"),
        ("Config.OpenStdin", False, "stdin"),
        ("HostConfig.Runtime", "ascend", "runtime"),
        ("HostConfig.CapAdd", ["ALL"], "capabilities"),
        ("HostConfig.Privileged", True, "privileged"),
        ("HostConfig.ShmSize", 67108864, "shm_size"),
        ("HostConfig.NetworkMode", "host", "network"),
        ("HostConfig.IpcMode", "host", "ipc"),
        ("HostConfig.PidMode", "host", "pid"),
        ("HostConfig.Devices", None, "devices"),
        ("HostConfig.DeviceRequests", [{"Driver": "", "Count": -1, "DeviceIDs": None}], "devices"),
        ("HostConfig.PortBindings", {"7860/tcp": [{"HostIp": "", "HostPort": "7860"}]}, "ports"),
        ("HostConfig.Ulimits", None, "ulimits"),
    ),
)
def test_one_field_that_differs(path: str, value: Any, field: str) -> None:
    """Each differing field is reported, and no other."""
    found = compare_container(change_inspection(path, value), SPEC, KNOWN)

    assert [difference.field for difference in found] == [field]
    assert found[0].wanted != found[0].there


def test_a_list_shows_what_differs() -> None:
    """For a list, only the differing items are shown, without secrets."""
    (found,) = compare_container(change_inspection("Config.Env", ["PATH=/bin", "A=1", "API_TOKEN=hidden"]), SPEC, KNOWN)

    assert (found.wanted, found.there) == ("", "API_TOKEN=***")


@pytest.mark.parametrize(
    ("found", "recreate", "action"),
    (
        (None, False, ContainerAction.CREATE),
        (make_inspection(), False, ContainerAction.REUSE),
        (make_inspection(), True, ContainerAction.REUSE),
        (change_inspection("State.Running", False), False, ContainerAction.START),
        (change_inspection("HostConfig.ShmSize", 1), False, ContainerAction.REFUSE),
        (change_inspection("HostConfig.ShmSize", 1), True, ContainerAction.RECREATE),
        (change_inspection("Config.Labels", None), False, ContainerAction.REFUSE),
        (change_inspection("Config.Labels", {}), True, ContainerAction.REFUSE),
        ({"Name": "/box"}, True, ContainerAction.REFUSE),
    ),
)
def test_what_follows(found: dict[str, Any] | None, recreate: bool, action: ContainerAction) -> None:
    """An equal container is reused, a stopped one started; a differing one needs --recreate, a foreign one is kept."""
    now = decide_action(found, SPEC, KNOWN, recreate=recreate)

    assert now.action is action
    assert bool(now.obstacle) is (action is ContainerAction.REFUSE)


def test_the_digest_knows_the_container() -> None:
    """The digest does not depend on the order of environment variables, but on their values."""
    two = replace(SPEC, environment={"A": "1", "B": "2"})

    assert replace(two, environment={"B": "2", "A": "1"}).digest == two.digest
    assert SPEC.digest != two.digest


@pytest.mark.parametrize(
    ("said", "message"),
    (
        ('Conflict. The container name "/x" is already in use by container "5"', "another container is named x"),
        ("driver failed programming external connectivity on endpoint b (1): Bind for 0.0.0.0:7860 failed: port is "
         "already allocated", "port 0.0.0.0:7860 on this host is in use"),
        ("driver failed programming external connectivity on endpoint b (1): Error starting userland proxy: "
         "listen tcp4 127.0.0.1:7860: bind: address already in use", "port 127.0.0.1:7860 on this host is in use"),
        ('error gathering device information while adding custom device "/dev/x": no such file or directory',
         "device node /dev/x is missing on this host"),
        ("failed to inject CDI devices: unresolvable CDI devices a.com/gpu=0",
         "the container engine does not know the CDI devices a.com/gpu=0"),
        ('could not select device driver "cdi" with capabilities: []',
         "the container engine cannot pass devices to containers (cdi)"),
        ("Something new\nand more", "the container engine reported an error: Something new"),
        ("", "the container engine reported an error: no reason given"),
    ),
)  # fmt: skip
def test_sentences(said: str, message: str) -> None:
    """Error messages of several engine versions become one sentence with a next step."""
    found, next_step = explain_error(said)

    assert found == message
    assert next_step


@pytest.mark.parametrize(
    ("label", "names"), [('["/data", "A"]', {"/data", "A"}), ("", set()), ("no JSON", set()), ('{"a": 1}', set())]
)
def test_a_container_tells_what_the_site_added(label: str, names: set[str]) -> None:
    """The label names mounts and variables of the site; a label that is not ours names none."""
    spec = replace(SPEC, recipe="little", site=("/data", "A"))

    assert read_site_label(spec.labels) == {"/data", "A"}
    assert read_site_label({SITE_LABEL: label}) == names
    assert SITE_LABEL not in replace(SPEC, recipe="little").labels


def test_missing_kernel_folders_name_the_packages_of_the_kernel(tmp_path: Path) -> None:
    """/lib/modules is no part of a vendor's driver, which was the former advice."""
    scene = make_scene("ernie-21b-iluvatar", "bi-v150x8", tmp_path)
    found = scene.draw_plan()
    there = {mount.source: PathKind.FOLDER for mount in found.spec.mounts} | dict.fromkeys(
        (device.split(":")[0] for device in found.spec.devices), PathKind.FILE
    )
    del there["/lib/modules"]

    (obstacle,) = plan_container(scene.recipe, found.container, "image", there).obstacles

    assert obstacle.why.startswith("/lib/modules does not exist on this host")
    assert "linux-image" in obstacle.remedy and "driver" not in obstacle.remedy


def test_two_mounts_of_one_target_are_an_obstacle(tmp_path: Path) -> None:
    """The engine refuses such a container only after the pull; the plan names target and sources."""
    scene = make_scene("ernie-21b-iluvatar", "bi-v150x8", tmp_path)
    assert scene.recipe.container
    mounts = (Mount(".", "/workspace"), Mount("/srv/data", "/workspace/"))
    twice = replace(scene, recipe=replace(scene.recipe, container=replace(scene.recipe.container, mounts=mounts)))

    plain, refused = (each.draw_plan().obstacles for each in (scene, twice))

    assert "several mounts" not in " ".join(obstacle.why for obstacle in plain)
    why = f"/workspace in the container is the target of several mounts: {scene.work}, /srv/data"
    assert refused[0].why == why


def test_mounts_of_the_site_are_on_the_real_disk(tmp_path: Path) -> None:
    """A site's mount is looked for where the user's folders are, also for a simulated machine; a missing one is the
    site's, not the driver's."""
    scene = make_scene("ernie-21b-iluvatar", "bi-v150x8", tmp_path)
    there, absent = tmp_path / "data.old", tmp_path / "absent"
    there.mkdir()
    found = scene.draw_plan().container

    def list_obstacles(source: Path) -> list[Obstacle]:
        spec = replace(found.spec, mounts=(*found.spec.mounts, Mount(str(source), "/data")), site=("/data",))
        made = replace(found, spec=spec)
        kinds = observe_paths(made, scene.machine)
        return [o for o in plan_container(scene.recipe, made, "image", kinds).obstacles if str(source) in o.why]

    assert list_obstacles(there) == []
    (obstacle,) = list_obstacles(absent)
    assert obstacle.why.startswith(f"{absent} does not exist on this host")
    assert obstacle.remedy == "[site] of envcheck.toml names it: create it, or correct the settings"

"""The container as it is to be, and against what is there: plain data, no engine."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envcheck.core import errors
from installers.containers.compare import Action, compare, standing
from installers.containers.inspect_document import Defaults
from installers.targets.container_errors import sentence
from tests.installers.containers.container_helpers import SPEC, Scene, scene

KNOWN = Defaults("sha256:ab", "runc", "/root", {"PATH": "/bin"})


def document() -> dict[str, Any]:
    """What an engine says of a container that is as SPEC wants it, in its own spellings."""
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


def changed(path: str, value: Any) -> dict[str, Any]:
    """`document` with one value at Config.Env, State.Running and so on."""
    made = copy.deepcopy(document())
    *folders, last = path.split(".")
    inner = made
    for name in folders:
        inner = inner[name]
    inner[last] = value
    return made


@pytest.fixture
def box16(tmp_path: Path) -> Scene:
    return scene("ernie-300b-npu", "atlas-200t-a2-box16", tmp_path)


def test_a_missing_source_is_named(box16: Scene) -> None:
    """The mounts' sources that are not there are named in one sentence with a next step, exit 1."""
    (box16.root / "etc/ascend_install.info").unlink()
    (box16.root / "usr/local/bin/npu-smi").unlink()
    (found,) = box16.drawn().obstacles

    assert found.why.startswith("/usr/local/bin/npu-smi and /etc/ascend_install.info are not on this host")
    assert "envcheck doctor --device npu" in found.remedy
    assert found.code == errors.UNFIT


def test_a_folder_that_an_engine_once_made(box16: Scene) -> None:
    """A folder in the place of npu-smi is what an earlier `docker run -v` left, and is said to be."""
    (box16.root / "usr/local/bin/npu-smi").unlink()
    (box16.root / "usr/local/bin/npu-smi").mkdir()
    (found,) = box16.drawn().obstacles

    assert found.why.startswith("/usr/local/bin/npu-smi is a folder")
    assert found.remedy.startswith("rmdir /usr/local/bin/npu-smi")


def test_missing_cards_are_one_sentence(tmp_path: Path) -> None:
    """Nodes that the recipe's jobs take and the machine lacks are refused together."""
    at = scene("ernie-300b-npu", "atlas-800t-a2", tmp_path).with_runtimes("runc")
    (found,) = at.drawn().obstacles

    assert found.why == "/dev/davinci8, /dev/davinci9, /dev/davinci10 and 5 more are not on this host"
    assert found.code == errors.UNFIT


def test_own_folders_are_made_not_missed(tmp_path: Path) -> None:
    """A source below the user's folder is no obstacle but a folder to make; a file in its place is one."""
    at = scene("qwen-7b-npu-llamafactory", "atlas-800t-a2", tmp_path)
    before = at.drawn()
    (at.work / "hf_cache").mkdir()
    (at.work / "output").write_text("")
    after = at.drawn()

    assert before.folders == tuple(str(at.work / name) for name in ("hf_cache", "ms_cache", "output"))
    assert before.obstacles == ()
    assert after.folders == (str(at.work / "ms_cache"),)
    assert [obstacle.why for obstacle in after.obstacles] == [
        f"{at.work / 'output'} is a file, and the container wants a folder there"
    ]


def test_no_way_into_a_container(tmp_path: Path) -> None:
    """NVIDIA's nodes alone are no use in a container: without CDI and runtime it is refused, not begun."""
    at = scene("ernie-21b-iluvatar", "bi-v150x8", tmp_path).with_runtimes("runc")
    at = replace(at, recipe=replace(at.recipe, device="nvidia"), facts=replace(at.facts, vendors=()))

    assert "no CDI name, no runtime nvidia" in at.drawn().obstacles[-1].why


def test_missing_files_of_the_published_container(tmp_path: Path) -> None:
    """What --as-published mounts and the host lacks is named; the derived container does without the host's /dev."""
    at = scene("ernie-21b-iluvatar", "bi-v150x8", tmp_path)
    derived, published = at.drawn(), at.drawn(as_published=True)

    assert (derived.obstacles, published.obstacles) == ((), ())
    assert [m.source for m in published.spec.mounts if m not in derived.spec.mounts] == ["/dev"]


def test_the_engines_spellings_are_no_difference() -> None:
    """Order, slashes at the end, CAP_, 0.0.0.0, the image's own variables and volumes: the same container."""
    assert compare(document(), SPEC, KNOWN) == ()
    assert compare(document(), SPEC) == ()


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
    """Each field that differs is named, and no other."""
    found = compare(changed(path, value), SPEC, KNOWN)

    assert [difference.field for difference in found] == [field]
    assert found[0].wanted != found[0].there


def test_a_list_shows_what_differs() -> None:
    """Of a list only the differing lines are shown, and no secret."""
    (found,) = compare(changed("Config.Env", ["PATH=/bin", "A=1", "API_TOKEN=hidden"]), SPEC, KNOWN)

    assert (found.wanted, found.there) == ("", "API_TOKEN=***")


@pytest.mark.parametrize(
    ("found", "recreate", "action"),
    (
        (None, False, Action.CREATE),
        (document(), False, Action.REUSE),
        (document(), True, Action.REUSE),
        (changed("State.Running", False), False, Action.START),
        (changed("HostConfig.ShmSize", 1), False, Action.REFUSE),
        (changed("HostConfig.ShmSize", 1), True, Action.RECREATE),
        (changed("Config.Labels", None), False, Action.REFUSE),
        (changed("Config.Labels", {}), True, Action.REFUSE),
        ({"Name": "/box"}, True, Action.REFUSE),
    ),
)
def test_what_follows(found: dict[str, Any] | None, recreate: bool, action: Action) -> None:
    """The same is used, the stopped is started, the different wants --recreate, a stranger's is refused even then."""
    now = standing(found, SPEC, KNOWN, recreate=recreate)

    assert now.action is action
    assert bool(now.obstacle) is (action is Action.REFUSE)


def test_the_digest_knows_the_container() -> None:
    """The order of the environment is no other container; a value is."""
    two = replace(SPEC, environment={"A": "1", "B": "2"})

    assert replace(two, environment={"B": "2", "A": "1"}).digest == two.digest
    assert SPEC.digest != two.digest


@pytest.mark.parametrize(
    ("said", "message"),
    (
        ('Conflict. The container name "/x" is already in use by container "5"', "another container has the name x"),
        ("driver failed programming external connectivity on endpoint b (1): Bind for 0.0.0.0:7860 failed: port is "
         "already allocated", "the port 0.0.0.0:7860 of this host is taken"),
        ("driver failed programming external connectivity on endpoint b (1): Error starting userland proxy: "
         "listen tcp4 127.0.0.1:7860: bind: address already in use", "the port 127.0.0.1:7860 of this host is taken"),
        ('error gathering device information while adding custom device "/dev/x": no such file or directory',
         "the device node /dev/x is not on this host"),
        ("failed to inject CDI devices: unresolvable CDI devices a.com/gpu=0",
         "the engine does not know the CDI names a.com/gpu=0"),
        ('could not select device driver "cdi" with capabilities: []',
         "the engine cannot give cards to a container (cdi)"),
        ("Something new\nand more", "the engine refused: Something new"),
        ("", "the engine refused: nothing"),
    ),
)  # fmt: skip
def test_sentences(said: str, message: str) -> None:
    """What engines of several versions say becomes one sentence, with a next step."""
    found, next_step = sentence(said)

    assert found == message
    assert next_step

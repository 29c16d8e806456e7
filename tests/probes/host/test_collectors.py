"""The collectors of nodes, processes, kernel, containers, libraries and loader, on real files and processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck import checks
from envcheck.checks.devices import occupancy
from envcheck.collect import answer_sources, facts
from envcheck.collect.host import containers, elf, kernel, libraries, loader, permissions, processes
from envcheck.core.facts import Facts
from envcheck.core.model import Answer, Outcome
from envcheck.core.vendor import Vendor
from envcheck.vendors import VENDORS
from probes.host import schemas
from tests.envcheck.checks.check_parts import make_healthy_facts

COLLECTED = ("caller", "paths", "processes", "kernel", "containers", "libraries", "loader")
CC = shutil.which("cc") or shutil.which("gcc")


EVERY = tuple(VENDORS.values())


@pytest.fixture
def device_nodes(tmp_path: Path) -> Path:
    """A folder with the device nodes of the vendor `make_vendor`."""
    (tmp_path / "davinci0").touch()
    (tmp_path / "manager").touch(mode=0o600)
    return tmp_path


def make_vendor(folder: Path) -> tuple[Vendor, ...]:
    """A vendor whose device nodes are in a test folder."""
    return (replace(VENDORS["npu"], node_pattern=f"{folder}/davinci[0-9]*", control_nodes=(f"{folder}/manager",)),)


def build_library(folder: Path, name: str, code: str, *options: str) -> Path:
    """A real shared library."""
    if CC is None:
        pytest.skip("no C compiler is here")
    (folder / f"{name}.c").write_text(code)
    subprocess.run([CC, "-shared", "-fPIC", "-o", f"{folder}/{name}", *options, f"{folder}/{name}.c"], check=True)
    return folder / name


def test_this_machine_is_read() -> None:
    """Collectors run on this machine return the data shapes that the checks read."""
    found = facts.gather_facts(answer_sources.live_machine(), "cpu")
    me, paths, running = schemas.read_caller(found), schemas.read_paths(found), schemas.read_kernel(found)
    assert me and paths and running and schemas.read_loader(found) and schemas.read_libraries(found) is not None

    assert (me.uid, me.capabilities is not None) == (os.geteuid(), True)
    assert paths.paths["/"].kind == "folder" and running.running == os.uname().release
    assert os.getpid() in (seen := schemas.read_processes(found) or schemas.HostProcesses()).pids and not seen.holding


def test_who_holds_a_node_is_found(device_nodes: Path) -> None:
    """A process that has a device's node open is named with its age and its parent, the asking one left out."""
    code = f"import sys; f = open('{device_nodes}/davinci0'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline() == b"open\n"
        with (device_nodes / "davinci0").open():
            found = processes.collect_processes(make_vendor(device_nodes))["holding"]
        child.kill()

    assert [(one["pid"], one["parent"], one["nodes"]) for one in found] == [
        (child.pid, os.getpid(), [f"{device_nodes}/davinci0"])
    ]
    assert found[0]["state"] in "SR" and found[0]["age_s"] >= 0 and "python" in found[0]["name"]


@pytest.mark.parametrize(
    ("above", "expected"), [("python3\0-m\0envcheck\0train", None), ("/sbin/init", "20261121-091500-light-77aa")]
)
def test_the_run_of_a_process_without_supervisor(
    above: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is named if the process above those with its mark is not envcheck."""
    mark = "HOME=/root\0ENVCHECK_RUN=/runs/20261121-091500-light-77aa\0"
    texts = {"/proc/9/environ": mark, "/proc/9/stat": "9 (python (3)) S 8 9", "/proc/8/environ": mark}
    texts |= {"/proc/8/stat": "8 (bash) S 7 8", "/proc/7/environ": "HOME=/root\0", "/proc/7/cmdline": above}
    monkeypatch.setattr(processes, "_read_text", lambda path: texts.get(str(path), ""))

    assert processes._find_orphaned_run(9) == expected


def test_owner_and_mode_are_those_of_the_file(device_nodes: Path) -> None:
    """Nodes are looked up with owner and mode; a link that leads nowhere is a link."""
    (device_nodes / "davinci1").symlink_to(device_nodes / "gone")
    found = permissions.collect_paths(make_vendor(device_nodes))["paths"]

    assert found[f"{device_nodes}/manager"]["mode"] == 0o600 and found[f"{device_nodes}/manager"]["uid"] == os.geteuid()
    assert found[f"{device_nodes}/manager"]["usable"] is True
    assert found[f"{device_nodes}/davinci1"]["kind"] == "link" and found[f"{device_nodes}/davinci1"]["usable"] is False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody without rights")
def test_what_a_stranger_may_not_open_is_told(device_nodes: Path) -> None:
    """The same look by a user without rights: its nodes are not usable, and it has no name."""
    device_nodes.chmod(0o755)
    for folder in device_nodes.parents:
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(folder.stat().st_mode | 0o111)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:  # a child that continues would run the rest of the tests again
            os.setgroups([])
            os.setgid(64123)
            os.setuid(64123)
            told = {
                "usable": permissions.collect_paths(make_vendor(device_nodes))["paths"][f"{device_nodes}/manager"][
                    "usable"
                ],
                **permissions.collect_caller(),
            }
            os.write(write, json.dumps(told).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    said = json.loads(os.read(read, 4096))

    assert (said["usable"], said["user"], said["uid"], int(said["capabilities"], 16)) == (False, None, 64123, 0)


def test_paths_of_the_environment_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder named in an environment variable is listed, with whether it exists."""
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}::{tmp_path}/gone:relative")

    assert permissions.collect_paths(EVERY)["named"]["LD_LIBRARY_PATH"] == {
        f"{tmp_path}": True,
        f"{tmp_path}/gone": False,
    }


def test_libraries_are_loaded_in_a_child(tmp_path: Path) -> None:
    """Results for a library that loads, one with an undefined symbol, one that is missing, and one that kills the
    process."""
    build_library(tmp_path, "good.so", "int f(void) { return 1; }")
    build_library(tmp_path, "lacking.so", "int nowhere(void); int (*p)(void) = nowhere;")
    build_library(
        tmp_path, "last.so", "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }"
    )
    names = [(name, str(tmp_path / name)) for name in ("good.so", "lacking.so", "missing.so", "last.so")]
    here = replace(VENDORS["npu"], node_pattern=str(tmp_path), libraries=tuple(names))
    found = libraries.collect_libraries([here], answer_sources.run_program)

    assert found["good.so"]["loads"] is True and found["good.so"]["path"] == f"{tmp_path}/good.so"
    assert found["lacking.so"]["loads"] is False and found["missing.so"]["loads"] is False
    assert found["last.so"]["loads"] is None and "crashed" in found["last.so"]["error"]


@pytest.mark.slow
def test_a_library_that_hangs_costs_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library whose constructor hangs is stopped at the deadline and reported."""
    build_library(
        tmp_path, "slow.so", "#include <unistd.h>\n__attribute__((constructor)) static void f(void) { sleep(60); }"
    )
    monkeypatch.setattr(libraries, "DEADLINE_S", 1.0)
    here = replace(VENDORS["npu"], node_pattern=str(tmp_path), libraries=(("slow.so", f"{tmp_path}/slow.so"),))

    assert libraries.collect_libraries([here], answer_sources.run_program) == {
        "slow.so": {"loads": None, "error": "timed out while loading", "path": None}
    }


def test_nothing_is_loaded_where_no_card_is() -> None:
    """On a machine without cards and toolkits no library is tried."""
    if any(Path(v.toolkit_folder).exists() for v in VENDORS.values() if v.toolkit_folder):
        pytest.skip("a toolkit is here")

    assert libraries.collect_libraries(EVERY, answer_sources.run_program) == {}


def test_modules_of_each_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """modules.dep is read for each kernel, and a folder without an image starts nothing."""
    for release, line in (
        ("6.1.0-9", "updates/dkms/nvidia-uvm.ko.xz: updates/dkms/nvidia.ko.xz\n"),
        ("6.1.0-10", "a.ko:\n"),
    ):
        (tmp_path / release).mkdir()
        (tmp_path / release / "modules.dep").write_text(line)
    (tmp_path / "6.1.0-10" / "vmlinuz").touch()
    monkeypatch.setattr(kernel, "MODULES", tmp_path)

    assert kernel.collect_kernel(EVERY)["kernels"] == {
        "6.1.0-10": {"modules": [], "bootable": True},
        "6.1.0-9": {"modules": ["nvidia_uvm"], "bootable": False},
    }


def test_a_compiled_library_is_read(tmp_path: Path) -> None:
    """Machine, soname and symbol versions read from a real library match what its linker wrote."""
    made = build_library(tmp_path, "libx.so.1", "int f(void) { return 1; }", "-Wl,-soname,libx.so.1")
    read = elf.read_library(made)

    assert read == elf.ElfLibrary(os.uname().machine, "libx.so.1")


def test_the_newest_glibcxx_is_that_of_the_strings() -> None:
    """The newest GLIBCXX version equals the newest one among the strings of this machine's libstdc++."""
    told = loader.collect_loader(EVERY)["standard"]
    if told is None:
        pytest.skip("no libstdc++ is here")
    said = {part for part in Path(told["path"]).read_bytes().split(b"\0") if part.startswith(b"GLIBCXX_3.4.")}

    assert told["gives"] == max((s.decode()[8:] for s in said), key=lambda v: [int(n) for n in v.split(".")])


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_no_library(data: bytes) -> None:
    """Arbitrary bytes after an ELF header give None or a library without a soname, not an exception."""
    file = Path(os.environ.get("TMPDIR", "/tmp")) / f"envcheck-elf-{os.getpid()}"
    file.write_bytes(b"\x7fELF\x02\x01" + data)
    try:
        read = elf.read_library(file)
    finally:
        file.unlink()

    assert read is None or read.soname is None


def write_docker(folder: Path, answers: dict[str, str]) -> Path:
    """A fake docker that prints real output of `docker ps` and `docker inspect`."""
    lines = [f"{verb}) cat <<'END'\n{text}\nEND\n;;" for verb, text in answers.items()]
    program = folder / "docker"
    program.write_text("#!/bin/sh\ncase $1 in\n" + "\n".join(lines) + "\n*) echo refused >&2; exit 1 ;;\nesac\n")
    program.chmod(0o755)
    return program


INSPECTED = {
    "Name": "/job",
    "State": {"Pid": 4711},
    "Config": {"Image": "cann:8.0", "Env": ["ASCEND_VISIBLE_DEVICES=0-3", "TOKEN=abc", "PATH=/bin"]},
    "HostConfig": {
        "Devices": [{"PathOnHost": "/dev/davinci1", "PathInContainer": "/dev/davinci1", "CgroupPermissions": "rwm"}],
        "DeviceRequests": [{"Driver": "", "Count": -1, "DeviceIDs": ["0", "3"], "Capabilities": [["gpu"]]}],
        "ShmSize": 67108864,
        "IpcMode": "private",
        "Runtime": "runc",
        "Privileged": False,
    },
    "Mounts": [{"Type": "bind", "Source": "/usr/local/dcmi", "Destination": "/usr/local/dcmi"}],
}


def test_containers_are_told_without_their_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards, shared memory and mounts of each running container; of its environment only what chooses cards."""
    write_docker(tmp_path, {"ps": "0123456789abcdef", "inspect": json.dumps(INSPECTED)})
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = containers.collect_containers(EVERY, answer_sources.run_program)

    assert told["error"] is None and "abc" not in json.dumps(told["containers"])
    assert told["containers"][0]["nodes"] == ["/dev/davinci1"] and told["containers"][0]["shm_bytes"] == 64 << 20
    assert told["containers"][0]["requests"] == ["nvidia.com/gpu=0", "nvidia.com/gpu=3"]
    assert told["containers"][0]["visible"] == {"ASCEND_VISIBLE_DEVICES": "0-3"}


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({}, "refused"),
        ({"ps": ""}, None),
        ({"ps": "abc"}, "refused"),
        ({"ps": "abc", "inspect": "[1, 2"}, "docker inspect returned nothing"),
        ({"ps": "--help", "inspect": "{}"}, None),
    ],
)
def test_an_engine_that_says_otherwise(
    answers: dict[str, str], error: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that is unreachable, has no containers or prints garbage: its error is kept, and no container is
    listed."""
    write_docker(tmp_path, answers)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = containers.collect_containers(EVERY, answer_sources.run_program)

    assert (told["error"], told["containers"]) == (error, [])


@pytest.mark.parametrize(
    ("vendor", "got", "told"),
    [
        ("nvidia", {"requests": ["nvidia.com/gpu=all"]}, "nvidia.com/gpu=all"),
        ("nvidia", {"visible": {"NVIDIA_VISIBLE_DEVICES": "all"}, "runtime": "runc"}, ""),  # the image's own setting
        ("nvidia", {"visible": {"NVIDIA_VISIBLE_DEVICES": "1"}, "runtime": "nvidia"}, "NVIDIA_VISIBLE_DEVICES=1"),
        ("nvidia", {"visible": {"NVIDIA_VISIBLE_DEVICES": "void"}, "runtime": "nvidia"}, ""),
        ("npu", {"visible": {"ASCEND_VISIBLE_DEVICES": "0-3"}, "runtime": "ascend"}, "ASCEND_VISIBLE_DEVICES=0-3"),
        ("npu", {"nodes": ["/dev/davinci_manager", "/dev/davinci7"]}, "/dev/davinci7"),
        ("npu", {"requests": ["nvidia.com/gpu=0"], "privileged": True}, ""),
    ],
)
def test_what_a_container_was_given(vendor: str, got: dict[str, object], told: str) -> None:
    """Cards come from device nodes, device requests or the vendor's runtime; the variable without the runtime gives
    none."""
    one = schemas.RunningContainer("c", **got)

    assert occupancy.find_given_devices(make_healthy_facts(vendor).vendors[0], one) == told


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    "paths",
    "named",
    "holding",
    "pids",
    "kernels",
    "loaded",
    "containers",
    "uid",
    "preload",
    "standard",
    "/",
    "mode",
)


@settings(deadline=None)
@given(name=st.sampled_from(COLLECTED), said=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6))
def test_any_recording_is_read(name: str, said: dict[str, object]) -> None:
    """No check crashes on arbitrary collector data from a snapshot."""
    told = replace(GOOD, answers={**GOOD.answers, f"ask {name}": Answer("", Outcome.ANSWERED, json.dumps(said))})

    assert not [f for f in checks.run_checks(told) if "crashed" in f.seen]


GOOD: Facts = make_healthy_facts("npu")

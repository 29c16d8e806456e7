"""The real paddle with a vendor's plugin in a container: 16 simulated cards, verified by their values."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installers import paddle_parts, script_machine
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry
from tests.installers.provision_helpers import PackageIndex, serve_index
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
JOB = """
[[jobs]]
method = "lora"
title = "none"
source = "a test"
launcher = ["true"]
"""
MACHINES = {"npu": "atlas-200t-a2-box16", "iluvatar": "bi-v150x8"}
KINDS = {
    "npu": ("npu", "paddle-custom-npu", 'PADDLE_XCCL_BACKEND = "npu"'),
    "iluvatar": ("iluvatar_gpu", "paddle-iluvatar-gpu", 'PADDLE_XCCL_BACKEND = "iluvatar_gpu"'),
}


@pytest.fixture(scope="module")
def index(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    folder = paddle_parts.make_index(tmp_path_factory.mktemp("index"), "3.11")
    for kind, plugin, _ in KINDS.values():
        paddle_parts.write_plugin_wheel(
            folder, plugin, "3.1.0", paddle_environment, kind, tmp_path_factory.mktemp("plugin") / kind
        )
    with serve_index(folder) as served:
        yield served


def run_provision(
    engine: DockerEngine, image: str, index: PackageIndex, folder: Path, device: str, more: str = ""
) -> subprocess.CompletedProcess[str]:
    write_boxed_recipe(image, index, folder, device, more)
    words = ("provision", "--recipe", f"boxed-{device}", "--recipes", str(folder / "recipes"))
    return run_envcheck(engine, folder, device, *words, "--as-published")  # the engine's own host has no such nodes


def write_boxed_recipe(image: str, index: PackageIndex, folder: Path, device: str, more: str = "") -> None:
    _, plugin, backend = KINDS[device]
    names = {"recipe": f"boxed-{device}", "container": f"envcheck-test-{device}", "plugin": plugin, "model": "boxed"}
    text = paddle_parts.BOXED.format(
        **names, device=device, cards=16, image=image, index=index.base_url, environment=f"{backend}\n{more}"
    )
    (folder / "recipes").mkdir(exist_ok=True)
    (folder / "recipes" / "boxed.toml").write_text(text + JOB)


def run_envcheck(
    engine: DockerEngine, folder: Path, device: str, *words: str, decided: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run on a simulated machine with a real engine; if `decided`, nothing is asked and JSON is printed."""
    argv = [sys.executable, "-m", "envcheck", *words, *(["--yes", "--json"] if decided else [])]
    env = {**engine.child_environment, "ENVCHECK_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    around = [
        sys.executable,
        "-m",
        "envcheck",
        "simulate",
        MACHINES[device],
        "--",
        "env",
        f"DOCKER_HOST={engine.docker_host}",
    ]
    return subprocess.run(
        [*around, *argv], cwd=folder, env={**env, **more}, capture_output=True, text=True, timeout=500
    )


def check_deeply(engine: DockerEngine, folder: Path, device: str) -> None:
    """doctor --deep finds the container and tests its cards."""
    small = {"ENVCHECK_DEEP_SECONDS": "0.05", "ENVCHECK_DEEP_MIB": "4"}
    job = ("--device", device, "--recipes", str(folder / "recipes"))
    only = ("--only", "deep.cards", "--only", "deep.memory", "--only", "deep.peer", "--only", "deep.allreduce")
    done = run_envcheck(engine, folder, device, "doctor", "--deep", *job, *only, **small)
    said = json.loads(done.stdout)["findings"]
    told = {found["name"]: f"{found['status']} {found['seen']}" for found in said}

    assert [f for f in said if f["name"] == "deep.memory" and f["status"] != "OK"] == []
    assert told["deep.cards"] == f"OK 16 cards tested with paddle 3.1.0 from container envcheck-test-{device}"
    assert told["deep.memory"] == "OK 4 MiB of devices 0-15 filled and read back"
    assert told["deep.peer"].startswith(("OK ", "WARN ")) and "GB/s" in told["deep.peer"]
    assert told["deep.allreduce"].startswith("OK 16 cards: all-reduce of ")


@pytest.mark.parametrize("device", thin_out(1, KINDS))
def test_sixteen_cards(
    engine: DockerEngine, python_image: str, index: PackageIndex, tmp_path: Path, device: str
) -> None:
    """Matmul and all-reduce are correct on 16 cards, also in doctor --deep; with an all-reduce that does nothing, the
    container fails by its values."""
    try:
        good = run_provision(engine, python_image, index, tmp_path, device)

        assert good.returncode == 0, good.stdout + good.stderr
        proof = {deed["step"]: deed["summary"] for deed in json.loads(good.stdout)["performed"]}["proof"]
        assert f"matmul correct on 16 cards of type {KINDS[device][0]}" in proof
        assert "all-reduce correct in 16 processes" in proof
        if device == "npu":
            check_deeply(engine, tmp_path, device)

        (tmp_path / "home/environments" / f"boxed-{device}" / ".envcheck/state.json").unlink()
        bad = run_provision(engine, python_image, index, tmp_path, device, 'FAKE_SILENT = "1"')

        assert bad.returncode == 4, bad.stdout
        assert "all-reduce in 16 processes returned wrong values: process 0: sums: expected" in bad.stderr
    finally:
        engine.run_docker("rm", "-f", f"envcheck-test-{device}", check=False)


@pytest.mark.extended
def test_the_script_with_the_vendors_library(
    engine: DockerEngine,
    registry: LocalRegistry,
    paddle_environment: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The emitted script installs the real paddle with a plugin that needs ATB's library, which only set_env.sh puts on
    the path, and proves it; provisioning then tests the 16 cards, and nothing else is left to do."""
    files = script_machine.build_vendor_files(tmp_path)
    (library := tmp_path / "libatb.so").write_bytes(files[f"{script_machine.ATB}/lib64/libatb.so"])
    image = f"{registry.address}/envcheck/vendors:paddle"
    script_machine.push_vendor_image(image, files)
    folder = paddle_parts.make_index(tmp_path_factory.mktemp("index"), "3.11")
    plugin = ("paddle-custom-npu", "3.1.0", paddle_environment, "npu", tmp_path / "plugin", library)
    paddle_parts.write_plugin_wheel(folder, *plugin)
    with serve_index(folder) as index:
        write_boxed_recipe(image, index, tmp_path, "npu")
        recipe = tmp_path / "recipes" / "boxed.toml"
        scripts = [f"/{place}/set_env.sh" for place in (script_machine.TOOLKIT, script_machine.ATB)]
        recipe.write_text(recipe.read_text().replace('workdir = "/"', f'workdir = "/"\nscripts = {scripts}', 1))
        words = ("provision", "--recipe", "boxed-npu", "--recipes", str(tmp_path / "recipes"), "--as-published")
        try:
            printed = run_envcheck(engine, tmp_path, "npu", *words, "--as-script", decided=False)
            ran = subprocess.run(
                ["bash", "-c", printed.stdout],
                cwd=tmp_path, env=engine.child_environment, capture_output=True, text=True, timeout=500,
            )  # fmt: skip
            bare = engine.run_docker("exec", "envcheck-test-npu", "python3", "-c", "import paddle", check=False)
            then = run_envcheck(engine, tmp_path, "npu", *words)
        finally:
            engine.run_docker("rm", "-f", "envcheck-test-npu", check=False)

    assert printed.returncode == 0, printed.stdout + printed.stderr
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "libatb.so: cannot open shared object file" in bare.stderr
    assert then.returncode == 0, then.stdout + then.stderr
    (proof,) = json.loads(then.stdout)["performed"]
    assert "matmul correct on 16 cards of type npu" in proof["summary"]

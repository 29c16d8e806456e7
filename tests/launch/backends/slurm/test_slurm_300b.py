"""ERNIE-4.5-300B SFT on eight simulated Box16 nodes: from doctor over ssh to 128 ranks under a real Slurm.

Real: ssh, Slurm, paddle's launcher, 128 processes, network and root folder of eight nodes. Simulated: the devices, the
installed software, and train.py, whose ranks record their environment and do not train.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from installers.recipes import catalogue
from tests.launch.backends.ssh.site_parts import SlurmSite, start_site
from tests.launch.fake_cards import compile_plugin
from tests.launch.gates.test_gates_command import make_environment

pytestmark = pytest.mark.real

NODES, CARDS = 8, 16
WORLD = NODES * CARDS
ALL = "node[01-08]"
NAMES = ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_LOCAL_RANK", "PADDLE_MASTER", "PADDLE_CURRENT_ENDPOINT",
         "PADDLE_TRAINER_ENDPOINTS", "FLAGS_selected_npus")  # fmt: skip
# Replaces ERNIE's train.py: each rank records its environment, and ends once all ranks have started.
TRAIN = f"""
import json, os, sys, time
given = {{name: os.environ.get(name) for name in {NAMES}}}
place = os.path.join("/workspace/ranks", given["PADDLE_TRAINER_ID"])
with open(place + ".new", "w") as file:
    json.dump({{**given, "argv": sys.argv[1:], "host": os.uname().nodename}}, file)
os.rename(place + ".new", place)
until = time.monotonic() + 200
while sum(name.isdecimal() for name in os.listdir("/workspace/ranks")) < {WORLD}:
    if time.monotonic() > until:
        sys.exit("not all ranks came")
    time.sleep(0.5)
for step in (1, 2):
    print(f"loss: {{2 - step / 4}}, learning_rate: 1e-05, global_step: {{step}}", flush=True)
"""
HEADER = json.dumps({"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}})
TENSORS = chr(len(HEADER)) + "\0" * 7 + HEADER + "00"  # safetensors: eight bytes of length, a header, one number
ERNIE = {
    "examples/post-training/sft/train.py": TRAIN,
    **dict.fromkeys(
        ("examples/data/sft-train.jsonl", "examples/data/sft-eval.jsonl"), '{"src": ["a"], "tgt": ["b"]}\n'
    ),
    "baidu/ERNIE-4.5-300B-A47B-Paddle/config.json": "{}",
    "baidu/ERNIE-4.5-300B-A47B-Paddle/tokenizer.json": "{}",
    "baidu/ERNIE-4.5-300B-A47B-Paddle/model.safetensors": TENSORS,
}
# A virtual environment with the Python version of the recipe, and pip.
PIP = "lib/python3.10/site-packages/pip-24.0.dist-info"
EMPTY = {"pyvenv.cfg": "version = 3.10.12\n", f"{PIP}/METADATA": "", f"{PIP}/RECORD": ""}
TOOLKIT = ("ascend-toolkit/set_env.sh", "nnal/atb/set_env.sh")


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def box16(tmp_path: Path) -> Iterator[SlurmSite]:
    write_files(
        tmp_path / "over/usr/local/Ascend", dict.fromkeys(TOOLKIT, "export ASCEND_TOOLKIT_HOME=/usr/local/Ascend\n")
    )
    (tmp_path / "over/workspace/ranks").mkdir(parents=True)
    with start_site(tmp_path, {"npu": (NODES, f"npu:{CARDS}")}) as made:
        for name in made.names:
            made.simulate_node(name, "atlas-200t-a2-box16")
        yield made


def write_python(box16: SlurmSite, paddle: Path, place: Path) -> None:
    """Write a Python with paddle and a plugin that simulates sixteen devices."""
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    given = f"FAKE_DEVICES={CARDS} CUSTOM_DEVICE_ROOT={box16.folder}/plugin"
    place.write_text(f'#!/bin/sh\n{given} exec {paddle}/bin/python "$@"\n')
    place.chmod(0o755)


def read_ranks(box16: SlurmSite) -> dict[int, dict[str, Any]]:
    found = (box16.over / "workspace/ranks").iterdir()
    return {int(path.name): json.loads(path.read_text()) for path in found}


def test_from_the_first_look_to_128_ranks(box16: SlurmSite, paddle_environment: Path) -> None:
    """doctor passes on eight nodes, the plan fits, provision --dry-run changes nothing, and the Slurm job runs the
    preflight checks on every node and starts 128 ranks in one world, with the first node as master."""
    into = box16.folder / "ernie"
    own = ("--model", "300b", "--method", "sft", "--device", "npu", "--into", str(into))
    seen = box16.run_envcheck("doctor", "--hosts", ALL)
    fits = box16.run_envcheck("plan", *own[:6], "--cards", str(WORLD), "--memory-gib", "64")
    write_files(into, EMPTY)
    (box16.folder / "plugin").mkdir()
    compile_plugin(paddle_environment, "npu", box16.folder / "plugin")
    write_python(box16, paddle_environment, into / "bin" / "python")
    before = sorted(into.rglob("*"))
    shown = box16.run_envcheck("provision", "--hosts", ALL, *own, "--dry-run")

    assert (seen.returncode, seen.stderr) == (0, ""), seen
    assert "8 hosts, all responded" in seen.stdout
    assert f"{CARDS} × 910B2C  {ALL}" in seen.stdout
    assert fits.returncode == 0, fits
    assert shown.returncode == 0, shown
    assert "install numpy==1.26.4, paddlepaddle==3.1.0" in shown.stdout
    assert sorted(into.rglob("*")) == before

    shutil.rmtree(into)
    make_environment(next(r for r in catalogue.load_all(None) if r.name == "ernie-300b-npu"), into)
    write_python(box16, paddle_environment, into / "bin" / "python")
    write_files(box16.over / "workspace/ERNIE", ERNIE)
    waived = ("--waive", "disk", "--because", "the nodes share one small disk")
    done = box16.run_envcheck("train", "--on", "slurm", *own, *waived, "--deadline", "240", timeout_s=300)

    assert done.returncode == 0, done.stderr + box16.read_logs()
    assert "step 2 of 200, loss 1.5" in done.stderr
    (run,) = (path.parent for path in box16.folder.glob("runs/*/run.json"))
    looks = [json.loads((run / f"look/{name}.json").read_text()) for name in box16.names]
    assert {look["state"] for look in looks} == {"ready"}
    assert json.loads((run / "look/verdict.json").read_text())["failed_checks"] == {}
    record = json.loads((run / "run.json").read_text())
    assert [part["state"] for part in record["slurm"]["parts"]] == ["succeeded"] * NODES

    there = read_ranks(box16)
    every = there[0]["PADDLE_TRAINER_ENDPOINTS"].split(",")
    assert sorted(there) == list(range(WORLD))
    assert {rank["PADDLE_TRAINERS_NUM"] for rank in there.values()} == {str(WORLD)}
    assert {rank["PADDLE_MASTER"].partition(":")[0] for rank in there.values()} == {box16.find_address("node01")}
    assert {rank["PADDLE_TRAINER_ENDPOINTS"] for rank in there.values()} == {",".join(every)}
    assert len({*every}) == WORLD
    for number, rank in there.items():
        node, card = divmod(number, CARDS)
        assert (rank["host"], rank["FLAGS_selected_npus"]) == (box16.names[node], str(card))
        assert rank["PADDLE_CURRENT_ENDPOINT"] == every[number]
        assert every[number].startswith(f"{box16.find_address(box16.names[node])}:")

"""Scripts for several cards and nodes under the real torchrun on the CPU: ranks connect, options arrive."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from envcheck.job.command import TrainingCommand, render_command
from envcheck.job.command_values import fill_values
from envcheck.job.shell_script import render_script
from launch.targets.train_request import TrainRequest
from tests.launch.job_choice import choose_job
from tests.launch.script_parts import move_command, prepare_files

# Replaces LLaMA-Factory's src/train.py: records what every process receives, and an all-reduced sum.
TRAIN = """
import json, os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
cards = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
record = {"argv": sys.argv[1:], "world": dist.get_world_size(), "sum": total.item(), "cards": cards}
with open(os.path.join(os.environ["RECORDS"], f"rank{dist.get_rank()}"), "w") as file:
    json.dump(record, file)
dist.destroy_process_group()
"""


def find_free_port() -> int:
    with socket.create_server(("", 0)) as probe:
        return int(probe.getsockname()[1])


def find_own_address() -> str:
    """Return a non-loopback address of this machine; the scripts reject loopback addresses."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not each.address.startswith("127."):
                return each.address
    pytest.skip("this machine has no address but loopback")


def make_command(root: Path, torch: Path, wish: TrainRequest) -> TrainingCommand:
    """Return the job moved below a root, with the real torchrun instead of the stand-in."""
    recipe, job = choose_job(wish)
    command = move_command(render_command(recipe, job, fill_values(wish, recipe, None)), root)
    prepare_files(command, root)
    (root / "bin" / "torchrun").write_text(f'#!/bin/sh\nexec {torch}/bin/python -m torch.distributed.run "$@"\n')
    Path(command.workdir, "src", "train.py").write_text(TRAIN)
    (root / "records").mkdir()
    return command


def start_script(root: Path, command: TrainingCommand, **more: str) -> subprocess.Popen[str]:
    path = root / f"job{more.get('NODE_RANK', '')}.sh"
    path.write_text(render_script(command))
    base = {"PATH": f"{root / 'bin'}:{os.environ['PATH']}", "HOME": str(root), "RECORDS": str(root / "records")}
    env = {**base, "OMP_NUM_THREADS": "1", "RANK": "7", "WORLD_SIZE": "99", **more}
    bash = shutil.which("bash") or "bash"
    return subprocess.Popen([bash, str(path)], env=env, cwd=root, stderr=subprocess.PIPE, text=True)


def read_recorded(root: Path) -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_text()) for path in sorted((root / "records").iterdir())}


def test_several_cards(torch_environment: Path, tmp_path: Path) -> None:
    """Four processes connect despite stale rank variables, and each receives the recipe's options and mine."""
    wish = TrainRequest(
        model="qwen-7b",
        method="lora",
        framework="llamafactory",
        variant="zero2",
        port=find_free_port(),
        settings=("seed=7",),
    )
    command = make_command(tmp_path, torch_environment, wish)
    with start_script(tmp_path, command, RUN_DIR=str(tmp_path / "run")) as child:
        _, err = child.communicate(timeout=300)
    found = read_recorded(tmp_path)

    assert child.returncode == 0, err
    assert list(found) == ["rank0", "rank1", "rank2", "rank3"]
    assert {(each["world"], each["sum"], each["cards"]) for each in found.values()} == {(4, 10.0, "0,1,2,3")}
    assert all(each["argv"] == found["rank0"]["argv"] for each in found.values())
    assert found["rank0"]["argv"][-2:] == ["--seed", "7"]
    assert f"{tmp_path}/run/output" in found["rank0"]["argv"]


def test_several_nodes(torch_environment: Path, tmp_path: Path) -> None:
    """Two nodes with two cards each, started by their own scripts with their own ranks, form one job of four."""
    address, port = find_own_address(), find_free_port()
    wish = TrainRequest(
        model="qwen-7b", method="lora", framework="llamafactory", variant="ddp", cards=2, nnodes=2, port=port
    )
    command = make_command(tmp_path, torch_environment, wish)
    nodes = [
        start_script(tmp_path, command, NODE_RANK=str(rank), MASTER_ADDR=address, RUN_DIR=str(tmp_path / f"run{rank}"))
        for rank in (0, 1)
    ]
    try:
        ended = [(node.communicate(timeout=300)[1], node.returncode) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    found = read_recorded(tmp_path)

    assert [code for _, code in ended] == [0, 0], ended
    assert {(each["world"], each["sum"]) for each in found.values()} == {(4, 10.0)}
    assert f"{tmp_path}/run1/output" in found["rank2"]["argv"]

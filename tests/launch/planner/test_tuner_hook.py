"""launch/planner/tuner_hook.py under paddle's real auto tuner, which prunes by what it prints."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HOOK = ROOT / "launch" / "planner" / "tuner_hook.py"

# What paddle.distributed.launch --auto_tuner_json does with the file: the tuner's own class, asked for every task.
ASK = """
import json, sys
from paddle.distributed.auto_tuner.tuner import AutoTuner
kept = []
for path in sys.argv[1:]:
    tuner = AutoTuner(json.load(open(path)))
    kept.append([(t["mp_degree"], t["pp_degree"], t["estimated_memory_usage"]) for t in tuner.algo.all_tasks])
print(json.dumps(kept))
"""
MODEL = {"hidden_size": 4096, "num_attention_heads": 32, "num_layers": 32, "max_sequence_length": 4096,
         "vocab_size": 32000, "intermediate_size": 11008, "global_batch_size": 8}  # fmt: skip


def tuner_config(limit_gib: int) -> dict[str, object]:
    return {
        "task_limit": 100, "metric_cfg": {"name": "interval_samples_per_second", "OptimizationDirection": "Maximize"},
        "model_cfg": MODEL, "memory_estimation_tool": str(HOOK), "max_mem_usage": limit_gib,
        "nodes": 1, "gpus_per_node": 8, "num_gpus": 8, "dp_degree": [1], "mp_degree": [1, 2, 8], "pp_degree": [1, 4],
        "vpp_degree": [1], "micro_batch_size": [1], "sharding_degree": [1], "sharding_stage": [1],
        "use_recompute": [True], "recompute_granularity": ["full"],
    }  # fmt: skip


def test_paddles_tuner_prunes_by_it(paddle_environment: Path, tmp_path: Path) -> None:
    """Candidates that need more than max_mem_usage are gone from the tuner's tasks, all others stay."""
    limits = (18, 1000)
    files = [tmp_path / f"{limit}.json" for limit in limits]
    for limit, file in zip(limits, files, strict=True):
        file.write_text(json.dumps(tuner_config(limit)))
    python = paddle_environment / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", ASK, *map(str, files)],
        env={**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    pruned, every = json.loads(done.stdout.splitlines()[-1])

    assert pruned == [task for task in every if task[2] <= 18 * 1024]
    assert 0 < len(pruned) < len(every)


@pytest.fixture(scope="session")
def pandas(paddle_home: Path) -> Path:
    """A folder with pandas, which the launcher's tuner imports and paddle does not bring; kept between runs."""
    place = paddle_home / "pandas"
    if not place.exists():
        python = paddle_home / "environments" / "tiny-cpu" / "bin" / "python"
        fresh = tempfile.mkdtemp(dir=paddle_home)
        names = ("pandas>=2,<3", "python-dateutil", "six", "pytz", "tzdata")  # not numpy: the environment has its own
        argv = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--target", fresh, *names]
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300)
        with contextlib.suppress(OSError):  # another test run was first
            Path(fresh).rename(place)
    return place


def test_the_launcher_prunes_by_it(paddle_environment: Path, pandas: Path, tmp_path: Path) -> None:
    """paddle.distributed.launch --auto_tuner_json starts those candidates alone that the hook holds below the limit."""
    (tmp_path / "train.py").write_text("print('interval_samples_per_second: 2.5', flush=True)\n")
    options = {name: [f"--{name}", "1"] for name in ("mp_degree", "pp_degree")}
    config = {**tuner_config(18), "pp_degree": [1, 4, 8], "run_cmd": options, "max_time_per_task": 20}
    (tmp_path / "tune.json").write_text(json.dumps(config))
    python = paddle_environment / "bin" / "python"
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    argv = ["-m", "paddle.distributed.launch", "--auto_tuner_json", "tune.json", "--nproc_per_node", "1", "train.py"]
    argv += [word for option in options.values() for word in option]
    subprocess.run(
        [str(python), *argv], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(pandas)},
    )  # fmt: skip
    log = (tmp_path / "tune_auto_tuner.log").read_text()
    started = [folder.name.split("_")[3:5] for folder in tmp_path.glob("Job*")]

    assert "2 tasks are pruned before launching." in log
    assert started == [["MP8", "PP1"]], log


def test_it_prints_mib_of_the_named_model() -> None:
    """ENVCHECK_MODEL makes experts and heads known: 300B on 96 cards is over 64 GiB, on 128 not."""
    argv = ["--dp_degree", "1", "--mp_degree", "8", "--vpp_degree", "1", "--sharding_degree", "1", "--sharding_stage",
            "1", "--micro_batch_size", "1", "--use_recompute", "True", "--recompute_granularity", "full"]  # fmt: skip
    said = [
        subprocess.run(
            [sys.executable, str(HOOK), *argv, "--pp_degree", pp],
            env={**os.environ, "ENVCHECK_MODEL": "300b"}, capture_output=True, text=True, check=True,
        )
        for pp in ("12", "16")
    ]  # fmt: skip
    mib = [int(done.stdout) for done in said]

    assert mib[0] > 61 * 1024 > mib[1]

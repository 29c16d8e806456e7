"""The memory estimate that paddle's auto tuner asks for, as its `"memory_estimation_tool": ".../tuner_hook.py"`.

The tuner runs this file with the `python` on its path, which need not have envcheck installed, and compares the MiB
printed with its `max_mem_usage`.  It tells the model's sizes but not its experts or key/value heads: name the model in
ENVCHECK_MODEL, the device in ENVCHECK_DEVICE, lora in ENVCHECK_METHOD.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":  # run as a file: the packages lie beside its folder; its own modules are no top-level names
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from launch.catalogue import devices, frameworks, models
from launch.catalogue.architecture import Model
from launch.memory import GIB
from launch.memory.job import Adapter, Layout, PlannedJob, Precision, Recompute
from launch.planner import verdict

MIB_IN_GIB = 1024
SIZES = ("hidden_size", "num_attention_heads", "num_layers", "max_sequence_length", "vocab_size", "intermediate_size")
DEGREES = ("dp_degree", "mp_degree", "pp_degree", "vpp_degree", "sharding_degree", "sharding_stage", "micro_batch_size")


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__)
    for name in DEGREES:
        ask.add_argument(f"--{name}", type=int, required=True)
    ask.add_argument("--use_recompute", default="None")
    ask.add_argument("--recompute_granularity", default="None")
    for name in SIZES:
        ask.add_argument(f"--{name}", type=int)
    return ask.parse_args(argv)


def model(said: argparse.Namespace, environment: Mapping[str, str]) -> Model:
    """The named model, else a dense one of the sizes that the tuner tells."""
    if environment.get("ENVCHECK_MODEL"):
        return models.find(environment["ENVCHECK_MODEL"])
    missing = [f"--{name}" for name in SIZES if getattr(said, name) is None and name != "intermediate_size"]
    if missing:
        raise SystemExit(f"no {', '.join(missing)} in the tuner's model_cfg; or name the model in ENVCHECK_MODEL")
    hidden, heads = said.hidden_size, said.num_attention_heads
    return Model(
        name="model_cfg",
        layers=said.num_layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=said.intermediate_size or 4 * hidden,
        vocab=said.vocab_size,
    )


def job(said: argparse.Namespace, environment: Mapping[str, str]) -> PlannedJob:
    """The tuner's candidate; full recompute unless it keeps attention (core_attn)."""
    shape = model(said, environment)
    f = frameworks.frameworks()["paddle"]
    named = environment.get("ENVCHECK_DEVICE")
    device = devices.of_vendor(named) if named else devices.devices()[0]
    recomputes = said.use_recompute == "True"
    kind = "selective" if said.recompute_granularity == "core_attn" else "full"
    scheme = ("none", "dist_opt", "zero2", "zero3")[min(said.sharding_stage, 3)] if said.sharding_degree > 1 else "none"
    cards = said.dp_degree * said.sharding_degree * said.mp_degree * said.pp_degree
    lora = environment.get("ENVCHECK_METHOD") == "lora"
    return PlannedJob(
        model=shape,
        framework=f,
        device=device,
        memory_gib=device.memory_gib,
        layout=Layout(said.mp_degree, said.pp_degree, max(1, said.vpp_degree), cards=cards),
        method="lora" if lora else "full",
        adapter=Adapter(32) if lora else Adapter(),
        precision=Precision(2, f.gradient, 4, 8),
        sharding=scheme,
        recompute=Recompute(kind if recomputes else "none"),
        seq_len=said.max_sequence_length or 8192,
        micro_batch=said.micro_batch_size,
        sequence_parallel=said.mp_degree > 1,
        fused_loss=True,
        meter="reserved",
    )


def main(argv: Sequence[str]) -> int:
    """Print MiB of the card that needs most."""
    answer = verdict.answer(job(parsed(argv), os.environ))
    print(round(answer.shown.total / GIB * MIB_IN_GIB))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

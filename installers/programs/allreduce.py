"""Started once per process by the framework's launcher: adds up vectors across processes, writes down the sums.

Usage: allreduce.py KIT TYPE MODULE BACKEND FOLDER SEED, KIT paddle or torch; MODULE registers the devices with torch
("": torch has them), BACKEND is that of torch's collectives.  Judges nothing: envcheck compares FOLDER/rank-N.json with
the values that it computes itself.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

Answer = tuple[int, int, list[float], float]  # rank, world, sums, a half


def by_paddle(kind: str, module: str, backend: str, seed: int) -> Answer:
    import paddle
    import paddle.distributed as dist

    if kind not in ("cpu", "gpu"):
        number = f"FLAGS_selected_{kind}s"
        paddle.set_device(f"{kind}:{os.environ[number]}")
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = paddle.to_tensor(vector(rank, seed))
    dist.all_reduce(mine)
    half = float(paddle.to_tensor([1.5]))  # numpy 2.4 made this an error, and every training script does it
    return rank, world, mine.numpy().tolist(), half


def by_torch(kind: str, module: str, backend: str, seed: int) -> Answer:
    import torch
    import torch.distributed as dist

    if module:
        importlib.import_module(module)
    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    place = kind if kind == "cpu" else f"{kind}:{os.environ['LOCAL_RANK']}"
    mine = torch.tensor(vector(rank, seed), device=place)
    dist.all_reduce(mine)
    return rank, world, mine.cpu().tolist(), float(torch.tensor([1.5], device=place))


def vector(rank: int, seed: int) -> list[float]:
    return [float((rank + 1) * (seed + i)) for i in range(64)]


def main(kit: str, kind: str, module: str, backend: str, folder: str, seed: str) -> None:
    rank, world, sums, half = {"paddle": by_paddle, "torch": by_torch}[kit](kind, module, backend, int(seed))
    path = os.path.join(folder, f"rank-{rank}.json")  # noqa: PTH118
    with open(path + ".new", "w") as file:  # noqa: PTH123
        json.dump({"rank": rank, "world": world, "seed": int(seed), "sums": sums, "half": half}, file)
    os.replace(path + ".new", path)  # noqa: PTH105


if __name__ == "__main__":
    main(*sys.argv[1:7])

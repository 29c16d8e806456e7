"""Started once per process by paddle.distributed.launch: adds up vectors across processes, writes down the sums.

Usage: allreduce.py FOLDER SEED.  Judges nothing: envcheck compares FOLDER/rank-N.json with the values that it
computes itself.  Needs paddle only.
"""

from __future__ import annotations

import json
import os
import sys

import numpy
import paddle
import paddle.distributed as dist


def main(folder: str, seed: int) -> None:
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = paddle.to_tensor([float((rank + 1) * (seed + i)) for i in range(64)])
    dist.all_reduce(mine)
    one = paddle.to_tensor([1.5])
    said = {
        "rank": rank,
        "world": world,
        "seed": seed,
        "sums": mine.numpy().tolist(),
        "half": float(one),  # numpy 2.4 made this an error, and every training script does it
        "paddle": paddle.__version__,
        "numpy": numpy.__version__,
    }
    path = os.path.join(folder, f"rank-{rank}.json")  # noqa: PTH118
    with open(path + ".new", "w") as file:  # noqa: PTH123
        json.dump(said, file)
    os.replace(path + ".new", path)  # noqa: PTH105


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

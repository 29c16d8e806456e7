"""Fit a straight line in the processes started by torchrun, logging steps like transformers; for tests."""

import argparse
import os
import sys
import time
import traceback

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--fails", type=int, default=-1, help="this rank fails at its third step")
parser.add_argument("--bare", action="store_true", help="its last words do not say the rank")
parser.add_argument("--output")
asked = parser.parse_args()
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank)])
dist.all_reduce(total)
print(f"rank {rank} of {world}: the sum of the ranks is {total.item():g}", flush=True)

torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimiser = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1, asked.steps + 1):
    x = torch.randn(32, 8)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if rank == asked.fails and step == 3:
        try:
            raise ValueError("this rank has had enough")
        except ValueError:
            if asked.bare:
                traceback.print_exc()
            else:
                sys.excepthook(*sys.exc_info())  # torch's own: it says the rank
            sys.stderr.flush()
            os._exit(1)  # gloo's threads may abort an interpreter that unwinds: a code of chance
    if rank == 0:
        print({"loss": round(loss.item(), 4), "grad_norm": 1.0, "learning_rate": 0.1, "step": step}, flush=True)
    time.sleep(0.05)
dist.destroy_process_group()

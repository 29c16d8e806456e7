"""Train a tiny model on a text, in any number of processes, or chat with it; needs paddle (3.1 or newer) and numpy.

    python -m paddle.distributed.launch --nproc_per_node 2 tiny.py --device cpu --output OUT
    python tiny.py --device cpu --chat OUT/checkpoint-50

Rank 0 prints one JSON object per line: {"step", "loss", "tokens_per_s", "memory_mib"} for each step, {"event", ...}
otherwise.  Errors are printed to standard error, with exit status 1.  The program avoids `float(tensor)`, which fails
with paddle 3.1 and numpy 2.4.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy
import paddle
import paddle.distributed as dist
import tiny_chat  # type: ignore[import-not-found, unused-ignore]  # in the same folder when run by path
from tiny_model import Decoder, TinyModelShape  # type: ignore[import-not-found, unused-ignore]  # in the same folder when run by path


class TinyError(Exception):
    """A problem that the user can fix, described in one sentence."""


def main() -> None:
    """Train or chat, as the command line requests."""
    asked = parse_options()
    try:
        chat_with_checkpoint(asked) if asked.chat else train_model(asked)
    except (TinyError, OSError) as err:
        sys.exit(f"tiny: {err}")


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="Paddle device name: cpu, gpu, npu, ...")
    parser.add_argument("--method", choices=("lora", "sft"), default="lora")
    parser.add_argument("--data", type=Path, default=Path(__file__).with_name("tiny.txt"))
    parser.add_argument("--output", type=Path, help="Folder for the checkpoint-N folders.")
    parser.add_argument("--resume", type=Path, help="Start from the weights in this folder.")
    parser.add_argument("--chat", type=Path, help="Do not train; chat with the weights in this folder.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--save-every", type=int, default=25, help="0: only at the end.")
    parser.add_argument("--batch", type=int, default=8, help="Sequences per process and step.")
    parser.add_argument("--seq", type=int, default=64, help="Tokens per sequence.")
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if min(asked.steps, asked.batch, asked.seq) < 1:
        parser.error("--steps, --batch and --seq must be at least 1")
    if not asked.output and not asked.chat:
        parser.error("--output or --chat is required")
    return asked


def train_model(asked: argparse.Namespace) -> None:
    """Train, verify that all ranks have equal parameters, and save the last checkpoint."""
    rank, world = int(os.environ.get("PADDLE_TRAINER_ID", 0)), int(os.environ.get("PADDLE_TRAINERS_NUM", 1))
    tokens = read_share(asked.data, rank, world, asked.seq)
    choose_device(asked.device)
    if world > 1:
        dist.init_parallel_env()
        prove_all_reduce(rank, world)
    paddle.seed(asked.seed)
    model = Decoder(TinyModelShape(), asked.method == "lora")
    if asked.resume:
        load_checkpoint(model, asked)
    learners = [p for p in model.parameters() if not p.stop_gradient]
    broadcast_parameters(list(model.parameters()), world)
    print_record(
        rank,
        event="ready",
        ranks=world,
        parameters=count_parameters(model.parameters()),
        trained=count_parameters(learners),
    )
    run_steps(asked, model, learners, draw_batches(tokens, asked, rank), rank, world)
    prove_equal(learners, world)
    if rank == 0:
        saved = save_checkpoint(model, asked, asked.steps)
        print_record(rank, event="done", ranks=world, equal=True, checkpoint=str(saved), loss_of="mean over ranks")


def chat_with_checkpoint(asked: argparse.Namespace) -> None:
    """Chat with a checkpoint; the base weights are recreated from its method and seed."""
    said = read_checkpoint_info(asked.chat)
    asked.resume, asked.method, asked.seed = asked.chat, said["method"], said["seed"]
    choose_device(asked.device)
    paddle.seed(asked.seed)
    model = Decoder(TinyModelShape(), asked.method == "lora")
    load_checkpoint(model, asked)
    tiny_chat.run_dialogue(model)


def run_steps(
    asked: argparse.Namespace,
    model: Decoder,
    learners: list[paddle.Tensor],
    data: Iterator[numpy.ndarray],
    rank: int,
    world: int,
) -> None:
    """Train for the requested steps and save checkpoints in between."""
    rate = paddle.optimizer.lr.LinearWarmup(asked.rate, max(1, asked.steps // 10), asked.rate / 10, asked.rate)
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimiser = paddle.optimizer.AdamW(rate, parameters=learners, weight_decay=0.01, grad_clip=clip)
    for step in range(1, asked.steps + 1):
        began = time.monotonic()
        said, balance = model.loss(paddle.to_tensor(next(data)))
        (said + 0.01 * balance).backward()
        loss = average_gradients(learners, said, world)
        if loss != loss:
            raise TinyError(f"the loss is NaN at step {step}")
        optimiser.step()
        optimiser.clear_grad()
        rate.step()
        speed = asked.batch * asked.seq * world / (time.monotonic() - began)
        print_record(
            rank, step=step, loss=round(loss, 4), tokens_per_s=round(speed), memory_mib=memory_mib(asked.device)
        )
        if rank == 0 and asked.save_every and step % asked.save_every == 0 and step < asked.steps:
            print_record(rank, event="saved", checkpoint=str(save_checkpoint(model, asked, step)))


# ---- data


def read_share(path: Path, rank: int, world: int, length: int) -> numpy.ndarray:
    """Return this rank's lines as byte values (int64); TinyError if they are not UTF-8 or too short."""
    lines = path.read_bytes().splitlines(keepends=True)
    part = b"".join(lines[len(lines) * rank // world : len(lines) * (rank + 1) // world])
    try:
        part.decode("utf-8")
    except UnicodeDecodeError as err:
        raise TinyError(f"rank {rank}: {path}: not valid UTF-8 at byte {err.start} of this rank's share") from None
    if len(part) < length + 2:
        raise TinyError(f"rank {rank}: {path}: this rank's share has {len(part)} bytes; a sequence needs {length + 2}")
    return numpy.frombuffer(part, dtype="uint8").astype("int64")


def draw_batches(tokens: numpy.ndarray, asked: argparse.Namespace, rank: int) -> Iterator[numpy.ndarray]:
    """Yield random batches of shape [batch, seq + 1]."""
    chance = numpy.random.default_rng([asked.seed, rank])
    while True:
        begins = chance.integers(0, len(tokens) - asked.seq, asked.batch)
        yield numpy.stack([tokens[at : at + asked.seq + 1] for at in begins])


# ---- devices and processes


def choose_device(device: str) -> None:
    """Select this process's device: launchers set its logical number in FLAGS_selected_npus or similar variables."""
    if device == "cpu":
        paddle.set_device("cpu")
        return
    built_in = {"gpu": paddle.is_compiled_with_cuda(), "xpu": paddle.is_compiled_with_xpu()}
    known = [*paddle.device.get_all_custom_device_type(), *(kind for kind, built in built_in.items() if built)]
    if device not in known:
        raise TinyError(f"paddle {paddle.__version__} does not support device {device}; install its plugin or build")
    paddle.set_device(device)


def prove_all_reduce(rank: int, world: int) -> None:
    """Verify that all-reduce adds up: a backend that does nothing would let the ranks diverge."""
    numbers = paddle.to_tensor([rank + 1.0, 1.0])
    dist.all_reduce(numbers)
    total, ranks = numbers.numpy().tolist()
    if (total, ranks) != (world * (world + 1) / 2, world):
        raise TinyError(
            f"rank {rank}: all-reduce over {world} ranks returned {total:g}; expected {world * (world + 1) / 2:g}"
        )


def broadcast_parameters(parameters: list[paddle.Tensor], world: int) -> None:
    """Copy the parameters of rank 0 to all ranks."""
    if world > 1:
        for one in parameters:
            dist.broadcast(one, 0)


def average_gradients(learners: list[paddle.Tensor], loss: paddle.Tensor, world: int) -> float:
    """Average all gradients and the loss over the ranks in one all-reduce; return the mean loss."""
    if world == 1:
        return loss.item()  # type: ignore[no-any-return]
    flat = flatten_tensors([p.grad for p in learners] + [loss.detach()])
    dist.all_reduce(flat)
    flat = flat / world
    at = 0
    for one in learners:
        size = one.size
        one.grad.set_value(flat[at : at + size].reshape(one.shape))
        at += size
    return flat[at].item()  # type: ignore[no-any-return]


def flatten_tensors(tensors: list[paddle.Tensor]) -> paddle.Tensor:
    """Return one flat tensor on the device; without a concat kernel a plugin leaves the result on the CPU (tested)."""
    return paddle.concat([t.reshape([-1]) for t in tensors]).to(paddle.get_device())


def prove_equal(learners: list[paddle.Tensor], world: int) -> None:
    """Verify that the parameters of all ranks are bitwise equal."""
    if world == 1:
        return
    highest = flatten_tensors([p.detach() for p in learners])
    lowest = highest.clone()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
    apart = (highest - lowest).abs().max().item()
    if apart != 0:
        raise TinyError(f"the ranks' parameters differ by up to {apart:g} after training")


def memory_mib(device: str) -> int:
    """Return the peak device memory in MiB if paddle reports it, else this process's peak on the host."""
    asked = {"cpu": None, "gpu": paddle.device.cuda.max_memory_reserved}
    ask = asked.get(device, getattr(paddle.device, "max_memory_reserved", None))
    try:
        return ask() >> 20 if ask else host_mib()
    except (ValueError, RuntimeError, AttributeError, OSError):  # not every plugin has memory statistics
        return host_mib()


def host_mib() -> int:
    """Return the peak host memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


# ---- checkpoints and output


def list_trained_parameters(model: Decoder) -> dict[str, paddle.Tensor]:
    """Return the parameters that are not frozen, by name."""
    return {name: p for name, p in model.named_parameters() if not p.stop_gradient}


def describe_run(asked: argparse.Namespace) -> dict[str, object]:
    """Return what must be equal for weights to fit; with LoRA the frozen base is recreated from the seed."""
    return {"method": asked.method, "seed": asked.seed, "shape": dataclasses.asdict(TinyModelShape())}


def save_checkpoint(model: Decoder, asked: argparse.Namespace, step: int) -> Path:
    """Save the trained parameters as checkpoint-STEP/weights.npz, atomically; return the folder."""
    final: Path = asked.output / f"checkpoint-{step}"
    fresh: Path = asked.output / f".checkpoint-{step}.{os.getpid()}"
    try:
        fresh.mkdir(parents=True)
        numpy.savez(fresh / "weights.npz", **{name: p.numpy() for name, p in list_trained_parameters(model).items()})
        (fresh / "about.json").write_text(json.dumps({"step": step, **describe_run(asked)}, indent=1))
        fresh.rename(final)
    except OSError as err:
        shutil.rmtree(fresh, ignore_errors=True)
        raise TinyError(f"cannot write {final}: {err.strerror or err}") from None
    return final


def read_checkpoint_info(folder: Path) -> dict[str, object]:
    """Return the contents of a checkpoint's about.json; TinyError if it is invalid."""
    try:
        with (folder / "about.json").open("rb") as file:
            said = json.loads(file.read(1 << 16))
        if said["method"] in ("lora", "sft") and isinstance(said["seed"], int) and abs(said["seed"]) < 1 << 31:
            return dict(said)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as err:
        raise TinyError(f"{folder} is not a checkpoint of this program: {err}") from None
    raise TinyError(f"{folder} is not a checkpoint of this program: no valid method or seed in about.json")


def load_checkpoint(model: Decoder, asked: argparse.Namespace) -> None:
    """Load weights saved by `save_checkpoint`, without pickle, so that a checkpoint cannot execute code."""
    folder: Path = asked.resume
    try:
        said = json.loads((folder / "about.json").read_text())
        if {**said, **describe_run(asked)} != said:
            raise TinyError(f"{folder} has another method, seed or shape: {said}")
        with numpy.load(folder / "weights.npz", allow_pickle=False) as kept:
            for name, p in list_trained_parameters(model).items():
                p.set_value(kept[name])
    except (OSError, ValueError, KeyError, TypeError, EOFError) as err:
        raise TinyError(f"{folder} is not a checkpoint of this program: {err}") from None


def count_parameters(parameters: list[paddle.Tensor]) -> int:
    """Return the total number of values."""
    return int(sum(p.size for p in parameters))


def print_record(rank: int, **words: object) -> None:
    """Print a JSON object on rank 0."""
    if rank == 0:
        print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()

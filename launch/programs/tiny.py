"""Train the tiny model on a text, in as many processes as the launcher starts; needs paddle (3.1 or newer) and numpy.

    python -m paddle.distributed.launch --nproc_per_node 2 tiny.py --device cpu --output OUT
    python tiny.py --device cpu --chat OUT/checkpoint-50        goes on with what is typed

Rank 0 prints one JSON object a line: {"step", "loss", "tokens_per_s", "memory_mib"} for each step, {"event", ...} for
the rest.  All ranks stop with a sentence on standard error and status 1 when something is wrong; `float(tensor)` is
avoided throughout, since paddle 3.1 and numpy 2.4 do not agree on it.
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
import tiny_chat  # type: ignore[import-not-found, unused-ignore]  # beside us when run by path
from tiny_model import Decoder, Shape  # type: ignore[import-not-found, unused-ignore]  # beside us when run by path


class TinyError(Exception):
    """Something that a person can mend, in one sentence."""


def main() -> None:
    asked = options()
    try:
        chat(asked) if asked.chat else train(asked)
    except (TinyError, OSError) as err:
        sys.exit(f"tiny: {err}")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="as paddle names it: cpu, gpu, npu ...")
    parser.add_argument("--method", choices=("lora", "sft"), default="lora")
    parser.add_argument("--data", type=Path, default=Path(__file__).with_name("tiny.txt"))
    parser.add_argument("--output", type=Path, help="a folder for checkpoint-N folders")
    parser.add_argument("--resume", type=Path, help="begin with the weights of such a folder")
    parser.add_argument("--chat", type=Path, help="train nothing, talk with the weights of such a folder")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--save-every", type=int, default=25, help="0: at the end alone")
    parser.add_argument("--batch", type=int, default=8, help="sequences for each process and step")
    parser.add_argument("--seq", type=int, default=64, help="tokens of a sequence")
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if min(asked.steps, asked.batch, asked.seq) < 1:
        parser.error("--steps, --batch and --seq must be at least 1")
    if not asked.output and not asked.chat:
        parser.error("--output or --chat is wanted")
    return asked


def train(asked: argparse.Namespace) -> None:
    rank, world = int(os.environ.get("PADDLE_TRAINER_ID", 0)), int(os.environ.get("PADDLE_TRAINERS_NUM", 1))
    tokens = share(asked.data, rank, world, asked.seq)
    choose(asked.device)
    if world > 1:
        dist.init_parallel_env()
        prove_all_reduce(rank, world)
    paddle.seed(asked.seed)
    model = Decoder(Shape(), asked.method == "lora")
    if asked.resume:
        load(model, asked)
    learners = [p for p in model.parameters() if not p.stop_gradient]
    even_out(list(model.parameters()), world)
    tell(rank, event="ready", ranks=world, parameters=count(model.parameters()), trained=count(learners))
    steps(asked, model, learners, batches(tokens, asked, rank), rank, world)
    prove_equal(learners, world)
    if rank == 0:
        saved = save(model, asked, asked.steps)
        tell(rank, event="done", ranks=world, equal=True, checkpoint=str(saved), loss_of="mean over ranks")


def chat(asked: argparse.Namespace) -> None:
    """Method and seed are the checkpoint's own: its base is made anew from them."""
    said = known(asked.chat)
    asked.resume, asked.method, asked.seed = asked.chat, said["method"], said["seed"]
    choose(asked.device)
    paddle.seed(asked.seed)
    model = Decoder(Shape(), asked.method == "lora")
    load(model, asked)
    tiny_chat.talk(model)


def steps(
    asked: argparse.Namespace,
    model: Decoder,
    learners: list[paddle.Tensor],
    data: Iterator[numpy.ndarray],
    rank: int,
    world: int,
) -> None:
    rate = paddle.optimizer.lr.LinearWarmup(asked.rate, max(1, asked.steps // 10), asked.rate / 10, asked.rate)
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimiser = paddle.optimizer.AdamW(rate, parameters=learners, weight_decay=0.01, grad_clip=clip)
    for step in range(1, asked.steps + 1):
        began = time.monotonic()
        said, balance = model.loss(paddle.to_tensor(next(data)))
        (said + 0.01 * balance).backward()
        loss = average_gradients(learners, said, world)
        if loss != loss:
            raise TinyError(f"the loss is no number at step {step}")
        optimiser.step()
        optimiser.clear_grad()
        rate.step()
        speed = asked.batch * asked.seq * world / (time.monotonic() - began)
        tell(rank, step=step, loss=round(loss, 4), tokens_per_s=round(speed), memory_mib=memory_mib(asked.device))
        if rank == 0 and asked.save_every and step % asked.save_every == 0 and step < asked.steps:
            tell(rank, event="saved", checkpoint=str(save(model, asked, step)))


# ---- data


def share(path: Path, rank: int, world: int, length: int) -> numpy.ndarray:
    """This rank's lines of the text, as bytes; refused when they are no UTF-8 text or shorter than one sequence."""
    lines = path.read_bytes().splitlines(keepends=True)
    part = b"".join(lines[len(lines) * rank // world : len(lines) * (rank + 1) // world])
    try:
        part.decode("utf-8")
    except UnicodeDecodeError as err:
        raise TinyError(f"rank {rank}: {path}: byte {err.start} of this rank's share is not UTF-8 text") from None
    if len(part) < length + 2:
        raise TinyError(f"rank {rank}: {path}: {len(part)} bytes for this rank, a sequence needs {length + 2}")
    return numpy.frombuffer(part, dtype="uint8").astype("int64")


def batches(tokens: numpy.ndarray, asked: argparse.Namespace, rank: int) -> Iterator[numpy.ndarray]:
    chance = numpy.random.default_rng([asked.seed, rank])
    while True:
        begins = chance.integers(0, len(tokens) - asked.seq, asked.batch)
        yield numpy.stack([tokens[at : at + asked.seq + 1] for at in begins])


# ---- devices and processes


def choose(device: str) -> None:
    """The launcher names this process's device in FLAGS_selected_npus and its cousins, by logical number."""
    if device == "cpu":
        paddle.set_device("cpu")
        return
    known = paddle.device.get_all_custom_device_type() + (["gpu"] if paddle.is_compiled_with_cuda() else [])
    if device not in known:
        raise TinyError(f"this paddle {paddle.__version__} knows no device {device}: is its plugin installed?")
    number = os.environ.get(f"FLAGS_selected_{device}s", "0").split(",")[0]
    paddle.set_device(f"{device}:{number}")


def prove_all_reduce(rank: int, world: int) -> None:
    """A backend that returns without adding up is caught here, before it trains ranks apart."""
    numbers = paddle.to_tensor([rank + 1.0, 1.0])
    dist.all_reduce(numbers)
    total, ranks = numbers.numpy().tolist()
    if (total, ranks) != (world * (world + 1) / 2, world):
        raise TinyError(
            f"rank {rank}: all-reduce over {world} ranks answered {total:g}, not {world * (world + 1) / 2:g}"
        )


def even_out(parameters: list[paddle.Tensor], world: int) -> None:
    if world > 1:
        for one in parameters:
            dist.broadcast(one, 0)


def average_gradients(learners: list[paddle.Tensor], loss: paddle.Tensor, world: int) -> float:
    """One all-reduce for all gradients and, as the last number of the same buffer, the loss."""
    if world == 1:
        return loss.item()  # type: ignore[no-any-return]
    flat = joined([p.grad for p in learners] + [loss.detach()])
    dist.all_reduce(flat)
    flat = flat / world
    at = 0
    for one in learners:
        size = one.size
        one.grad.set_value(flat[at : at + size].reshape(one.shape))
        at += size
    return flat[at].item()  # type: ignore[no-any-return]


def joined(tensors: list[paddle.Tensor]) -> paddle.Tensor:
    """One long tensor, on the device: a plugin without a kernel for concat leaves it on the CPU (tried)."""
    return paddle.concat([t.reshape([-1]) for t in tensors]).to(paddle.get_device())


def prove_equal(learners: list[paddle.Tensor], world: int) -> None:
    """To the last bit: ranks that drift apart by rounding do not stay ranks of one model."""
    if world == 1:
        return
    highest = joined([p.detach() for p in learners])
    lowest = highest.clone()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
    apart = (highest - lowest).abs().max().item()
    if apart != 0:
        raise TinyError(f"the ranks' parameters differ by up to {apart:g} after training")


def memory_mib(device: str) -> int:
    """Peak device memory where paddle tells it, else this process's peak on the host."""
    asked = {"cpu": None, "gpu": paddle.device.cuda.max_memory_reserved}
    ask = asked.get(device, getattr(paddle.device, "max_memory_reserved", None))
    try:
        return ask() >> 20 if ask else host_mib()
    except (ValueError, RuntimeError, AttributeError, OSError):  # a plugin need not have the memory statistics
        return host_mib()


def host_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


# ---- checkpoints and words


def learned(model: Decoder) -> dict[str, paddle.Tensor]:
    return {name: p for name, p in model.named_parameters() if not p.stop_gradient}


def about(asked: argparse.Namespace) -> dict[str, object]:
    """What must be the same for weights to fit; under LoRA the frozen base is made anew from the seed."""
    return {"method": asked.method, "seed": asked.seed, "shape": dataclasses.asdict(Shape())}


def save(model: Decoder, asked: argparse.Namespace, step: int) -> Path:
    """What was trained, as checkpoint-STEP/weights.npz; whole or not there: written beside, then renamed."""
    final: Path = asked.output / f"checkpoint-{step}"
    fresh: Path = asked.output / f".checkpoint-{step}.{os.getpid()}"
    try:
        fresh.mkdir(parents=True)
        numpy.savez(fresh / "weights.npz", **{name: p.numpy() for name, p in learned(model).items()})
        (fresh / "about.json").write_text(json.dumps({"step": step, **about(asked)}, indent=1))
        fresh.rename(final)
    except OSError as err:
        shutil.rmtree(fresh, ignore_errors=True)
        raise TinyError(f"cannot write {final}: {err.strerror or err}") from None
    return final


def known(folder: Path) -> dict[str, object]:
    """What `save` wrote beside the weights, as far as a model can be made from it."""
    try:
        with (folder / "about.json").open("rb") as file:
            said = json.loads(file.read(1 << 16))
        if said["method"] in ("lora", "sft") and isinstance(said["seed"], int) and abs(said["seed"]) < 1 << 31:
            return dict(said)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as err:
        raise TinyError(f"{folder} is no checkpoint of this program: {err}") from None
    raise TinyError(f"{folder} is no checkpoint of this program: its about.json names no method or seed")


def load(model: Decoder, asked: argparse.Namespace) -> None:
    """Weights of `save`.  numpy's own format without pickle: a checkpoint runs no code."""
    folder: Path = asked.resume
    try:
        said = json.loads((folder / "about.json").read_text())
        if {**said, **about(asked)} != said:
            raise TinyError(f"{folder} is of another method, seed or shape: {said}")
        with numpy.load(folder / "weights.npz", allow_pickle=False) as kept:
            for name, p in learned(model).items():
                p.set_value(kept[name])
    except (OSError, ValueError, KeyError, TypeError, EOFError) as err:
        raise TinyError(f"{folder} is no checkpoint of this program: {err}") from None


def count(parameters: list[paddle.Tensor]) -> int:
    return int(sum(p.size for p in parameters))


def tell(rank: int, **words: object) -> None:
    if rank == 0:
        print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()

"""Tests cards and prints the results; run by the Python that trains, never imported by envcheck.

Usage: program.py REQUEST, a JSON object: `what` is look, cards, peer or allreduce; `kit` paddle or torch; `kind` the
framework's name of the device; for torch, `module` registers it, and `backend` is its collective backend.  Each answer
is a line ENVCHECK {...}; `allreduce`, which the framework's launcher starts once per rank, writes FOLDER/rank-N.json
instead.  Evaluates nothing.  Must run on Python 3.8, and needs only the module of its framework, paddle_kit.py or
torch_kit.py, in the same folder.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

MIB = 1 << 20
CHECKED = 1024  # rows of the product that is compared with the CPU's: 2 GFLOP on the CPU
SUMS = 64  # values of an all-reduce that are written to the answer; all are compared on the card
PATTERNS = (0x55555555, -0x55555556)  # each bit once 1 and once 0; neighbouring blocks differ
# In a container the parent is the engine's helper process, which exits as soon as the command runs; a child with
# PR_SET_PDEATHSIG would be killed with it.  There the target finds the commands to stop by this environment variable.
MARK = "ENVCHECK_TARGET"
Figures = dict[str, Any]


def measure_seconds(kit: Any, deed: Callable[[], Any], budget_s: float, *cards: int) -> float:
    """Return the median time of one call in seconds; the first call, which may compile a kernel, is not counted."""
    deed()
    kit.synchronize(*cards)
    spans: list[float] = []
    end = time.monotonic() + budget_s
    while len(spans) < 3 or (time.monotonic() < end and len(spans) < 1000):
        began = time.monotonic()
        deed()
        kit.synchronize(*cards)
        spans.append(time.monotonic() - began)
    return max(sorted(spans)[len(spans) // 2], 1e-9)


def grow_size(
    kit: Any, make: Callable[[int], Callable[[], Any]], sizes: list[int], budget_s: float, *cards: int
) -> Any:
    """Return (size, function) for the largest size within the budget: each size is tried once, and doubled while it is
    fast."""
    size, largest = sizes
    while True:
        deed = make(size)
        deed()
        kit.synchronize(*cards)
        began = time.monotonic()
        deed()
        kit.synchronize(*cards)
        if size * 2 > largest or (time.monotonic() - began) * 16 > budget_s:
            return size, deed
        size *= 2


def measure_error(kit: Any, actual: Any, expected: Any) -> tuple[float, float]:
    """Return the largest and the root mean square error, relative to the correct values."""
    error = kit.cast(actual, "float32") - expected
    worst = float(error.abs().max()) / float(expected.abs().max())
    return worst, (float((error * error).mean()) / float((expected * expected).mean())) ** 0.5


def check_product(kit: Any, card: int, asked: Figures) -> Figures:
    """Compare the card's product of bf16 values with the CPU's in float32."""
    found: Figures = {"dtype": "bfloat16"}
    a, b = (kit.cast(kit.make_normal(CHECKED, card + seed), "bfloat16") for seed in (1, 1001))
    right = kit.cast(a, "float32") @ kit.cast(b, "float32")
    try:
        seen = kit.copy_to_host(kit.copy_to_device(a, card) @ kit.copy_to_device(b, card))
    except (RuntimeError, TypeError) as err:
        found = {"dtype": "float32", "why": describe_error(err)}
        a, b = kit.cast(a, "float32"), kit.cast(b, "float32")
        seen = kit.copy_to_host(kit.copy_to_device(a, card) @ kit.copy_to_device(b, card))
    found["worst"], found["square"] = measure_error(kit, seen, right)
    return found


def measure_matmul(kit: Any, card: int, asked: Figures) -> Figures:
    """Check a product, then time large ones within the budget; the last result is compared with the first."""
    found = check_product(kit, card, asked)

    def make(rows: int) -> Callable[[], Any]:
        x, y = (kit.copy_to_device(kit.cast(kit.make_normal(rows, seed), found["dtype"]), card) for seed in (3, 4))
        return lambda: x @ y

    rows, deed = grow_size(kit, make, asked["rows"], asked["budget_s"], card)
    first = kit.copy_to_host(deed())
    spent = measure_seconds(kit, deed, asked["budget_s"], card)
    found["drift"] = measure_error(kit, kit.copy_to_host(deed()), kit.cast(first, "float32"))[0]
    return {**found, "rows": rows, "tflops": 2 * rows**3 / spent / 1e12}


def fill_memory(kit: Any, card: int, asked: Figures) -> Figures:
    """Allocate blocks with a pattern until the requested memory is full, then compare all of them."""
    wanted = asked["memory_mib"][str(card)]
    piece = max(1, min(asked["piece_mib"], wanted))
    held: list[Any] = []
    found, end = {"wanted_mib": wanted}, time.monotonic() + 5 * asked["budget_s"]
    try:
        while (len(held) + 1) * piece <= wanted and (not held or time.monotonic() < end):
            held.append(kit.make_full(piece * MIB // 4, PATTERNS[len(held) % 2], "int32"))
            kit.synchronize(card)
    except (RuntimeError, MemoryError) as err:
        found["full"] = describe_error(err)
    good = [bool((each == PATTERNS[n % 2]).all()) for n, each in enumerate(held)]
    return {**found, "mib": len(held) * piece, "wrong": good.count(False), "pieces": len(good)}


def measure_copy(kit: Any, card: int, asked: Figures) -> Figures:
    """Time copies to the card and back, from page-locked memory if the framework supports it."""
    found: Figures = {"pinned": True}

    def host(mib: int) -> Any:
        made = kit.make_ramp(mib * MIB // 4)
        try:
            return kit.pin_memory(made) if found["pinned"] else made
        except (RuntimeError, ValueError, TypeError, AttributeError):
            found["pinned"] = False
            return made

    def make(mib: int) -> Callable[[], Any]:
        tensor = host(mib)
        return lambda: (kit.copy_to_device(tensor, card), tensor)

    mib, deed = grow_size(kit, make, asked["mib"], asked["budget_s"] / 2, card)
    there, tensor = deed()
    back = kit.copy_back(there, tensor)
    found["same"] = bool((kit.copy_to_host(back) == kit.copy_to_host(tensor)).all())
    up = measure_seconds(kit, deed, asked["budget_s"] / 2, card)
    down = measure_seconds(kit, lambda: kit.copy_back(there, tensor), asked["budget_s"] / 2, card)
    return {**found, "mib": mib, "up_gbs": mib * MIB / up / 1e9, "down_gbs": mib * MIB / down / 1e9}


def measure_peer(kit: Any, pair: list[int], asked: Figures) -> Figures:
    """Time a copy from the first card to the second."""
    one, other = pair
    kit.select_device(one)

    def make(mib: int) -> Callable[[], Any]:
        tensor = kit.copy_to_device(kit.make_ramp(mib * MIB // 4), one)
        return lambda: (kit.copy_to_device(tensor, other), tensor)

    mib, deed = grow_size(kit, make, asked["mib"], asked["budget_s"], one, other)
    there, tensor = deed()
    same = bool((kit.copy_to_host(there) == kit.copy_to_host(tensor)).all())
    spent = measure_seconds(kit, deed, asked["budget_s"], one, other)
    return {"mib": mib, "same": same, "gbs": mib * MIB / spent / 1e9}


def check_all_reduce(kit: Any, asked: Figures) -> None:
    """Write this rank's answer: each rank's vector is (rank + 1) x (seed + ramp), so that the sums are known.

    `timed` adds the time of one all-reduce (measure_bandwidth).
    """
    rank, world = kit.join_ranks()
    base = kit.copy_to_device(kit.make_ramp(MIB // 4), kit.index) + float(asked["seed"])
    mine = base * float(rank + 1)
    kit.all_reduce(mine)
    answer = {
        "rank": rank,
        "world": world,
        "seed": asked["seed"],
        "half": float(kit.make_full(1, 1.5, "float32")),  # fails with numpy 2.4, and every training script does it
        "sums": kit.copy_to_host(mine).tolist()[:SUMS],
        "wrong": int((mine != base * (world * (world + 1) / 2)).sum()),
    }
    if asked["timed"]:
        answer.update(measure_bandwidth(kit, asked))
    path = os.path.join(asked["folder"], f"rank-{rank}.json")  # noqa: PTH118
    with open(path + ".new", "w") as file:  # noqa: PTH123
        json.dump(answer, file)
    os.replace(path + ".new", path)  # noqa: PTH105
    kit.leave_ranks()


def measure_bandwidth(kit: Any, asked: Figures) -> Figures:
    """Return the time of one all-reduce of zeros, in the largest size within the budget."""
    size, largest = asked["mib"]
    while True:
        zeros = kit.make_full(size * MIB // 4, 0.0, "float32")
        time_all_reduce(kit, zeros, 1)  # the first call sets up the connections
        spent = time_all_reduce(kit, zeros, 1)
        if size * 2 > largest or spent * 16 > asked["budget_s"]:
            break
        size *= 2
    times = max(3, min(200, int(asked["budget_s"] / max(spent, 1e-6))))
    return {"mib": size, "s": time_all_reduce(kit, zeros, times)}


def time_all_reduce(kit: Any, tensor: Any, times: int) -> float:
    """Return the time of one all-reduce in seconds, averaged over the ranks, so that all ranks make the same
    decision."""
    kit.synchronize(kit.index)
    began = time.monotonic()
    for _ in range(times):
        kit.all_reduce(tensor)
    kit.synchronize(kit.index)
    took = kit.make_full(2, (time.monotonic() - began) / times, "float32")
    ones = kit.make_full(2, 1.0, "float32")
    kit.all_reduce(took)
    kit.all_reduce(ones)
    return float(kit.copy_to_host(took)[0]) / max(float(kit.copy_to_host(ones)[0]), 1.0)


CARD_TESTS: dict[str, Callable[[Any, int, Figures], Figures]] = {
    "product": check_product,
    "matmul": measure_matmul,
    "memory": fill_memory,
    "copy": measure_copy,
}


def plan_tests(kit: Any, asked: Figures) -> Iterator[tuple[str, list[int], Callable[[], Figures]]]:
    """Yield (test, cards, function) for each unit of the request."""
    for unit in asked["units"]:
        if asked["what"] == "peer":
            yield "peer", unit, functools.partial(measure_peer, kit, unit, asked)
            continue
        for name in asked["tests"]:
            yield name, unit, functools.partial(run_on_card, kit, name, unit[0], asked)


def run_on_card(kit: Any, name: str, card: int, asked: Figures) -> Figures:
    """Select the card and run one test on it."""
    kit.select_device(card)
    return CARD_TESTS[name](kit, card, asked)


def print_answer(**answer: Any) -> None:
    """Print an answer in one write, on a new line: the framework may print from other threads."""
    sys.stdout.write("\nENVCHECK " + json.dumps(answer) + "\n")
    sys.stdout.flush()


def describe_error(err: BaseException) -> str:
    """Return an exception in one line: paddle's reason starts with a bracket, after the frames of its own code."""
    lines = [line.strip() for line in str(err).splitlines() if line.strip()] or [""]
    return f"{type(err).__name__}: {next((line for line in lines if line.startswith('(')), lines[-1])}"[:200]


def main(asked: Figures) -> None:
    """Run the request and print its answers; exits if the framework does not start in `start_s` seconds, or a test
    hangs."""
    if MARK not in os.environ:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent
    faulthandler.enable()
    faulthandler.dump_traceback_later(asked["start_s"], exit=True)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (PYTHONSAFEPATH leaves it out)
    kit = getattr(importlib.import_module(f"{asked['kit']}_kit"), f"{asked['kit'].capitalize()}Kit")(asked)
    faulthandler.dump_traceback_later(asked["patience_s"], exit=True)
    if asked["what"] == "allreduce":
        return check_all_reduce(kit, asked)
    if asked["what"] == "look":
        return print_answer(version=kit.version, count=kit.count_devices(), types=kit.list_types())
    for name, unit, test in plan_tests(kit, asked):
        print_answer(begin=name, cards=unit)
        faulthandler.dump_traceback_later(asked["patience_s"], exit=True)
        try:
            print_answer(did=name, cards=unit, **test())
        except Exception as err:
            print_answer(did=name, cards=unit, error=describe_error(err))
    print_answer(end=True)
    return None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

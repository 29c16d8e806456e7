"""Works on cards and says what came out; run by the Python that trains, never imported by envcheck.

Usage: program.py ASKED, a JSON object: `what` is look, cards, peer or allreduce; `kit` paddle or torch; `kind` the
framework's name of the device; for torch, `module` registers it, and `backend` is that of its collectives.  Each answer
is a line ENVCHECK {...}; `allreduce`, started once for each rank by the framework's launcher, writes FOLDER/rank-N.json
instead.  Judges nothing.  Must run with Python 3.8 and stand alone but for the file of its framework, paddle_kit.py or
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
CHECKED = 1024  # rows of the product that is compared with the processor's: 2 GFLOP there
SUMS = 64  # values of an all-reduce that are written down; all of them are compared on the card
PATTERNS = (0x55555555, -0x55555556)  # every bit once on, once off; neighbouring pieces differ
# In a container the parent is the engine's helper, which leaves as soon as the command runs, on a busy machine a moment
# later: what dies with it would die at once.  There the target ends commands by this mark in their environment.
MARK = "ENVCHECK_TARGET"
Figures = dict[str, Any]


def seconds(kit: Any, deed: Callable[[], Any], budget_s: float, *cards: int) -> float:
    """The median of one time; what a first call compiles is not counted."""
    deed()
    kit.wait(*cards)
    spans: list[float] = []
    end = time.monotonic() + budget_s
    while len(spans) < 3 or (time.monotonic() < end and len(spans) < 1000):
        began = time.monotonic()
        deed()
        kit.wait(*cards)
        spans.append(time.monotonic() - began)
    return max(sorted(spans)[len(spans) // 2], 1e-9)


def grown(kit: Any, make: Callable[[int], Callable[[], Any]], sizes: list[int], budget_s: float, *cards: int) -> Any:
    """(size, deed) of the largest that the budget allows: each is tried once, and doubled while it is quick."""
    size, largest = sizes
    while True:
        deed = make(size)
        deed()
        kit.wait(*cards)
        began = time.monotonic()
        deed()
        kit.wait(*cards)
        if size * 2 > largest or (time.monotonic() - began) * 16 > budget_s:
            return size, deed
        size *= 2


def off(kit: Any, seen: Any, right: Any) -> tuple[float, float]:
    """The largest and the mean square error, as shares of the right one's own."""
    wrong = kit.cast(seen, "float32") - right
    worst = float(wrong.abs().max()) / float(right.abs().max())
    return worst, (float((wrong * wrong).mean()) / float((right * right).mean())) ** 0.5


def product(kit: Any, card: int, asked: Figures) -> Figures:
    """The card's product of what bf16 holds, compared with the processor's in float32."""
    found: Figures = {"dtype": "bfloat16"}
    a, b = (kit.cast(kit.normal(CHECKED, card + seed), "bfloat16") for seed in (1, 1001))
    right = kit.cast(a, "float32") @ kit.cast(b, "float32")
    try:
        seen = kit.down(kit.up(a, card) @ kit.up(b, card))
    except (RuntimeError, TypeError) as err:
        found = {"dtype": "float32", "why": last(err)}
        a, b = kit.cast(a, "float32"), kit.cast(b, "float32")
        seen = kit.down(kit.up(a, card) @ kit.up(b, card))
    found["worst"], found["square"] = off(kit, seen, right)
    return found


def matmul(kit: Any, card: int, asked: Figures) -> Figures:
    """The product, then as many large ones as fit in the time, the last of them compared with the first."""
    found = product(kit, card, asked)

    def make(rows: int) -> Callable[[], Any]:
        x, y = (kit.up(kit.cast(kit.normal(rows, seed), found["dtype"]), card) for seed in (3, 4))
        return lambda: x @ y

    rows, deed = grown(kit, make, asked["rows"], asked["budget_s"], card)
    first = kit.down(deed())
    spent = seconds(kit, deed, asked["budget_s"], card)
    found["drift"] = off(kit, kit.down(deed()), kit.cast(first, "float32"))[0]
    return {**found, "rows": rows, "tflops": 2 * rows**3 / spent / 1e12}


def memory(kit: Any, card: int, asked: Figures) -> Figures:
    """Pieces with a pattern each, all held, then all compared."""
    wanted = asked["memory_mib"][str(card)]
    piece = max(1, min(asked["piece_mib"], wanted))
    held: list[Any] = []
    found, end = {"wanted_mib": wanted}, time.monotonic() + 5 * asked["budget_s"]
    try:
        while (len(held) + 1) * piece <= wanted and (not held or time.monotonic() < end):
            held.append(kit.full(piece * MIB // 4, PATTERNS[len(held) % 2], "int32"))
            kit.wait(card)
    except (RuntimeError, MemoryError) as err:
        found["full"] = last(err)
    good = [bool((each == PATTERNS[n % 2]).all()) for n, each in enumerate(held)]
    return {**found, "mib": len(held) * piece, "wrong": good.count(False), "pieces": len(good)}


def copy(kit: Any, card: int, asked: Figures) -> Figures:
    """To the card and back, through page-locked memory where the framework has it."""
    found: Figures = {"pinned": True}

    def host(mib: int) -> Any:
        made = kit.ramp(mib * MIB // 4)
        try:
            return kit.pinned(made) if found["pinned"] else made
        except (RuntimeError, ValueError, TypeError, AttributeError):
            found["pinned"] = False
            return made

    def make(mib: int) -> Callable[[], Any]:
        tensor = host(mib)
        return lambda: (kit.up(tensor, card), tensor)

    mib, deed = grown(kit, make, asked["mib"], asked["budget_s"] / 2, card)
    there, tensor = deed()
    back = kit.fetch(there, tensor)
    found["same"] = bool((kit.down(back) == kit.down(tensor)).all())
    up = seconds(kit, deed, asked["budget_s"] / 2, card)
    down = seconds(kit, lambda: kit.fetch(there, tensor), asked["budget_s"] / 2, card)
    return {**found, "mib": mib, "up_gbs": mib * MIB / up / 1e9, "down_gbs": mib * MIB / down / 1e9}


def peer(kit: Any, pair: list[int], asked: Figures) -> Figures:
    """From the first card to the second."""
    one, other = pair
    kit.select(one)

    def make(mib: int) -> Callable[[], Any]:
        tensor = kit.up(kit.ramp(mib * MIB // 4), one)
        return lambda: (kit.up(tensor, other), tensor)

    mib, deed = grown(kit, make, asked["mib"], asked["budget_s"], one, other)
    there, tensor = deed()
    same = bool((kit.down(there) == kit.down(tensor)).all())
    spent = seconds(kit, deed, asked["budget_s"], one, other)
    return {"mib": mib, "same": same, "gbs": mib * MIB / spent / 1e9}


def all_reduce(kit: Any, asked: Figures) -> None:
    """Every rank's vector is its number + 1 times a seed and a ramp, so the sums are known; `timed`: see bandwidth."""
    rank, world = kit.meet()
    base = kit.up(kit.ramp(MIB // 4), kit.index) + float(asked["seed"])
    mine = base * float(rank + 1)
    kit.all_reduce(mine)
    said = {
        "rank": rank,
        "world": world,
        "seed": asked["seed"],
        "half": float(kit.full(1, 1.5, "float32")),  # numpy 2.4 made this an error, and every training script does it
        "sums": kit.down(mine).tolist()[:SUMS],
        "wrong": int((mine != base * (world * (world + 1) / 2)).sum()),
    }
    if asked["timed"]:
        said.update(bandwidth(kit, asked))
    path = os.path.join(asked["folder"], f"rank-{rank}.json")  # noqa: PTH118
    with open(path + ".new", "w") as file:  # noqa: PTH123
        json.dump(said, file)
    os.replace(path + ".new", path)  # noqa: PTH105
    kit.leave()


def bandwidth(kit: Any, asked: Figures) -> Figures:
    """The time of one all-reduce of zeros, in the largest size that the budget allows."""
    size, largest = asked["mib"]
    while True:
        zeros = kit.full(size * MIB // 4, 0.0, "float32")
        together(kit, zeros, 1)  # the first one makes the connections
        spent = together(kit, zeros, 1)
        if size * 2 > largest or spent * 16 > asked["budget_s"]:
            break
        size *= 2
    times = max(3, min(200, int(asked["budget_s"] / max(spent, 1e-6))))
    return {"mib": size, "s": together(kit, zeros, times)}


def together(kit: Any, tensor: Any, times: int) -> float:
    """The mean over ranks of the time of one all-reduce: the same number on all, so that all decide alike."""
    kit.wait(kit.index)
    began = time.monotonic()
    for _ in range(times):
        kit.all_reduce(tensor)
    kit.wait(kit.index)
    took = kit.full(2, (time.monotonic() - began) / times, "float32")
    ones = kit.full(2, 1.0, "float32")
    kit.all_reduce(took)
    kit.all_reduce(ones)
    return float(kit.down(took)[0]) / max(float(kit.down(ones)[0]), 1.0)


OF_A_CARD: dict[str, Callable[[Any, int, Figures], Figures]] = {
    "product": product,
    "matmul": matmul,
    "memory": memory,
    "copy": copy,
}


def tests(kit: Any, asked: Figures) -> Iterator[tuple[str, list[int], Callable[[], Figures]]]:
    for unit in asked["units"]:
        if asked["what"] == "peer":
            yield "peer", unit, functools.partial(peer, kit, unit, asked)
            continue
        for name in asked["tests"]:
            yield name, unit, functools.partial(on_one, kit, name, unit[0], asked)


def on_one(kit: Any, name: str, card: int, asked: Figures) -> Figures:
    kit.select(card)
    return OF_A_CARD[name](kit, card, asked)


def say(**said: Any) -> None:
    """One write, after a line's end: the frameworks' own words may come from other threads."""
    sys.stdout.write("\nENVCHECK " + json.dumps(said) + "\n")
    sys.stdout.flush()


def last(err: BaseException) -> str:
    """What it says in a line: paddle's reason begins with a bracket, after the frames of its own code."""
    lines = [line.strip() for line in str(err).splitlines() if line.strip()] or [""]
    return f"{type(err).__name__}: {next((line for line in lines if line.startswith('(')), lines[-1])}"[:200]


def main(asked: Figures) -> None:
    if MARK not in os.environ:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nobody is left working when who asked is gone
    faulthandler.enable()
    faulthandler.dump_traceback_later(asked["start_s"], exit=True)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (PYTHONSAFEPATH leaves it out)
    kit = importlib.import_module(f"{asked['kit']}_kit").Kit(asked)
    faulthandler.dump_traceback_later(asked["patience_s"], exit=True)
    if asked["what"] == "allreduce":
        return all_reduce(kit, asked)
    if asked["what"] == "look":
        return say(version=kit.version, count=kit.count(), types=kit.types())
    for name, unit, test in tests(kit, asked):
        say(begin=name, cards=unit)
        faulthandler.dump_traceback_later(asked["patience_s"], exit=True)
        try:
            say(did=name, cards=unit, **test())
        except Exception as err:
            say(did=name, cards=unit, error=last(err))
    say(end=True)
    return None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

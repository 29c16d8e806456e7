"""What `envcheck explain` costs on logs of 1 GB: seconds of processor time and peak memory, of four kinds of log.

python benchmarks/explain.py [MiB, else 1024]
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LAST = (
    b"Traceback (most recent call last):\n"
    b'  File "/w/train.py", line 17, in <module>\n'
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)
SYLLABLES = [c + v for c in "bcdglmprstvz" for v in "aeiou"]
WORDS = ["".join(random.Random(n).choices(SYLLABLES, k=4)) for n in range(50_000)]


def training(rng: random.Random) -> str:
    """As PaddleFormers and transformers print it: the same lines with other figures."""
    step, loss = rng.randrange(10**6), rng.random()
    return (
        f"[2025-07-01 12:{step % 60:02d}:{step % 59:02d},{step % 1000:03d}] [    INFO] - loss: {loss * 10:.8f}, "
        f"learning_rate: {loss:.3e}, global_step: {step}, interval_runtime: {loss * 9:.4f}, ppl: {loss * 3:.3f}"
    )


def varied(rng: random.Random) -> str:
    """Each line of other words: samples that are printed."""
    return f"[INFO] sample {rng.randrange(10**6)}: " + " ".join(rng.choices(WORDS, k=14))


def noisy(rng: random.Random) -> str:
    """Each line speaks of an error, in ever other words."""
    return f"[ERROR] request {rng.randrange(10**6)} {rng.choice(WORDS)} failed: {rng.choice(WORDS)} not found, retrying"


def blocks(kind: object, mib: int) -> Iterator[bytes]:
    rng = random.Random(1)
    made = ["\n".join(kind(rng) for _ in range(7_000)) + "\n" for _ in range(24)]  # type: ignore[operator]
    sized, at = 0, 0
    while sized < mib << 20:
        block = made[at % len(made)].encode()
        at += 1
        sized += len(block)
        yield block


def one_line(mib: int) -> Iterator[bytes]:
    return (b"x" * (1 << 20) for _ in range(mib))


def measure(path: Path) -> tuple[float, float, float, str]:
    """Seconds by the clock, of the processor, peak MiB, and the diagnosis, of one run in a process of its own."""
    began = time.perf_counter()
    argv = [sys.executable, "-m", "envcheck", "explain", str(path)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said = child.stdout.read()
    _, _, used = os.wait4(child.pid, 0)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, said.split("\n")[0]


def main() -> None:
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(f"{f'log of {mib} MiB':24}{'clock':>9}{'processor':>11}{'memory':>11}   goal 20 s, 200 MiB for 1 GiB")
    kinds = {
        "a training's steps": training,
        "ever other words": varied,
        "nothing but errors": noisy,
        "one line": None,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        for name, kind in kinds.items():
            with path.open("wb") as file:
                for block in blocks(kind, mib) if kind else one_line(mib):
                    file.write(block)
                file.write(b"\n" + LAST)
            clock, busy, memory, said = measure(path)
            print(f"{name:24}{clock:7.1f} s{busy:9.1f} s{memory:7.0f} MiB   {said[:60]}")


if __name__ == "__main__":
    main()

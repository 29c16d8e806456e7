"""What `envcheck explain` costs on logs of 1 GB: seconds by the clock and of the processors, and the peak of the memory
of all its processes (each page that they share counts once), of many kinds of log.

python -m benchmarks.explain [MiB, else 1024] [of which kinds: words of their names, else all]
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from envcheck.explain import prefilter

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


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(rng: random.Random, size: int = 8) -> str:
    return "".join(rng.choices(LETTERS, k=size))


def strange(rng: random.Random) -> str:
    """No word comes twice."""
    return " ".join(word(rng, 10) for _ in range(12))


def nearly(rng: random.Random) -> str:
    """Words that begin as ours do and end otherwise; by chance some have another one in them."""
    return " ".join(rng.choice(prefilter.WORDS)[:-1] + "q" + word(rng, 4) for _ in range(12))


def alarming(rng: random.Random) -> str:
    """One of our words in each line, among words that nobody knows."""
    return " ".join((word(rng), word(rng), rng.choice(prefilter.WORDS), *rng.choices(WORDS, k=9)))


def prose(rng: random.Random) -> str:
    """Text as people write it, of its commonest words: samples that are printed.  Most lines have one of ours."""
    return " ".join(rng.choices(PROSE.split(), k=20))


def chinese(rng: random.Random) -> str:
    return "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(40)) + "。"


def encoded(rng: random.Random) -> str:
    """Base64, as images and keys are printed."""
    return "".join(rng.choices(LETTERS + LETTERS.upper() + "0123456789+/", k=76))


PROSE = (
    "the of and to in a is that for it was not on with he as be at by this had are but from or have an they which one "
    "you were all her she there would their we him been has when who will no more if out so up said what its about "
    "than into them can only other time new some could these two may first then do any like my now over such our man "
    "me even most made after also well did many before must years back through much where your way down should because "
    "long each just state those people too good very make world still see own work men day get here between both life "
    "being under three never know same last another while us off might great go come since against right came take "
    "used himself few house use during without again place around however small found part old different memory model "
    "please value data answer question at least maybe only address example number write list explain sentence city"
)


def lines(
    kind: Callable[[random.Random], str], code: str = "utf-8", end: str = "\n"
) -> Callable[[int], Iterator[bytes]]:
    """Made of 24 blocks of lines of this kind, over and over."""

    def blocks(mib: int) -> Iterator[bytes]:
        rng = random.Random(1)
        made = [(end.join(kind(rng) for _ in range(7_000)) + "\n").encode(code) for _ in range(24)]
        sized, at = 0, 0
        while sized < mib << 20:
            sized, at = sized + len(made[at % 24]), at + 1
            yield made[(at - 1) % 24]

    return blocks


def one_line(mib: int) -> Iterator[bytes]:
    return (b"x" * (1 << 20) for _ in range(mib))


def noise(mib: int) -> Iterator[bytes]:
    rng = random.Random(1)
    return (rng.randbytes(1 << 20) for _ in range(mib))


KINDS = {
    "a training's steps": lines(training),
    "ever other words": lines(varied),
    "nothing but errors": lines(noisy),
    "one line": one_line,
    "lines of 1 MB": lines(varied, end=" "),
    "no word twice": lines(strange),
    "half of our words": lines(nearly),
    "one of our words each": lines(alarming),
    "prose": lines(prose),
    "Chinese": lines(chinese),
    "base64": lines(encoded),
    "random bytes": noise,
    "UTF-16 without its mark": lines(varied, "utf-16-le"),
}


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of all processors, MiB of all processes together, and what was said first."""

    clock: float
    busy: float
    memory: float
    said: str

    def of_gb(self, least: Cost, size: int) -> tuple[float, float]:
        """By the clock and of the processors; what it costs in any case is not multiplied."""
        times = 1e9 / size
        return (
            least.clock + (self.clock - least.clock) * times,
            least.busy + (self.busy - least.busy) * times,
        )


def measure(path: Path) -> Cost:
    """Of one run."""
    began, before = time.perf_counter(), os.times()
    argv = [sys.executable, "-m", "envcheck", "explain", str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        peak = 0.0
        while child.poll() is None:
            peak = max(peak, memory(child.pid))
            time.sleep(0.05)
        assert child.stdout is not None
        said = child.stdout.readline().strip()
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(time.perf_counter() - began, busy, peak, said)


def memory(session: int) -> float:
    """MiB of the processes of a session; of pages that several have, each has its share."""
    sizes = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if folder.name.isdigit() and os.getsid(int(folder.name)) == session:
                sizes.append(int((folder / "smaps_rollup").read_text().split("\nPss:")[1].split()[0]))
    return sum(sizes) / 1024


def main() -> None:
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(f"{f'log of {mib} MiB':24}{'clock':>9}{'processor':>11}{'of 1 GB: clock':>16}{'processor':>11}{'memory':>10}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        path.touch()
        least = min((measure(path) for _ in range(3)), key=lambda cost: cost.busy)  # whatever the log
        for name, made in KINDS.items():
            if not sys.argv[2:] or any(word in name for word in sys.argv[2:]):
                row(name, made(mib), path, least)
    print("goal: 20 s by the clock, 200 MB")


def row(name: str, blocks: Iterator[bytes], path: Path, least: Cost) -> None:
    with path.open("wb") as file:
        for block in blocks:
            file.write(block)
        file.write(b"\n" + LAST)
    cost = measure(path)
    clock, busy = cost.of_gb(least, path.stat().st_size)
    print(
        f"{name:24}{cost.clock:7.1f} s{cost.busy:9.1f} s{clock:14.1f} s{busy:9.1f} s{cost.memory:6.0f} MiB"
        f"   {cost.said[:50]}",
        flush=True,
    )


if __name__ == "__main__":
    main()

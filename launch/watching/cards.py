"""The cards beside a run, looked at every few seconds by a thread of their own: a tool that hangs holds up nobody."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from envcheck.collect import documents
from envcheck.collect.machine import Machine
from envcheck.core import process
from envcheck.core.findings import label
from envcheck.core.model import Device, Question
from envcheck.core.vendor import Vendor
from launch.watching.state import CardSample, CardSamples

EVERY_S = 5.0
SHARE = 20  # a tool that takes a second is asked every 20 s: npu-smi keeps a processor busy while it runs
LONGEST_S = 300.0
KEPT = 16
Peak = dict[str, float]


def cards(devices: Iterable[Device]) -> tuple[CardSample, ...]:
    return tuple(
        CardSample(
            label=label(device),
            used_mib=device.memory_used_mib,
            total_mib=device.memory_total_mib,
            percent=device.utilization_percent,
            power_w=device.power_w,
            temperature_c=device.temperature_c,
            health=device.health,
            ecc_uncorrected=device.ecc_uncorrected,
        )
        for device in devices
    )


def ask(machine: Machine, vendor: Vendor, question: Question) -> CardSamples:
    answer = machine(question)
    found = cards(documents.document(vendor, answer).devices)
    return CardSamples(time.monotonic(), found, "" if found else f"{question.what[0]}: {answer.outcome.value}")


class Sampler:
    """`latest` are the newest samples that told something, `peaks` the most of each card so far; read at any time."""

    def __init__(self, machine: Machine, vendor: Vendor, before: Iterable[Device], every_s: float = EVERY_S) -> None:
        self.machine, self.vendor, self.every_s = machine, vendor, every_s
        self.before = CardSamples(time.monotonic(), cards(before))
        self.latest: tuple[CardSamples, ...] = ()
        self.peaks: dict[str, Peak] = {}
        self.asked = self.untold = 0
        self.spent_s = 0.0
        self._questions = (*vendor.samples, *vendor.devices)
        self._question = self._questions[0]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """At once; a tool that is at work is ended."""
        self._over.set()
        process.end_what_runs(self._question.what)
        self._thread.join(1.0)

    def _work(self) -> None:
        kept: deque[CardSamples] = deque(maxlen=KEPT)
        pause = 0.0
        while not self._over.wait(pause):
            began = time.monotonic()
            sample = self._ask()
            took = time.monotonic() - began
            self.spent_s += took
            self.asked += 1
            if sample.cards:
                kept.append(sample)
                self.latest = tuple(kept)
                self._note(sample)
            else:
                self.untold += 1
            pause = min(LONGEST_S, max(self.every_s, SHARE * took))

    def _ask(self) -> CardSamples:
        """The question that answered last time first; the others where it does not answer any more."""
        sample = CardSamples(time.monotonic())
        for question in sorted(self._questions, key=lambda q: q != self._question):
            if self._over.is_set():
                break
            self._question = question
            sample = ask(self.machine, self.vendor, question)
            if sample.cards:
                break
        return sample

    def _note(self, sample: CardSamples) -> None:
        for card in sample.cards:
            peak = self.peaks.setdefault(card.label, {})
            told = {"memory_mib": card.used_mib, "power_w": card.power_w, "temperature_c": card.temperature_c}
            for name, value in told.items():
                if value is not None:
                    peak[name] = max(value, peak.get(name, value))

    def grown_mib(self) -> float | None:
        """The most that any card held beyond what it held before the start; None where that was not told."""
        old = {card.label: card.used_mib for card in self.before.cards}
        grown = [
            peak["memory_mib"] - held
            for name, peak in self.peaks.items()
            if "memory_mib" in peak and (held := old.get(name)) is not None
        ]
        return max(grown, default=None)

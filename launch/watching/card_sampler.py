"""Sample the cards of a run every few seconds in a thread, so that a hanging vendor tool blocks nothing."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from envcheck.collect import answer_parsers
from envcheck.collect.answer_sources import AnswerSource
from envcheck.core import process
from envcheck.core.findings import device_label
from envcheck.core.model import Device, Question
from envcheck.core.vendor import Vendor
from launch.watching.run_moment import CardSample, CardSamples

EVERY_S = 5.0
SHARE = 20  # minimum interval as a multiple of the tool's run time: npu-smi uses a full CPU core while it runs
LONGEST_S = 300.0
KEPT = 16
Peak = dict[str, float]


def build_samples(devices: Iterable[Device]) -> tuple[CardSample, ...]:
    """Return the samples of parsed devices."""
    return tuple(
        CardSample(
            label=device_label(device),
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


def sample_cards(machine: AnswerSource, vendor: Vendor, question: Question) -> CardSamples:
    """Run a vendor's tool and return the samples of all cards; empty with a reason on failure."""
    answer = machine(question)
    found = build_samples(answer_parsers.parse_answer(vendor, answer).devices)
    return CardSamples(time.monotonic(), found, "" if found else f"{question.what[0]}: {answer.outcome.value}")


class CardSampler:
    """Samples cards in a thread; `latest` are the newest successful samples, `peaks` the maxima by card."""

    def __init__(
        self, machine: AnswerSource, vendor: Vendor, before: Iterable[Device], every_s: float = EVERY_S
    ) -> None:
        self.machine, self.vendor, self.every_s = machine, vendor, every_s
        self.before = CardSamples(time.monotonic(), build_samples(before))
        self.latest: tuple[CardSamples, ...] = ()
        self.peaks: dict[str, Peak] = {}
        self.asked = self.failed = 0
        self.spent_s = 0.0
        self._questions = (*vendor.samples, *vendor.devices)
        self._question = self._questions[0]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample_repeatedly, daemon=True)

    def start_sampling(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and a running tool."""
        self._over.set()
        process.terminate_matching(self._question.what)
        self._thread.join(1.0)

    def _sample_repeatedly(self) -> None:
        kept: deque[CardSamples] = deque(maxlen=KEPT)
        pause = 0.0
        while not self._over.wait(pause):
            began = time.monotonic()
            sample = self._take_sample()
            took = time.monotonic() - began
            self.spent_s += took
            self.asked += 1
            if sample.cards:
                kept.append(sample)
                self.latest = tuple(kept)
                self._record_peaks(sample)
            else:
                self.failed += 1
            pause = min(LONGEST_S, max(self.every_s, SHARE * took))

    def _take_sample(self) -> CardSamples:
        """Return a sample from the tool that worked last time, else from the others."""
        sample = CardSamples(time.monotonic())
        for question in sorted(self._questions, key=lambda q: q != self._question):
            if self._over.is_set():
                break
            self._question = question
            sample = sample_cards(self.machine, self.vendor, question)
            if sample.cards:
                break
        return sample

    def _record_peaks(self, sample: CardSamples) -> None:
        for card in sample.cards:
            peak = self.peaks.setdefault(card.label, {})
            values = {"memory_mib": card.used_mib, "power_w": card.power_w, "temperature_c": card.temperature_c}
            for name, value in values.items():
                if value is not None:
                    peak[name] = max(value, peak.get(name, value))

    def grown_mib(self) -> float | None:
        """Return the largest memory growth of a card since the start in MiB, None if unknown."""
        old = {card.label: card.used_mib for card in self.before.cards}
        grown = [
            peak["memory_mib"] - held
            for name, peak in self.peaks.items()
            if "memory_mib" in peak and (held := old.get(name)) is not None
        ]
        return max(grown, default=None)

"""Selects the next questions from the answers so far; the same for this host and for hosts over ssh."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envcheck.collect import answer_parsers
from envcheck.collect.fact_reader import (
    candidate_vendors,
    find_follow_ups,
    is_vendor_present,
    list_die_questions,
    read_pci_addresses,
)
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.model import Answer, Outcome, Question
from envcheck.core.secrets import redact_text, redact_variable
from envcheck.core.vendor import Vendor
from envcheck.vendors import VENDORS

ENVIRONMENT = "ask environment"


class QuestionQueue:
    """The `answers` so far, and the questions that they lead to.

    With device auto, a vendor's presence is checked first: the remains of a driver must not cost a deadline.  Per-die
    questions need the device nodes, per-device questions the vendor tool's list.  `more` are questions that a site
    adds.
    """

    def __init__(self, device: str = "auto", more: Iterable[Question] = ()) -> None:
        self.answers: dict[str, Answer] = {}
        self._vendors = tuple(VENDORS[name] for name in candidate_vendors(device))
        self._is_certain = device != "auto"
        self._asked: set[str] = set()
        self.longest_s = 0.0  # the largest time limit of the questions so far
        self._first: tuple[Question, ...] = (*HOST_QUESTIONS, *more)
        listing = (q.key for v in self._vendors for q in (*v.presence_questions, *v.devices))
        self._opening = frozenset(listing)  # only these answers lead to further questions

    @property
    def is_over(self) -> bool:
        """Whether every question has been answered."""
        return self.answers.keys() >= self._asked

    def list_first_questions(self) -> list[Question]:
        """Return the questions to start with."""
        return self._take_unasked()

    def add_answer(self, answer: Answer) -> list[Question]:
        """Store an answer, and return the questions that it leads to. Answers to other questions are ignored."""
        if answer.key not in self._asked:
            return []
        self.answers[answer.key] = answer
        return self._take_unasked() if answer.key in self._opening else []

    def give_up(self, why: str) -> None:
        """Store an answer for every question without one, so that checks can name the reason."""
        for key in self._asked - self.answers.keys():
            self.answers[key] = Answer(key, Outcome.HUNG, err=why)

    def _take_unasked(self) -> list[Question]:
        open_ones = {q.key: q for q in self._list_questions() if q.key not in self._asked}
        self._asked |= open_ones.keys()
        self.longest_s = max([self.longest_s, *(q.timeout_s for q in open_ones.values())])
        return list(open_ones.values())

    def _list_questions(self) -> Iterable[Question]:
        for vendor in self._vendors:
            yield from _list_vendor_questions(vendor, self.answers, self._is_certain)
        yield from self._first


def redact_answers(answers: Mapping[str, Answer]) -> dict[str, Answer]:
    """Return the answers without secrets."""
    found = {key: replace(a, out=redact_text(a.out), err=redact_text(a.err)) for key, a in answers.items()}
    environment = answers.get(ENVIRONMENT)
    if environment is not None and environment.ok:
        found[ENVIRONMENT] = replace(environment, out=_redact_variables(environment.out))
    return found


def _redact_variables(text: str) -> str:
    try:
        known = json.loads(text)
        return json.dumps({name: redact_variable(name, str(value)) for name, value in known.items()}, sort_keys=True)
    except (ValueError, AttributeError, RecursionError):
        return redact_text(text)


def _list_vendor_questions(vendor: Vendor, answers: Mapping[str, Answer], is_certain: bool) -> Sequence[Question]:
    """Return all questions about the vendor that can be asked by now."""
    first = (vendor.node_question,) if is_certain else vendor.presence_questions
    if any(q.key not in answers for q in first) or not (is_certain or _is_worth_asking(vendor, answers)):
        return first
    questions = (
        *vendor.presence_questions,
        *vendor.devices,
        *vendor.detail_questions,
        *list_die_questions(vendor, answers),
    )
    if any(q.key not in answers for q in vendor.devices):
        return questions
    return (*questions, *find_follow_ups(vendor, answers))


def _is_worth_asking(vendor: Vendor, answers: Mapping[str, Answer]) -> bool:
    return is_vendor_present(vendor, answers) or read_pci_addresses(vendor, answers) is None


def load_parsers(questions: Iterable[Question]) -> None:
    """Import the parsers of the tools that these questions run, while the tools are running."""
    keys = {question.key for question in questions}
    for vendor in VENDORS.values():
        if any(question.key in keys for question in vendor.devices):
            answer_parsers.load_parser(vendor)

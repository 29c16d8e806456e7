"""What to ask a machine next, by what it has answered; the same for this machine and for hosts over ssh."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envcheck.collect import documents
from envcheck.collect.fact_reader import candidates, find_follow_ups, is_present, list_die_questions
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.model import Answer, Outcome, Question
from envcheck.core.secrets import blank_value, redact
from envcheck.core.vendor import Vendor
from envcheck.vendors import VENDORS

ENVIRONMENT = "ask environment"


class Interview:
    """`answers` so far, and the questions that they open.

    A vendor's presence first, where nobody said that its cards are there: a driver's leftovers must not cost a
    deadline.  What is asked of each die follows the device nodes, beside the vendor's tool; what is asked of each
    device, its list.  `more` are questions that a site adds.
    """

    def __init__(self, device: str = "auto", more: Iterable[Question] = ()) -> None:
        self.answers: dict[str, Answer] = {}
        self._vendors = tuple(VENDORS[name] for name in candidates(device))
        self._is_certain = device != "auto"
        self._asked: set[str] = set()
        self._first: tuple[Question, ...] = (*HOST_QUESTIONS, *more)
        listing = (q.key for v in self._vendors for q in (*v.presence, *v.devices))
        self._opening = frozenset(listing)  # only these answers lead to further questions

    @property
    def is_over(self) -> bool:
        return self.answers.keys() >= self._asked

    def begin(self) -> list[Question]:
        """The first questions."""
        return self._unasked()

    def add(self, answer: Answer) -> list[Question]:
        """Take in an answer; the questions that it opens.  What was never asked is left aside."""
        if answer.key not in self._asked:
            return []
        self.answers[answer.key] = answer
        return self._unasked() if answer.key in self._opening else []

    def _unasked(self) -> list[Question]:
        open_ones = {q.key: q for q in self._list_questions() if q.key not in self._asked}
        self._asked |= open_ones.keys()
        return list(open_ones.values())

    def _list_questions(self) -> Iterable[Question]:
        for vendor in self._vendors:
            yield from _list_vendor_questions(vendor, self.answers, self._is_certain)
        yield from self._first


def redact_answers(answers: Mapping[str, Answer]) -> dict[str, Answer]:
    """Without secrets."""
    found = {key: replace(a, out=redact(a.out), err=redact(a.err)) for key, a in answers.items()}
    environment = answers.get(ENVIRONMENT)
    if environment is not None and environment.ok:
        found[ENVIRONMENT] = replace(environment, out=_blank_values(environment.out))
    return found


def _blank_values(text: str) -> str:
    try:
        known = json.loads(text)
        return json.dumps({name: blank_value(name, str(value)) for name, value in known.items()}, sort_keys=True)
    except (ValueError, AttributeError, RecursionError):
        return redact(text)


def _list_vendor_questions(vendor: Vendor, answers: Mapping[str, Answer], is_certain: bool) -> Sequence[Question]:
    """All that should be asked by now."""
    first = vendor.presence[1:] if is_certain else vendor.presence
    if any(q.key not in answers for q in first) or not (is_certain or _is_worth_asking(vendor, answers)):
        return first
    questions = (*vendor.presence, *vendor.devices, *vendor.beside, *list_die_questions(vendor, answers))
    if any(q.key not in answers for q in vendor.devices):
        return questions
    return (*questions, *find_follow_ups(vendor, answers))


def _is_worth_asking(vendor: Vendor, answers: Mapping[str, Answer]) -> bool:
    lspci = answers[vendor.presence[0].key]
    return is_present(vendor, answers) or lspci.outcome not in (Outcome.ANSWERED, Outcome.EMPTY)


def load_parsers(questions: Iterable[Question]) -> None:
    """Import the parsers of the tools that are asked, while they work."""
    keys = {question.key for question in questions}
    for vendor in VENDORS.values():
        if any(question.key in keys for question in vendor.devices):
            documents.load(vendor)

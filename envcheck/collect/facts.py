"""Asks all questions on this host, on a simulated one or in a recording."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from envcheck.collect.answer_sources import AnswerSource
from envcheck.collect.fact_reader import read_facts
from envcheck.collect.host.work_pool import WorkPool
from envcheck.collect.question_queue import QuestionQueue, load_parsers, redact_answers
from envcheck.core import process
from envcheck.core.facts import Facts, MachineRequirements
from envcheck.core.messages import _
from envcheck.core.model import Answer, Outcome, Question


def gather_facts(
    machine: AnswerSource,
    device: str = "auto",
    wanted: MachineRequirements | None = None,
    more: Iterable[Question] = (),
    limit_s: float | None = None,
) -> Facts:
    """Return the facts of a host.  `device` is a vendor's name, or auto: all vendors found.  `more` are a site's
    questions, `limit_s` is the time limit for all of them."""
    return read_facts(ask_machine(machine, device, more, limit_s), device, wanted)


def ask_machine(
    machine: AnswerSource, device: str = "auto", more: Iterable[Question] = (), limit_s: float | None = None
) -> dict[str, Answer]:
    """Return all answers by question key, without secrets; `more` are questions that a site adds.

    Each question is asked as soon as it is known.  A hanging tool costs its deadline once, because without devices
    there are no follow-up questions.  After `limit_s` seconds, tools that still run are ended, and what was not
    answered by then counts as hung.
    """
    until, is_over = None if limit_s is None else time.monotonic() + limit_s, threading.Event()

    def ask(question: Question) -> Answer:
        return Answer(question.key, Outcome.HUNG) if is_over.is_set() else machine(question)

    questions, pool = QuestionQueue(device, more), WorkPool()
    pending = questions.list_first_questions()
    with process.terminate_children_on_error():
        while True:
            for question in pending:
                pool.submit(lambda question=question: ask(question))  # type: ignore[misc]
            load_parsers(pending)
            if questions.is_over:
                break
            try:
                pending = questions.add_answer(pool.next_result(until))
            except TimeoutError:
                is_over.set()
                questions.give_up(_("no answer within the time limit of {limit_s:.10g} s", limit_s=limit_s))
                process.kill_running()
                break
    pool.close()
    return redact_answers(questions.answers)

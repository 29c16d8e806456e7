"""Asks all questions on this host, on a simulated one or in a recording."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.collect.answer_sources import AnswerSource
from envcheck.collect.fact_reader import read_facts
from envcheck.collect.host.work_pool import WorkPool
from envcheck.collect.question_queue import QuestionQueue, load_parsers, redact_answers
from envcheck.core import process
from envcheck.core.facts import Facts, MachineRequirements
from envcheck.core.model import Answer, Question


def gather_facts(
    machine: AnswerSource,
    device: str = "auto",
    wanted: MachineRequirements | None = None,
    more: Iterable[Question] = (),
) -> Facts:
    """Return the facts of a host.  `device` is a vendor's name, or auto: all vendors found.  `more` are a site's
    questions."""
    return read_facts(ask_machine(machine, device, more), device, wanted)


def ask_machine(machine: AnswerSource, device: str = "auto", more: Iterable[Question] = ()) -> dict[str, Answer]:
    """Return all answers by question key, without secrets; `more` are questions that a site adds.

    Each question is asked as soon as it is known.  A hanging tool costs its deadline once, because without devices
    there are no follow-up questions.
    """
    questions, pool = QuestionQueue(device, more), WorkPool()
    pending = questions.list_first_questions()
    with process.terminate_children_on_error():
        while True:
            for question in pending:
                pool.submit(lambda question=question: machine(question))  # type: ignore[misc]
            load_parsers(pending)
            if questions.is_over:
                break
            pending = questions.add_answer(pool.next_result())
    pool.close()
    return redact_answers(questions.answers)

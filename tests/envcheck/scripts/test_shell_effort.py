"""Interpreting a script takes work in proportion to its length, whatever it nests."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.core.lint.script_model import SourceBlock
from envcheck.scripts import shell_state
from envcheck.scripts.interpreter import shell_walk
from envcheck.scripts.interpreter.walker import walk_blocks
from envcheck.scripts.training_jobs import find_first_jobs, find_jobs


def walk_text(text: str) -> Any:
    return walk_blocks([SourceBlock("bash", text.encode(), ((0, 0),), whole=True)])[0]


def test_eval_does_not_visit_all_functions_again() -> None:
    """A text that eval reads is visited once for each function that contains one."""
    script = walk_text("".join(f'f{n}() {{ eval "echo $1"; echo {n}; }}\n' for n in range(30)))

    assert len(script.commands) == 90


def test_nested_shells_share_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of all texts that a script passes to a shell count towards its limit."""
    monkeypatch.setattr(shell_walk, "COMMANDS", 50)
    script = walk_text("".join(f"bash -c 'echo {n}; echo {n}; echo {n}'\n" for n in range(100)))

    assert script.cut
    assert len(script.commands) < 60


@pytest.mark.parametrize(
    "text",
    [
        "".join(f'ARGS="$ARGS --option{n} {n}"\n' for n in range(3000)),
        "".join(f"ARGS+=(--option{n} {n})\n" for n in range(3000)),
        f"ARGS='{'a ' * 4000}'\n" + "echo $ARGS\n" * 3000,
        "".join(f"f{n}() {{ echo {n}; }}\n" for n in range(300)),
    ],
)
def test_what_was_not_read_is_noted(text: str) -> None:
    """A script whose words, values or function calls exceed the limits is marked as cut."""
    assert walk_text(text).cut


@pytest.mark.parametrize("text", ["f() { f; }\nf\n", "ARGS='--a 1'\n" * 500 + "f() { echo; }\nf\nf\n"])
def test_what_was_read_is_not_cut(text: str) -> None:
    """A script within the limits is not cut, nor one whose function calls itself."""
    assert not walk_text(text).cut


def test_further_jobs_are_counted() -> None:
    """Training commands beyond the limit are counted as those that are read, without their options."""
    script = walk_text("torchrun train.py\n" * 5 + "python pretrain.py\npython show.py\nswift sft\nswift --version\n")

    found, left = find_first_jobs([script], (), 2)

    assert (len(found), left) == (2, len(find_jobs(script, ())) - 2)


def test_branches_compare_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a branch compares the variables that it sets, not all of the script."""
    compared: list[int] = []
    own = shell_state.are_equal
    monkeypatch.setattr(shell_state, "are_equal", lambda one, other: compared.append(1) or own(one, other))
    script = walk_text("".join(f"A{n}=1\nif test $A{n}; then B{n}=2; else B{n}=3; fi\n" for n in range(200)))

    assert len(compared) <= 400
    assert len(script.commands) == 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=1\nif test $B; then A=1; fi\n", "1"),
        ("A=1\nif test $B; then A=2; fi\n", None),
        ("A=1\nif test $B; then unset A; fi\n", None),
        ("if test $B; then A=2; else A=2; fi\n", "2"),
        ("case $B in a) A=2 ;; *) A=3 ;; esac\n", None),
    ],
)
def test_values_after_branches(text: str, value: str | None) -> None:
    """A value holds after branches that agree on it, also for the environment of a command."""
    script = walk_text(f"export A\n{text}train $A\n")

    assert script.commands[-1].words[1].known_text == value
    assert script.commands[-1].environment["A"].known_text == value

"""Interpreting a script takes work in proportion to its length, whatever it nests."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.core.lint.script_model import SourceBlock
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.lint import linter
from envcheck.scripts import shell_state, source_file
from envcheck.scripts.interpreter import shell_walk
from envcheck.scripts.interpreter.walker import walk_blocks
from envcheck.scripts.jobs.read_context import read_context
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
        "".join(f"f{n}() {{ echo {n}; }}\n" for n in range(1100)),
        "f() { torchrun train.py --lr $1; }\n" + "f 1\n" * 1100,
    ],
)
def test_what_was_not_read_is_noted(text: str) -> None:
    """A script whose words, values or function calls exceed the limits is marked as cut."""
    assert walk_text(text).cut


TRAINING = "{name: c, image: a/b, command: [torchrun, train.py]}"
PODS = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n{}\n"
SERVICES = "services:\n{}\n"


@pytest.mark.parametrize(
    ("name", "whole", "parts", "most"),
    [
        ("pod.yaml", PODS, [f"  - {TRAINING}" for _n in range(101)], 100),
        ("pod.yaml", f"apiVersion: v1\nkind: Service\n---\n{PODS}", [f"  - {TRAINING}"] * 101, 100),
        ("compose.yaml", SERVICES, [f"  c{n}: {TRAINING}" for n in range(101)], 100),
        ("Dockerfile", "FROM a/b\n{}\n", ["RUN make"] * 1000, 999),
    ],
)
def test_what_was_not_read_of_a_file_is_noted(name: str, whole: str, parts: list[str], most: int) -> None:
    """A file with more containers, services or instructions than are read has a script that is cut where they end."""
    for number in (most, most + 1):
        file = source_file.make_source(name, whole.format("\n".join(parts[:number])).encode())
        context = read_context(file, TargetMachine())
        assert any(script.cut for script in context.scripts) is (number > most)


def test_aliases_are_read_once() -> None:
    """Aliases of aliases take no time for each of their uses."""
    bomb = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 12)}]\n" for n in range(1, 11))
    file = source_file.make_source("pod.yaml", f"apiVersion: v1\nkind: Pod\na0: &a0 [x]\n{bomb}".encode())

    assert not linter.lint_source(file, others=False).remarks


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

"""The environment of a command in layers: equal to a plain copy, and small for scripts with thousands of exports."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.lint.script_model import ShellWord
from envcheck.scripts import source_file
from envcheck.scripts.interpreter import walker
from envcheck.scripts.layered_environment import DEEPEST, LayeredEnvironment

NAMES = st.sampled_from("ABCD")
LAYERS = st.lists(st.dictionaries(NAMES, st.one_of(st.none(), st.just("x"), st.just("y"))), max_size=3 * DEEPEST)


@given(LAYERS)
def test_equal_to_a_copy(layers: list[dict[str, str | None]]) -> None:
    """Names, values and length are those of a dict to which the same changes were made."""
    made, plain = LayeredEnvironment({}), dict[str, str]()
    for layer in layers:
        made = LayeredEnvironment({name: ShellWord(text, 0, 0) if text else None for name, text in layer.items()}, made)
        plain = {name: text for name, text in {**plain, **layer}.items() if text is not None}

    assert {name: word.text for name, word in made.items()} == plain
    assert len(made) == len(plain)
    assert {name: name in made for name in "ABCD"} == {name: name in plain for name in "ABCD"}


def read_environments(text: str) -> list[dict[str, str]]:
    source = source_file.make_source("run.sh", f"#!/bin/bash\n{text}\n".encode())
    (script,) = walker.walk_blocks(source_file.split_blocks(source))
    return [
        {name: word.text for name, word in command.environment.items()}
        for command in script.commands
        if command.name == "run"
    ]


def test_exports_of_a_script() -> None:
    """Exports, changes, unset, subshells, branches and prefixes reach the commands after them, and no others."""
    text = """run
export A=1 B=2
run
A=3
unset B
(export C=4; run)
D=5 run
run
if x; then export A=6; fi
run"""

    assert read_environments(text) == [
        {},
        {"A": "1", "B": "2"},
        {"A": "3", "C": "4"},
        {"A": "3", "D": "5"},
        {"A": "3"},
        {"A": "\ufffc"},
    ]


def test_thousands_of_exports_stay_small() -> None:
    """The layers of all commands hold far fewer entries than a copy for each command would."""
    lines = 2000
    text = "".join(f"export V{number}=x; run {number}\n" for number in range(lines))
    source = source_file.make_source("run.sh", f"#!/bin/bash\n{text}".encode())
    (script,) = walker.walk_blocks(source_file.split_blocks(source))
    layers = {}
    for command in script.commands:
        layer = command.environment if isinstance(command.environment, LayeredEnvironment) else None
        while layer is not None:
            layers[id(layer)] = len(layer._own)
            layer = layer._base

    assert len(script.commands[-1].environment) == lines
    assert sum(layers.values()) < 30 * lines

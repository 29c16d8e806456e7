"""The options of a run that is repeated, and those that override them."""

from __future__ import annotations

import pytest

from envcheck.cli.commands.train import train
from envcheck.cli.repeat_command import drop_overridden


@pytest.mark.parametrize(
    ("words", "more", "kept"),
    (
        (["--steps", "30", "--method", "lora"], ["--steps", "9"], ["--method", "lora"]),
        (["--steps=30", "--json"], ["--steps=9"], ["--json"]),
        (["--steps", "30", "-y"], ["--resume", "r", "--json"], ["--steps", "30", "-y"]),
        (["--method", "--steps"], ["--steps", "9"], ["--method", "--steps"]),
        (["--set", "a=1"], ["--set", "b=2"], ["--set", "a=1"]),
    ),
)
def test_options_given_again(words: list[str], more: list[str], kept: list[str]) -> None:
    """An option of one value replaces the run's own; one that may be repeated is added."""
    assert drop_overridden(train, words, more) == kept

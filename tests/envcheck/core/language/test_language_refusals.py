"""Refusals in Chinese: wrong options, recipes, paths and jobs, and what to do instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import envcheck
import installers
import launch
from envcheck.cli import main
from envcheck.core import language
from envcheck.core.errors import EnvcheckError
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import TABLES, lacking

ENVCHECK, INSTALLERS, LAUNCH = (Path(package.__path__[0]) for package in (envcheck, installers, launch))
FILES = [
    *(
        ENVCHECK / f"{name}.py"
        for name in (
            "core/paths",
            "cli/backend_options",
            "cli/commands/lint",
            "cli/commands/runs",
            "job/placeholders",
            "job/options",
        )
    ),
    *(
        INSTALLERS / f"{name}.py"
        for name in ("undo", "verify/verify_environment", "state/environment", "recipes/catalogue")
    ),
    *(
        LAUNCH / f"{name}.py"
        for name in (
            "session",
            "rendering/user_options",
            "rendering/validate",
        )
    ),
    *(
        LAUNCH / f"{name}.py"
        for name in ("watching/choose_monitor", "rendezvous/server", "rendezvous/client", "planner/legal")
    ),
]
# Parts of sentences that stand whole in a table, a log's own words behind them, and the folder of users' recipes.
PARTS = {
    *(
        "one of 0 to {}",
        "rank {}",
        "master",
        "host",
        "max",
        "warmup",
        "any",
        "{}there are {}; envcheck recipes has all",
    ),
    *(
        "--rank {}: this node is {}",
        "waiting for {} of {} nodes{}",
        "{} ended with {}:\n{}",
        "{}: more than {} recipe files",
    ),
    *("tp", "pp", "vpp", "ep", "cp", "tensorwise", "optimizer", "--pp {}{} does not divide {} layers: --pp {}"),
    *("{}: no file can be {}{}: {}", "{} of {} nodes came within {} s{} missing"),
}
REFUSED = [
    ("train", "--recipe", "nothing"),
    ("train", "--model", "999b"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "x"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--data", "/tmp"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--rank", "99"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "tensor_parallel_degree=3"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "warmup_steps=1000"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "max_seq_len=0"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--method", "sft"),
    ("train", "--recipe", "tiny-cpu", "--gates", "--detach"),
    ("train", "--recipe", "tiny-cpu", "--no-stop", "nothing"),
    ("provision", "--recipe", "nothing"),
    ("provision", "--recipes", "/proc/nothing"),
    ("runs", "show", "/proc"),
    ("lint",),
]


pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.stem}.{file.stem}")
def test_each_refusal_has_its_chinese(file: Path) -> None:
    """What is wrong, and the next step, stand in a table, values aside."""
    alone = {text.strip() for text in TABLES}
    sayers = {**language_parts.SAYERS, "say": (0,), "EnvcheckError": (0, 1)}

    assert [text for text in lacking(language_parts.sentences(file, sayers)) if text not in {*alone, *PARTS}] == []


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_a_refusal_is_chinese(argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person meets it: the sentence and what to do, but for commands."""
    monkeypatch.chdir(tmp_path)
    err = CliRunner().invoke(main.main, argv).exception

    assert isinstance(err, EnvcheckError)
    said = [text for text in (err.message, err.next_step) if not re.match(r"(?:envcheck|ls) ", text)]
    assert [text for text in said if not re.search("[一-鿿]", language.say(text))] == []

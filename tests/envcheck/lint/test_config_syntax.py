"""Configurations that their parser rejects: what is found, and the correction that fits the error."""

from __future__ import annotations

import pytest

from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.scripts import source_file


def list_syntax_errors(name: str, text: str) -> list[tuple[Status, str]]:
    result = linter.lint_source(source_file.make_source(name, text.encode()), others=False)
    return [(each.severity, str(each.remedy)) for each in result.remarks if each.rule == "config.syntax"]


@pytest.mark.parametrize(
    ("text", "do"),
    [
        ('{"zero_optimization": {"stage": 2},}', "no comma after the last entry"),
        ("{'zero_optimization': {stage: 2}} # x", "each key in double quotes"),
        ('{"zero_optimization": {"stage": 2}} // x', "JSON has no comments"),
        ('{"zero_optimization": {"stage": 2}, "steps_per_print": 010}', "comma between the entries"),
        ('{"zero_optimization": {"stage": True}}', "true, false or null"),
        ("zero_optimization:\n  stage: 2\n", "a value of JSON"),
        ('{"zero_optimization" {"stage": 2}}', "a colon between the key and its value"),
        ('{"zero_optimization": {"stage": "2}}', "Close the quote"),
    ],
)
def test_json_that_json_load_rejects(text: str, do: str) -> None:
    """A .json is judged by JSON's rules, although YAML's parser accepts more."""
    ((severity, found),) = list_syntax_errors("ds.json", text)

    assert severity is Status.FAIL
    assert do in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ds.json", '{"zero_optimization": {"stage": 2},\n\t"steps_per_print": 1e5}'),
        ("ds.yaml", '{"zero_optimization": {"stage": 2},} # x'),
        ("tune.json", "{checkpointer: {a: 1}, metric_logger: {b: 2}}"),  # read by OmegaConf.load
        ("run.sh", 'cat > ds.json <<E\n{"zero_optimization": {"stage": $STAGE}, $MORE}\nE\n'),
    ],
)
def test_configurations_that_their_program_reads(name: str, text: str) -> None:
    """JSON with tabs, YAML, JSON that its program reads as YAML, and text with unknown values are no errors."""
    assert list_syntax_errors(name, text) == []


def test_json_written_by_a_script() -> None:
    """A here-document for a .json is judged as JSON, too."""
    ((severity, _do),) = list_syntax_errors("run.sh", 'cat > ds.json <<E\n{"zero_optimization": {"stage": 2},}\nE\n')

    assert severity is Status.FAIL


@pytest.mark.parametrize(
    ("text", "do"),
    [
        ("stage: sft\n\tlora_rank: 8\n", "spaces, not tabs"),
        ("lora_target: [q, k\nstage: sft\n", "Close the square bracket"),
        ("lora_target: {q: k\nstage: sft\n", "Close the curly bracket"),
        ("stage:sft\nlora_rank: 8\n", "Put a space after the colon in 'stage:sft'"),
        ("stage: sft\nlora_rank:8\ntemplate: a\n", "a colon and a space between the key and its value"),
        ("stage: sft\n  lora_rank: 8\n", "Indent the keys of one level equally"),
        ("a:\n    stage: sft\n  lora_rank: 8\n", "Indent the keys of one level equally"),
        ("stage: sft: more\n", "contains a colon and a space in quotes"),
        ('stage: "sft\nlora_rank: 8\n', "Close the quote"),
        ('stage: "sft" more\n', "the whole value in quotes"),
        ("stage: @sft\n", "Put the value in quotes"),
        ("stage: *sft\n", "Put the value in quotes"),
        ('stage: "\\d"\n', "Write a backslash"),
        ("stage: [a]]\n", "nothing to close"),
        ("stage: \x01\n", "control character"),
    ],
)
def test_correction_fits_the_error(text: str, do: str) -> None:
    """The next step of each kind of YAML error names what corrects it."""
    ((_severity, found),) = list_syntax_errors("a.yaml", text)

    assert do in found

"""Shell that the grammar reads otherwise than bash: variables side by side, assignments on one line, long pipelines."""

from __future__ import annotations

import pytest

from envcheck.core.facts import Facts
from envcheck.core.lint.script_model import SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.lint import linter
from envcheck.lint.context import shell_checkers
from envcheck.scripts import shell_grammar, source_file

TRAIN = "torchrun --nproc_per_node 8 train.py"
RIGHT = {
    "side by side": 'host=a\nport=1\necho "$host $port"',
    "in braces": 'host=a\nport=1\necho "${host} ${port}"',
    "a substitution behind one": 'host=a\necho "$host $(date) $((1 + 2))"',
    "a function's own": 'log() { echo "$1 $2"; }\nlog a b',
    "over a line's end": 'host=a\nport=1\necho "$host\n  $port"',
    "in a heredoc": "host=a\nport=1\ncat <<E\n ${host} ${port}\n$host $port\nE",
    "two of a line": "tp=2 pp=2\nn=8\necho $tp $pp $n",
    "two, a comment": "tp=2 pp=2 # degrees\n# cards\nn=8\necho $tp $pp $n",
    "two, substitutions": "a=$(date) b=$(hostname)\nn=8\necho $a $b $n",
    "two, a test": "a=1 b=2\nn=8\n[ $n = 8 ] && echo $a $b",
    "two, over lines": "a=1 \\\n  b=2\nn=8\necho $a $b $n",
    "a pipeline of three": f"{TRAIN} 2>&1 | ts | tee log\nrc=${{PIPESTATUS[0]}}\n[[ $rc -eq 124 ]] && echo again",
    "json": 'BS=8\ncat > ds.json <<E\n{"train_batch_size": $BS}\nE',
    "json within json": 'BS=8\ncat > ds.json <<E\n{"fp16": {"enabled": ${BS:-8}}}\nE',
    "for one command": "a=1 b=2 env",
}


def list_remarks(text: str) -> list[tuple[str, str]]:
    raw = f"#!/bin/bash\nset -euo pipefail\n{text}\n".encode()
    result = linter.lint_source(source_file.make_source("run.sh", raw), TargetMachine(lambda: Facts()), others=False)
    return [(each.rule, each.seen) for each in result.remarks if each.rule != "paths.missing"]


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right(text: str) -> None:
    """No false alarm for valid bash."""
    assert list_remarks(text) == []


def test_what_stands_behind_two_variables_is_read() -> None:
    """As a launcher's words are joined in other projects' scripts."""
    text = 'L="torchrun --nproc_per_node 8"\nP="train.py --warmup_steps 500 --max_steps 100"\nC="$L $P"\n$C'

    assert [rule for rule, _ in list_remarks(text)] == ["training.warmup"]
    assert [rule for rule, _ in list_remarks('host=a\necho "${host} ${prot}"')] == ["shell.unset_variable"]


def test_no_byte_moves() -> None:
    """Rewritten bytes keep their places."""
    raw = b"a=1 b=2 # x\nc=3\nfoo | bar | tee log\nrc=1\n[[ $rc = 1 ]] && echo $c\n"
    kinds = [(child.type, child.start_byte) for child in shell_grammar.parse_shell(raw).named_children]

    assert [raw[at:][:2] for kind, at in kinds if kind != "comment"] == [b"a=", b"c=", b"fo", b"rc", b"[["]


NESTED = {
    "arithmetic": "x=$((" + "(" * 500 + "1" + ")" * 500 + "))",
    "subshells": "(" * 500 + "true" + ")" * 500,
    "expansions": "x=" + "${a:-" * 500 + "1" + "}" * 500,
    "unclosed": "true\n" + "(" * 500,
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_deeply_nested_scripts_are_bounded(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nests deeper than any real script is not given to shellcheck, whose time doubles with each level; the
    result is not clean."""
    monkeypatch.setattr(shell_checkers, "run_shellcheck", lambda _block: pytest.fail("shellcheck was started"))
    file = SourceFile("run.sh", f"#!/bin/bash\n{text}\n".encode())
    found = linter.lint_source(file, TargetMachine())

    assert "shell.syntax" in {remark.rule for remark in found.remarks}


def test_brackets_are_counted() -> None:
    """Closed ones do not add up, and unopened ones do not hide others."""
    assert shell_grammar.measure_nesting(b"a() { b=(1 2); (c); }" * 100) == 2
    assert shell_grammar.measure_nesting(b"case x in a) b;; esac ((1))") == 2


@pytest.mark.parametrize(
    ("value", "is_placeholder"),
    (
        ("<path to the data>", True),
        ("<your_token: see (docs)>", True),
        ("<pad>", True),
        ("<s>", False),
        ("</s>", False),
        ("a<b>", False),
    ),
)
def test_values_to_fill_in(value: str, is_placeholder: bool) -> None:
    """A text in angle brackets is a value to fill in; a token of a model such as <s> is a value."""
    rules = [rule for rule, _seen in list_remarks(f"{TRAIN} --data '{value}' --max_steps 5")]

    assert ("shell.placeholder" in rules) is is_placeholder


def test_a_value_to_fill_in_that_is_not_quoted() -> None:
    """Bash refuses it; the advice is to replace it."""
    file = source_file.make_source("run.sh", f"#!/bin/bash\n{TRAIN} --data <your_data: see (docs)>\n".encode())
    found = linter.lint_source(file, TargetMachine(), others=False)

    assert "Replace <your_data: see (docs)>" in str(
        [each.remedy for each in found.remarks if each.rule == "shell.syntax"]
    )

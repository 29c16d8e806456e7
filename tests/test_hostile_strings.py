"""Hostile texts in every option and in the fields of data files: nothing of them is run, and no terminal obeys them."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import tomllib
import yaml
from click.testing import CliRunner

from envcheck.cli.main import main
from envcheck.cli.option_groups import GroupedOption
from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.paths import has_control_characters
from envcheck.payload import pyz
from envcheck.payload.content import Payload

ROOT = Path(__file__).parents[1]
CANARY = "PWNED"
CONTROL = ("a\nb", "a\rb", "a\x1b]0;x\x07", "a\x00b", "a\x9b31mb", "a\u202eb", "\x7f")
EVERYTHING = (
    f"a'\"; touch {CANARY}; $(touch {CANARY}) `touch {CANARY}` && touch {CANARY} | \\ %n ${{HOME}} {{rank}} * # ~"
)
PRINTABLE = (
    EVERYTHING, f"'; touch {CANARY}; '", f'"; touch {CANARY}; "', f"-oProxyCommand=touch {CANARY}", "--help",
    f"$(touch {CANARY})", "#SBATCH --uid=0", "a\\", "~root/x", "{program}", "*", "é" * 3_000, "x" * 10_000,
)  # fmt: skip
LINES = (
    f"a\ntouch {CANARY}\n#SBATCH --uid=0\n",
    f"a'\ntouch {CANARY}\n'",
    "a\x1b]0;x\x07\x9b31m",
    "a\r\x7f\x08b",
    "\u202eb",
)


def list_commands(command: click.Command = main, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (words, command) for each command of envcheck that runs."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found
        yield from list_commands(found, (*words, name))


def list_options(command: click.Command) -> Iterator[click.Option]:
    """Yield the options that take a value; click's own have none."""
    yield from (p for p in command.params if isinstance(p, click.Option) and not p.is_flag and p.name != "lang")


@pytest.mark.parametrize(("words", "command"), [pytest.param(*pair, id=" ".join(pair[0])) for pair in list_commands()])
def test_no_option_takes_control_characters(words: tuple[str, ...], command: click.Command) -> None:
    """A value with a line's end, an escape, a NUL or a mark of direction is refused by every option of every command;
    reasons and questions may have several lines."""
    for option in list_options(command):
        assert isinstance(option, GroupedOption), f"{words}: {option.opts[0]} has no check of its values"
        for text in CONTROL:
            if option.is_prose and text in ("a\nb", "a\rb"):
                continue
            value = (text,) if option.multiple else text
            with pytest.raises((UsageError, click.UsageError)):
                option.type_cast_value(click.Context(command), value)


@pytest.fixture(autouse=True)
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and home, no Slurm, and a small payload for the manifests."""
    (tmp_path / "work").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("bash", "sh", "env", "mkdir", "cat", "sed", "head", "touch", "ls", "date", "dirname"):
        (tmp_path / "bin" / name).symlink_to(Path("/usr/bin") / name)
    for name in ("srun", "scontrol", "getent", "docker", "python3", "python", "seq", "sleep"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(pyz, "build_payload", lambda *_: Payload(b"x" * 1000, "0" * 64))


def run_rendered(text: str, folder: Path) -> None:
    """Run a script with programs that do nothing, and check that no part of a hostile text ran."""
    lines = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert not [line for line in lines if "uid=0" in line], text[:2000]
    checked = subprocess.run(["/bin/bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, (checked.stderr, text[:3000])
    given = {
        "RUN_DIR": str(folder / "run"),
        "NODE_RANK": "0",
        "FIRST_RANK": "0",
        "REPLICA_INDEX": "0",
        "HOST_ADDR": "h",
    }
    given |= {"MASTER_ADDR": "m", "MASTER_PORT": "1", "MASTER_NAME": "m", "KIT_DIGEST": "d", "HOME": str(folder)}
    given |= {
        "SLURM_JOB_NODELIST": "n",
        "SLURM_PROCID": "0",
        "DATA_PATH": "d",
        "SOCKET_IFNAMES": "e",
        "PATH": os.environ["PATH"],
    }
    script = folder / "script.sh"
    script.write_text(text)
    subprocess.run(
        ["/bin/bash", str(script)],
        env=given,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert not list(folder.rglob(CANARY)), text[:3000]


def check_output(text: str) -> None:
    bare = text.replace("\n", "").replace("\t", "")
    found = re.search(".{0,80}[\x00-\x1f\x7f-\x9f\u202a-\u202e].{0,20}", bare)
    assert found is None, repr(found and found[0])


def check_document(output: str, folder: Path) -> None:
    """Check what a command printed: a script, manifests with scripts, or messages."""
    check_output(output)
    if output.startswith("#!"):
        run_rendered(output, folder)
    elif "apiVersion:" in output:
        for document in yaml.safe_load_all(output):
            for name, text in (document.get("data") or {}).items():
                if name.endswith(".sh"):
                    run_rendered(text, folder)


TINY = "train --recipe tiny-cpu --method lora"
SWIFT = "train --recipe qwen-7b-npu-swift --method lora --variant zero3"
JOBS = {
    "script": f"{TINY} --as-script".split(),
    "slurm": f"{TINY} --nnodes 2 --port 29517 --on slurm --dry-run".split(),
    "k8s": f"{SWIFT} --storage d --on k8s --dry-run".split(),
    "provision": ["provision", "--recipe", "tiny-cpu", "--as-script"],
}
SKIPPED = ("--hosts", "--hostfile", "--dashboard", "--resume", "--lang")  # reach for other machines, or change the job


# Options that take such texts, in place of a path, an address or a version: what they render is checked, and run.
TAKEN = {
    "script": {"--data", "--runs", "--on-event", "--webhook", "--metrics-file", "--into", "--installed"},
    "slurm": {"--runs", "--installed", "--write"},
    "k8s": {"--runs", "--installed", "--write", "--context", "--annotation"},
    "provision": {"--into", "--weights"},
}
PAIRS = (f"k={EVERYTHING}", f"k=$(touch {CANARY})")


def throw(job: str, option: str, text: str, folder: Path) -> str:
    """Run the command with this value; return its output after checking that it ended as documented."""
    words = [*JOBS[job], f"{option}={text}"]
    if option == "--waive":
        words += ["--because", text]
    done = CliRunner().invoke(main, words, standalone_mode=False)
    if done.exception is not None:
        assert isinstance(done.exception, (EnvcheckError, click.ClickException, SystemExit)), (words, done.exc_info)
        return ""
    check_document(done.stdout, folder)
    return done.stdout


def throw_everywhere(job: str, texts: Iterable[str], folder: Path) -> set[str]:
    """Throw the texts at each option of the job; return the options that took one of them."""
    command = dict(list_commands())[(JOBS[job][0],)]
    options = {option.opts[0] for option in list_options(command)} - {*SKIPPED}
    pairs = [*itertools.product(sorted(options), texts)]
    return {option for option, text in pairs if throw(job, option, text, folder)}


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_nothing_of_an_option_runs(job: str, tmp_path: Path) -> None:
    """Quotes, substitutions, comments and redirections in a value arrive as they are, or the value is refused."""
    plain = CliRunner().invoke(main, JOBS[job], standalone_mode=False)

    assert plain.exception is None and len(plain.stdout.splitlines()) > 20, plain.output
    assert TAKEN[job] - throw_everywhere(job, (EVERYTHING, *PAIRS), tmp_path / "work") == set()


@pytest.mark.extended
@pytest.mark.parametrize("job", JOBS)
def test_nothing_of_an_option_runs_whatever_it_is(job: str, tmp_path: Path) -> None:
    """All hostile texts in each option: leading dashes, lines of sbatch, homes, tokens and texts of 10 kB too."""
    assert TAKEN[job] - throw_everywhere(job, (*PRINTABLE, *PAIRS), tmp_path / "work") == set()


def test_the_tests_find_what_runs(tmp_path: Path) -> None:
    """A script with a value that is not quoted fails the check."""
    with pytest.raises(AssertionError):
        run_rendered(f"#!/bin/bash\necho $(touch {CANARY})\n", tmp_path / "work")
    with pytest.raises(AssertionError):
        check_output("a\x1b[31m")


def list_leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each text in a TOML document."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from list_leaves(below, (*path, key))


def replace_leaf(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    if isinstance(value, list):
        return [replace_leaf(each, path[1:], text) if n == path[0] else each for n, each in enumerate(value)]
    return {key: replace_leaf(each, path[1:], text) if key == path[0] else each for key, each in value.items()}


def render_toml(table: Mapping[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {render_value(value)}\n" for key, value in table.items())


def render_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {render_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(render_value, value)) + "]"
    return json.dumps(value).replace("\x7f", "\\u007f")


RECIPES = ("tiny-cpu", "qwen-7b-npu-swift")
MODES = {"tiny-cpu": ("script", "slurm", "provision"), "qwen-7b-npu-swift": ("k8s",)}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_nothing_of_a_recipe_runs(name: str, tmp_path: Path) -> None:
    """Texts of a recipe are replaced in turn: the recipe is refused in words, or its scripts run nothing of it."""
    throws, accepted = throw_recipes(name, tmp_path, 4)

    assert throws > 15 and accepted > 5


@pytest.mark.extended
@pytest.mark.parametrize("name", RECIPES)
def test_nothing_of_any_field_of_a_recipe_runs(name: str, tmp_path: Path) -> None:
    """Each text of a recipe in each kind of script."""
    throws, accepted = throw_recipes(name, tmp_path, 1)

    assert throws > 100 and accepted > 20


def throw_recipes(name: str, folder: Path, step: int) -> tuple[int, int]:
    """Replace every `step`th text of a recipe; return how many recipes were tried, and how many gave a script."""
    table = tomllib.loads((ROOT / "installers" / "recipes" / f"{name}.toml").read_text())
    file = folder / "recipes" / f"{name}.toml"
    file.parent.mkdir()
    throws, accepted = 0, 0
    for number, path in enumerate(list(list_leaves(table))[::step]):
        text = LINES[number // 6 % len(LINES)] if number % 6 == 5 else EVERYTHING
        file.write_text(render_toml(replace_leaf(table, path, text)))
        jobs = MODES[name] if step == 1 else MODES[name][number % len(MODES[name]) :][:1]
        for job in jobs:
            throws += 1
            accepted += bool(throw(job, "--recipes", str(file.parent), folder / "work"))
    return throws, accepted


def test_nothing_of_a_configuration_reaches_the_terminal(tmp_path: Path) -> None:
    """Texts of a model's config.json are printed without control characters."""
    model = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128}  # fmt: skip
    folder = tmp_path / "work" / "model"
    folder.mkdir()
    for key in model:
        for text in (*LINES, EVERYTHING):
            (folder / "config.json").write_text(json.dumps({**model, key: text}))
            words = ["plan", "--model", str(folder), "--device", "nvidia", "--memory-gib", "80"]
            done = CliRunner().invoke(main, words, standalone_mode=False)
            check_output(done.output)
            if done.exception is not None:
                assert isinstance(done.exception, (EnvcheckError, SystemExit)), done.exc_info


def test_what_has_control_characters() -> None:
    """Letters of all languages and blanks have none; ends of lines, escapes and marks of direction are some."""
    assert not any(map(has_control_characters, ("a b", "模型", "a\u00a0b", "a\u3000b", "é", "")))
    assert all(map(has_control_characters, CONTROL))

"""Hostile texts in every option and in the fields of data files: nothing of them is run, and no terminal obeys them."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
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
    lines = [line.removeprefix("#SBATCH") for line in text.splitlines() if line.startswith("#SBATCH")]
    assert not [word for line in lines for word in shlex.split(line) if word.startswith("--uid")], text[:2000]
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


def patch_everywhere(text: str) -> Iterator[tuple[list[Any] | dict[str, Any], tuple[Any, ...]]]:
    """Yield (patch, path of the text in the job that it makes): values of every kind that a patch can have."""
    for path in (("metadata", "annotations", "k"), ("metadata", "labels", "k"), ("spec", "runPolicy", "k")):
        body: Any = text
        for key in reversed(path):
            body = {key: body}
        yield body, path
    yield [{"op": "add", "path": "/spec/k", "value": {"k": [text]}}], ("spec", "k", "k", 0)
    template = ("spec", "pytorchReplicaSpecs", "Worker", "template")
    yield {"kind": "Pod", "metadata": {"annotations": {"k": text}}}, (*template, "metadata", "annotations", "k")
    yield {"kind": "Pod", "spec": {"nodeSelector": {"k": text}}}, (*template, "spec", "nodeSelector", "k")
    yield {"kind": "Pod", "spec": {"hostname": text}}, (*template, "spec", "hostname")
    added = {"name": "pytorch", "env": [{"name": "K", "value": text}]}
    yield {"kind": "Pod", "spec": {"containers": [added]}}, (*template, "spec", "containers", 0, "env", -1, "value")
    side = {"name": "side", "image": text, "command": ["sh", "-c", text]}
    yield {"kind": "Pod", "spec": {"containers": [side]}}, (*template, "spec", "containers", 1, "command", 2)


def list_scripts(manifests: str) -> list[Any]:
    """Return the files of each document, without the time in the name of the run."""
    return [document.get("data") for document in yaml.safe_load_all(re.sub(r"-\d{4}-\d{6}\b", "", manifests))]


def find_value(node: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        node = node[key]
    return node


NODES = ("--nnodes", "2")
HOSTILE = (*PRINTABLE, *LINES, "a\x00b", "---\nkind: Secret\n", "!!python/object/apply:os.system ['touch PWNED']", "no")


def throw_patches(texts: Iterable[str], folder: Path) -> int:
    """Write each text into each place of a patch; return how many manifests had it, unchanged and nowhere else."""
    plain = CliRunner().invoke(main, [*JOBS["k8s"], *NODES], standalone_mode=False)
    assert plain.exception is None, plain.output
    scripts = list_scripts(plain.stdout)
    count, file = 0, folder / "patch.json"
    for text in texts:
        for patch, path in patch_everywhere(text):
            file.write_text(json.dumps(patch))
            done = CliRunner().invoke(main, [*JOBS["k8s"], *NODES, "--patch", str(file)], standalone_mode=False)
            if done.exception is not None:
                assert isinstance(done.exception, EnvcheckError), done.exc_info
                check_output(str(done.exception))
                continue
            check_output(done.stdout)
            documents = list(yaml.safe_load_all(done.stdout))
            assert list_scripts(done.stdout) == scripts
            job = next(document for document in documents if document["kind"] == "PyTorchJob")
            assert find_value(job, path) == text
            count += 1
    assert not list(folder.rglob(CANARY))
    return count


@pytest.mark.slow
def test_nothing_of_a_patch_leaves_its_place(tmp_path: Path) -> None:
    """A text of a patch is in the manifest as it is, in one place; the scripts of the job stay as they were."""
    assert throw_patches((EVERYTHING, LINES[0], "a\x00b"), tmp_path / "work") == 27


@pytest.mark.extended
def test_nothing_of_any_patch_leaves_its_place(tmp_path: Path) -> None:
    """All hostile texts: tags and documents of YAML, words that YAML reads as a truth value, texts of 10 kB too."""
    assert throw_patches(HOSTILE, tmp_path / "work") == 9 * len(HOSTILE)


def list_sites(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (field, table): the text in each field of [site], also behind the beginning that the field asks for."""
    yield "registries", {"registries": [text]}
    yield "registries", {"registries": [f"r.example/{text}"]}
    for start in ("", "http://h.example/", "http://u:p@h.example/"):
        yield "index", {"index": start + text}
        yield "extra_index", {"extra_index": [start + text]}
        yield "proxy", {"proxy": start + text}
        yield "rewrites", {"rewrites": {"https://github.com/": start + text}}
    yield "no_proxy", {"no_proxy": [text]}
    yield "ca_bundle", {"ca_bundle": text}
    yield "ca_bundle", {"ca_bundle": f"/{text}"}
    yield "rewrites", {"rewrites": {text: "https://h.example/"}}
    yield "rewrites", {"rewrites": {f"https://h.example/{text}": "https://h.example/"}}
    yield "mounts", {"mounts": [{"source": f"/{text}", "target": "/data"}]}
    yield "mounts", {"mounts": [{"source": "/data", "target": f"/{text}"}]}
    yield "mounts", {"mounts": [{"source": text, "target": text}]}
    yield "environment", {"environment": {"K": text}}
    yield "environment", {"environment": {text: "1"}}


SITE_JOBS = (
    ("provision", "--recipe", "tiny-cpu", "--as-script"),
    ("provision", "--recipe", "qwen-7b-npu-swift", "--as-script"),
)
SITE_FIELDS = {
    "registries",
    "index",
    "extra_index",
    "proxy",
    "rewrites",
    "no_proxy",
    "ca_bundle",
    "mounts",
    "environment",
}


def throw_sites(texts: Iterable[str], folder: Path, jobs: Iterable[tuple[str, ...]]) -> set[str]:
    """Write each text into each field of [site]; return the fields of which one text was taken."""
    taken, file = set(), folder / "site.toml"
    for text, job in itertools.product(texts, jobs):
        for name, table in list_sites(text):
            file.write_text(render_toml({"site": table}))
            done = CliRunner().invoke(main, [*job, "--config", str(file)], standalone_mode=False)
            if done.exception is None or done.stdout:
                check_document(done.stdout, folder)
                taken.add(name)
            if done.exception is not None:
                assert isinstance(done.exception, (EnvcheckError, SystemExit)), (job, table, done.exc_info)
                check_output(str(done.exception))
    return taken


@pytest.mark.slow
def test_nothing_of_a_site_runs(tmp_path: Path) -> None:
    """Texts of [site] are quoted in scripts and plans, or refused in words."""
    assert throw_sites((EVERYTHING, "é" * 3_000), tmp_path / "work", SITE_JOBS) >= {"environment", "mounts"}


@pytest.mark.extended
@pytest.mark.parametrize("job", SITE_JOBS, ids=" ".join)
def test_nothing_of_any_site_runs(job: tuple[str, ...], tmp_path: Path) -> None:
    """All hostile texts in each field, in each script."""
    assert throw_sites(HOSTILE, tmp_path / "work", [job]) == SITE_FIELDS

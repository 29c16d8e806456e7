"""The collector as it travels: for every Python from 3.6 on without any package; it answers as envcheck itself does."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from envcheck.collect import answer_sources, facts
from envcheck.collect.host import collectors
from envcheck.collect.question_queue import QuestionQueue, redact_answers
from envcheck.core.model import Answer
from envcheck.fleet.output import HostOutput
from envcheck.payload import remote_collector
from envcheck.payload.remote_collector import MARK
from envcheck.simulate import machine_file as described
from envcheck.simulate import simulated_run
from tests.envcheck.checks.doctor_helpers import MACHINES

slow = pytest.mark.slow
# Of the standard library and of Python, what 3.6 does not have: modules, functions, methods, keywords.
NEWER = re.compile(
    r"from __future__ import annotations|\bdataclass|\bgraphlib\b|\bzoneinfo\b|importlib\.(?:resources|metadata)"
    r"|SimpleQueue|removeprefix|removesuffix|capture_output|missing_ok|fromisoformat|isascii|(?<!os)\.readlink\(|is_relative_to|math\.prod"
    r"|functools\.(cache|cached_property)\b|shlex\.join|strict=|nullcontext|pidfd_open|contextvars|monotonic_ns|text=True"
)


def list_pythons() -> list[str]:
    """All Python interpreters of this machine: pyenv's, the system's, and at least the running one."""
    named = [shutil.which(f"python3.{minor}") for minor in range(6, 16)]
    shim = shutil.which("pyenv")
    roots = [Path(r) for r in (os.environ.get("PYENV_ROOT"), shim and Path(shim).resolve().parents[1]) if r]
    found = [str(path) for root in roots for path in sorted(root.glob("versions/3.*/bin/python3"))]
    return found or [name for name in named if name and "shims" not in name] or [sys.executable]


def run_collector(folder: Path, python: str, shell: tuple[str, ...] = ("sh",), **variables: str) -> HostOutput:
    """The command as a login shell would run it, asked as the fleet's driver asks."""
    (folder / "bin").mkdir(exist_ok=True)
    link = folder / "bin" / "python3"
    link.unlink(missing_ok=True)
    link.symlink_to(python)
    env = {**os.environ, "PATH": f"{folder / 'bin'}:/usr/bin:/bin", **variables}
    program, interview, output = remote_collector.render_program(60), QuestionQueue(), HostOutput("n1")
    argv = [*shell, "-c", remote_collector.render_command(len(program))]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as child:
        assert child.stdin and child.stdout and child.stderr
        child.stdin.write(program + remote_collector.render_questions(interview.list_first_questions()))
        child.stdin.flush()
        for line in child.stdout:
            _, answer = output.add_output_line(line.rstrip(b"\n"))
            opened = interview.add_answer(answer) if answer else []
            if opened:
                child.stdin.write(remote_collector.render_questions(opened))
                child.stdin.flush()
            if interview.is_over:
                output.answers = redact_answers(interview.answers)
                break
        child.stdin.close()
        output.err = child.stderr.read().decode()
    output.status = child.returncode
    return output


def read_answers(output: HostOutput) -> dict[str, Answer]:
    assert output.answers is not None, (output.words, output.unreadable, output.err)
    assert output.status == 0, output.err
    return output.answers


def test_nothing_but_the_old_standard_library() -> None:
    """Every module is Python 3.6 to its parser, names nothing that came later, and imports the standard library and
    what travels with it."""
    sources = remote_collector.collect_sources()
    for name, text in sources.items():
        tree = ast.parse(text, name, feature_version=(3, 6))
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        modules = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        ours = [f"{n.module}.{a.name}" for n in froms if n.module in remote_collector.PACKAGES for a in n.names]
        modules += [n.module or "" for n in froms if n.module not in remote_collector.PACKAGES]

        assert set(ours) <= set(sources), name
        assert {m for m in modules if m.startswith("envcheck")} <= set(sources), name
        assert {m.split(".")[0] for m in modules} - {"envcheck"} <= set(sys.stdlib_module_names), name
        assert not NEWER.findall(text), name
        assert not [n for n in ast.walk(tree) if isinstance(n, (ast.NamedExpr, ast.AnnAssign)) and not _is_field(n)], (
            name
        )


def _is_field(node: ast.AST) -> bool:
    """With an annotation that 3.6 can evaluate, or in quotes."""
    return isinstance(node, ast.AnnAssign) and isinstance(node.annotation, (ast.Name, ast.Constant))


def test_annotations_are_plain_or_quoted() -> None:
    """Python 3.6 evaluates them: `list[str]` and `str | None` would be errors there."""
    for name, text in remote_collector.collect_sources().items():
        functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
        all_arguments = [a for f in functions for a in (*f.args.args, *f.args.kwonlyargs, f.args.vararg, f.args.kwarg)]
        annotations = [a.annotation for a in all_arguments if a and a.annotation] + [f.returns for f in functions]

        assert all(isinstance(a, (ast.Name, ast.Constant)) for a in annotations), name


def test_it_is_small() -> None:
    """The collector sent to each host stays below its size limit."""
    assert len(remote_collector.render_program(60)) < 40_000


@slow
@pytest.mark.parametrize("name", MACHINES)
def test_it_answers_what_envcheck_answers(name: str, tmp_path: Path) -> None:
    """On each simulated machine the oldest Python's answers are those of envcheck itself, word for word."""
    with simulated_run.write_machine_folder(described.load_machine(name, None), tmp_path / "machine") as folder:
        own = facts.ask_machine(answer_sources.simulated_machine(folder))
        found = read_answers(run_collector(tmp_path, list_pythons()[0], ENVCHECK_SYSROOT=str(folder)))

    assert {key: (a.outcome, a.out, a.err, a.status) for key, a in found.items()} == {
        key: (a.outcome, a.out, a.err, a.status) for key, a in own.items()
    }


@slow
@pytest.mark.parametrize("python", list_pythons())
def test_it_collects_by_itself(python: str, tmp_path: Path) -> None:
    """Of this very machine all collectors answer under each Python that is here, without any package."""
    found = read_answers(run_collector(tmp_path, python))

    assert [a.err for key, a in found.items() if key.startswith("ask ") and not a.ok] == []
    assert json.loads(found["ask host"].out)["memory_total_bytes"] == psutil.virtual_memory().total


@slow
@pytest.mark.parametrize("shell", [("sh",), ("bash",), ("dash",), ("busybox", "sh")])
def test_login_shells(shell: tuple[str, ...], tmp_path: Path) -> None:
    """The command is one line that each of these shells accepts."""
    found = run_collector(tmp_path, sys.executable, shell if shutil.which(shell[0]) else ("sh",))

    assert read_answers(found)
    assert "\n" not in remote_collector.render_command(100)


@pytest.mark.parametrize(("tool", "words"), [("exit 1", "no-python"), ('echo "MARK old-python 3.5"', "old-python 3.5")])
def test_hosts_without_such_a_python(tool: str, words: str, tmp_path: Path) -> None:
    """A host without Python and a host with a Python that is too old give different reasons."""
    if words == "no-python":
        text = remote_collector.render_command(10).replace("python3", "no-such-python").replace("/usr/libexec", "/none")
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    else:
        first = remote_collector.render_program(60).decode().replace("(3, 6)", "(99, 0)", 1)
        done = subprocess.run([sys.executable, "-I", "-S", "-c", first], capture_output=True, text=True, check=False)
        words = f"old-python {sys.version_info[0]}.{sys.version_info[1]}"

    assert done.stdout.split("\n") == ["", f"{MARK} {words}", ""]


def test_it_ends_with_its_input(tmp_path: Path) -> None:
    """A connection that is lost ends the collector and the tools that it runs."""
    program = remote_collector.render_program(60)
    argv = ["sh", "-c", remote_collector.render_command(len(program))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin and child.stdout
        child.stdin.write(
            program + b'[["run", ["sh", "-c", "echo $$ > %s/pid; exec sleep 300"], 60]]\n' % bytes(tmp_path)
        )
        child.stdin.flush()
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text().strip():
            pass
        child.stdin.close()
        child.wait(30)

    assert not psutil.pid_exists(int((tmp_path / "pid").read_text())) or _is_zombie(tmp_path)


def _is_zombie(folder: Path) -> bool:
    return psutil.Process(int((folder / "pid").read_text())).status() == psutil.STATUS_ZOMBIE


def test_memory_disks_and_interfaces_as_psutil_has_them() -> None:
    """Values read without psutil equal those of psutil."""
    kinds = (socket.AF_INET, socket.AF_INET6)
    lo = [a.address for a in psutil.net_if_addrs()["lo"] if a.family in kinds]
    host, interface = collectors.collect_host(), collectors.collect_network()["interfaces"]["lo"]

    assert host["memory_total_bytes"] == psutil.virtual_memory().total
    assert (host["swap_total_bytes"], host["swap_used_bytes"]) == psutil.swap_memory()[:2]
    assert {d.mountpoint for d in psutil.disk_partitions() if d.mountpoint == "/"} <= collectors.collect_disks().keys()
    assert interface == {"addresses": lo, "mtu": psutil.net_if_stats()["lo"].mtu, "up": True}

"""Tab completion: click's own means, in a real bash, with the names that envcheck knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def run_envcheck(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **env}
    return subprocess.run(["envcheck", *argv], env=around, capture_output=True, text=True, timeout=60)


def list_completions(*words: str) -> list[str]:
    """What bash would be offered behind these words, the last of which is being typed."""
    done = run_envcheck(_ENVCHECK_COMPLETE="bash_complete", COMP_WORDS=" ".join(words), COMP_CWORD=str(len(words) - 1))
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("envcheck", "doc"), {"doctor"}),
        (("envcheck", "doctor", "--dev"), {"--device"}),
        (("envcheck", "doctor", "--device", "n"), {"npu", "nvidia"}),
        (("envcheck", "doctor", "--only", "host.sh"), {"host.shm"}),
        (("envcheck", "doctor", "--model", "ERNIE-4.5-300B"), {"ERNIE-4.5-300B-A47B-Base"}),
        (("envcheck", "provision", "--recipe", "tiny-c"), {"tiny-cpu"}),
        (("envcheck", "recipes", "show", "ernie-300b"), {"ernie-300b-npu"}),
        (("envcheck", "simulate", "h200"), {"h200x8"}),
    ],
)
def test_offered(words: tuple[str, ...], expected: set[str]) -> None:
    """Commands, options, and behind an option the names that it takes."""
    assert expected <= set(list_completions(*words))


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_script(shell: str) -> None:
    """Each shell reads its own without a complaint, where there is one to try."""
    done = run_envcheck("completion", shell)
    assert done.returncode == 0 and "_ENVCHECK_COMPLETE" in done.stdout
    if shutil.which(shell):
        read = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, timeout=120)
        assert (read.returncode, read.stderr) == (0, "")


def test_bash_completes() -> None:
    """The function that the script defines puts the words where bash looks for them."""
    script = run_envcheck("completion", "bash").stdout
    ask = "COMP_WORDS=(envcheck doctor --device ilu); COMP_CWORD=3; _envcheck_completion envcheck ilu --device; "
    around = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    argv = ["bash", "--norc", "-c", f'{script}\n{ask} printf "%s\\n" "${{COMPREPLY[@]}}"']
    done = subprocess.run(argv, env=around, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["iluvatar"]


def test_unknown_shell() -> None:
    """A sentence with the shells that there are."""
    done = run_envcheck("completion", "tcsh")
    assert done.returncode == 2 and "bash" in done.stderr

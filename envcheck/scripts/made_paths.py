"""The paths that a script itself may create before its training reads them."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.lint.script_model import ShellCommand, ShellScript
from envcheck.core.lint.wrappers import program_name

_MAKERS = (
    *("wget", "curl", "cp", "mv", "ln", "tar", "unzip", "mkdir"),
    *("git", "touch", "huggingface-cli", "modelscope", "hf"),
)
# Commands that write no files of a training, apart from their redirections.
_READERS = frozenset([
    "[", "[[", "test", ":", "true", "false", "cd", "pushd", "popd", "pwd", "export", "declare", "typeset", "local",
    "readonly", "unset", "set", "shopt", "shift", "read", "let", "eval", "source", ".", "trap", "ulimit", "umask",
    "wait", "sleep", "exit", "return", "exec", "command", "type", "which", "hash", "kill", "pkill", "killall", "rm",
    "rmdir", "chmod", "mkdir", "echo", "printf", "cat", "head", "tail", "grep", "egrep", "sed", "awk", "cut", "tr",
    "sort", "uniq", "wc", "ls", "find", "stat", "du", "df", "free", "date", "hostname", "uname", "whoami", "id",
    "nproc", "seq", "basename", "dirname", "readlink", "realpath", "env", "printenv", "ps", "pgrep", "lsof",
    "nvidia-smi", "npu-smi", "ixsmi", "xpu-smi", "conda", "mamba", "micromamba", "module", "ml", "pip", "pip3",
    "uv", "apt", "apt-get", "yum",
])  # fmt: skip


@dataclass(frozen=True)
class MadePaths:
    """Files that a script writes, and words of its commands that make files."""

    written: frozenset[str]
    words: frozenset[str]


def list_makers(script: ShellScript) -> MadePaths:
    """Return what the commands of the script write or make."""
    written = {r.target.text for c in script.commands for r in c.redirects if r.target is not None and ">" in r.text}
    making = (c for c in script.commands if program_name(c) in _MAKERS)
    return MadePaths(frozenset(written), frozenset(word.text.rstrip("/") for c in making for word in c.words[1:]))


def is_made_by_script(script: ShellScript, made: MadePaths, path: str) -> bool:
    """Whether the script tests for the path, writes it, or downloads it."""
    if path in script.tested or path in made.written:
        return True
    name = path.rstrip("/").rpartition("/")[2]
    return bool(name) and any(word.endswith(name) or path.startswith(word + "/") for word in made.words)


def runs_only_readers(script: ShellScript, last: ShellCommand) -> bool:
    """Whether all commands before `last` are known to write no files, and `last` itself is surely executed here."""
    before = (command for command in script.commands if command.order < last.order and command.words)
    return not (last.branch or last.elsewhere) and all(program_name(command) in _READERS for command in before)

"""The program that a command starts in the end: without sudo, env, nohup, timeout and the like; and where it runs."""

from __future__ import annotations

from envcheck.core.lint.model import Command, Word

ENGINES = ("docker", "podman", "nerdctl")
REMOTE_SHELLS = ("ssh", "pdsh", "pssh", "parallel-ssh", "clush", "dsh")
REMOTE = (*ENGINES, "kubectl", *REMOTE_SHELLS)  # in a container, or on another machine
AWAY = ("kubectl", "srun", "mpirun", "mpiexec", *REMOTE_SHELLS)  # on another machine than the one at hand
WRAPPERS = {
    "sudo": "ugpCD",
    "env": "uC",
    "nohup": "",
    "exec": "a",
    "time": "fo",
    "nice": "n",
    "stdbuf": "ioe",
    "setsid": "",
    "command": "",
    "taskset": "c",
    "numactl": "mNCp",
    "timeout": "ks",
    "ionice": "cn",
}
_TAKES_ONE = ("timeout", "taskset")  # a word of their own before the command: the limit, the mask


def unwrapped(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of the program that is started in the end."""
    for _ in range(6):
        name = words[0].text.rpartition("/")[2] if words and words[0].known else ""
        if name not in WRAPPERS or len(words) < 2:
            return words
        at = 1
        while at < len(words) and (words[at].text.startswith("-") or (name == "env" and "=" in words[at].text)):
            flag = words[at].text
            takes = flag[:1] == "-" and flag[:2] != "--" and len(flag) == 2 and flag[1] in WRAPPERS[name]
            at += 1 + takes
        if name in _TAKES_ONE and at < len(words) and (name == "timeout" or words[at - 1].text not in ("-c",)):
            at += 1
        words = words[at:]
    return words


def bare(command: Command) -> str:
    """The name of the program, without what wraps it."""
    words = unwrapped(command.words)
    return words[0].text.rpartition("/")[2] if words and words[0].known else ""

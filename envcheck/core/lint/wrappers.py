"""The program that a command actually starts, without sudo, env, nohup, timeout and the like; and where it runs."""

from __future__ import annotations

from envcheck.core.lint.script_model import ShellCommand, ShellWord

ENGINES = ("docker", "podman", "nerdctl")
REMOTE_SHELLS = ("ssh", "pdsh", "pssh", "parallel-ssh", "clush", "dsh")
REMOTE = (*ENGINES, "kubectl", *REMOTE_SHELLS)  # run a command in a container, or on another host
OTHER_MACHINE_COMMANDS = (
    "kubectl",
    "srun",
    "mpirun",
    "mpiexec",
    *REMOTE_SHELLS,
)  # run a command on another host
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
_TAKES_ONE = ("timeout", "taskset")  # take one argument before the command: the limit, the mask


def strip_wrappers(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """Return the words of the program that is actually started."""
    for _ in range(6):
        name = words[0].text.rpartition("/")[2] if words and words[0].is_known else ""
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


def program_name(command: ShellCommand) -> str:
    """Return the base name of the program without its wrappers, "" if unknown."""
    if command.name not in WRAPPERS:
        return command.name
    words = strip_wrappers(command.words)
    return words[0].text.rpartition("/")[2] if words and words[0].is_known else ""

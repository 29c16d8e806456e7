#!/usr/bin/python3 -ISE
"""An OCI runtime for test machines: takes out of a container's specification what this machine cannot grant, then is
runc.

A virtual machine for tests often lacks a capability; runc refuses `--privileged` and `--cap-add=ALL` there.  Docker
hands the specification over as BUNDLE/config.json for `create` and as the file of --process for `exec`.
"""

import contextlib
import json
import os
import resource
import shutil
import sys
from pathlib import Path

# In the order of their numbers: linux/capability.h.
NAMES = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"""


def grantable():
    """The capabilities in this process's bounding set."""
    status = Path("/proc/self/status").read_text()
    mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd"))
    return {f"CAP_{name}" for number, name in enumerate(NAMES.split()) if mask & 1 << number}


def trim_process(process):
    """What cannot be granted goes; without SYS_RESOURCE neither a hard limit can rise nor an OOM score fall."""
    granted = grantable()
    sets = process.get("capabilities") or {}
    for name, wanted in sets.items():
        sets[name] = [capability for capability in wanted or () if capability in granted]
    if "CAP_SYS_RESOURCE" in granted:
        return
    process["oomScoreAdj"] = max(0, process.get("oomScoreAdj") or 0)
    for limit in process.get("rlimits") or ():
        highest = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if highest != resource.RLIM_INFINITY:
            limit.update(hard=min(limit["hard"], highest), soft=min(limit["soft"], highest))


def rewrite(path, where):
    """Trim the process in the JSON file, which `where` finds in it."""
    document = json.loads(path.read_text())
    trim_process(where(document))
    path.write_text(json.dumps(document))


def value_of(arguments, *options):
    """The value of the first of the options, written `--x v` or `--x=v`."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        name, equals, value = word.partition("=")
        if equals and name in options:
            return value
        if before in options:
            return word
    return None


def main(arguments):
    """Trim what this call brings, and become runc."""
    with contextlib.suppress(OSError, ValueError, KeyError):  # runc says better what is wrong
        if "create" in arguments or "run" in arguments:
            bundle = value_of(arguments, "--bundle", "-b") or "."
            rewrite(Path(bundle) / "config.json", lambda spec: spec["process"])
        elif "exec" in arguments:
            rewrite(Path(value_of(arguments, "--process", "-p") or ""), lambda process: process)
    runc = shutil.which("runc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    os.execv(runc or "/usr/sbin/runc", ["runc", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])

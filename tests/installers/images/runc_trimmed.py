#!/usr/bin/python3 -ISE
"""An OCI runtime for test machines: removes from a container's specification what this machine cannot grant, then runs
runc.

Virtual machines for tests often lack a capability; runc then refuses `--privileged` and `--cap-add=ALL`.  Docker
passes the specification as BUNDLE/config.json for `create` and as the file of --process for `exec`.
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


def list_grantable():
    """Return the capabilities in this process's bounding set."""
    status = Path("/proc/self/status").read_text()
    mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd"))
    return {f"CAP_{name}" for number, name in enumerate(NAMES.split()) if mask & 1 << number}


def trim_process(process):
    """Remove what cannot be granted; without SYS_RESOURCE no hard limit can be raised and no OOM score lowered."""
    granted = list_grantable()
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


def rewrite_process(path, where):
    """Trim the process in the JSON file at the key `where`."""
    document = json.loads(path.read_text())
    trim_process(where(document))
    path.write_text(json.dumps(document))


def find_option_value(arguments, *options):
    """Return the value of the first of the options, written `--x v` or `--x=v`."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        name, equals, value = word.partition("=")
        if equals and name in options:
            return value
        if before in options:
            return word
    return None


def main(arguments):
    """Trim the specification of this call, then exec runc."""
    with contextlib.suppress(OSError, ValueError, KeyError):  # runc says better what is wrong
        if "create" in arguments or "run" in arguments:
            bundle = find_option_value(arguments, "--bundle", "-b") or "."
            rewrite_process(Path(bundle) / "config.json", lambda spec: spec["process"])
        elif "exec" in arguments:
            rewrite_process(Path(find_option_value(arguments, "--process", "-p") or ""), lambda process: process)
    runc = shutil.which("runc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    os.execv(runc or "/usr/sbin/runc", ["runc", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])

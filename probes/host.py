"""What the host itself tells, by psutil and the standard library; each collector returns plain JSON values.

host         {hostname, kernel, architecture, os, cpu_count, memory_total_bytes, memory_available_bytes,
              swap_total_bytes, swap_used_bytes, hugepages_total, hugepages_free, numa_nodes, euid, in_container}
disks        {path: {total_bytes, free_bytes}} for /, /dev/shm, the working folder, envcheck's home, /var/lib/docker
limits       {open_files_soft, open_files_hard, memlock_soft_bytes, memlock_hard_bytes}; -1 is unlimited
environment  {NAME: value} of the variables that training reads, secrets blanked
network      {hostname_resolves_to: [address], interfaces: {name: {addresses: [..], mtu, up}}}
clock        {synchronised: true | false | null, time: seconds since 1970}
packages     {python, executable, packages: {name: version}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

COLLECTORS: Mapping[str, Callable[[], dict[str, Any]]] = {}

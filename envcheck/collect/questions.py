"""What is asked of every host, whatever cards it has."""

from __future__ import annotations

from envcheck.core.model import Question
from envcheck.core.vendor import list_paths, read, run

COLLECTORS = (
    *("host", "disks", "limits", "environment", "network", "clock", "packages"),
    *("caller", "paths", "processes", "kernel", "containers", "libraries", "loader", "rdma", "bus", "rank_table"),
)

# Name, digest of the registry, number of its own: one name should be one image on all machines.
IMAGES = run(
    *("docker", "images", "--digests", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.Digest}} {{.ID}}"),
    timeout_s=10.0,
)
LIBAIO = (list_paths("/usr/lib/*/libaio.so*"), list_paths("/usr/lib64/libaio.so*"))  # Debian's place, and others'
HOST_QUESTIONS: tuple[Question, ...] = (
    *(Question("ask", (name,), 10.0) for name in COLLECTORS),
    *LIBAIO,
    read("/proc/sys/net/ipv4/ip_local_port_range"),
    read("/proc/sys/net/ipv4/ip_local_reserved_ports"),
    read("/etc/docker/daemon.json"),
    read("/var/lib/kubelet/cpu_manager_state"),
    read("/etc/containerd/config.toml"),
    IMAGES,
    run("docker", "info", "--format", "{{json .}}"),
)

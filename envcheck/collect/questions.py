"""The questions that are asked on every host, whatever devices it has."""

from __future__ import annotations

from envcheck.core.model import Question
from envcheck.core.vendor import list_question, read_question, run_question

COLLECTORS = (
    *("host", "disks", "limits", "environment", "network", "clock", "packages"),
    *("caller", "paths", "processes", "kernel", "containers", "libraries", "loader", "rdma", "bus", "rank_table"),
)

# Name, registry digest and id: one name should be the same image on all hosts.
IMAGES = run_question(
    *("docker", "images", "--digests", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.Digest}} {{.ID}}"),
    timeout_s=10.0,
)
LIBAIO = (
    list_question("/usr/lib/*/libaio.so*"),
    list_question("/usr/lib64/libaio.so*"),
)  # Debian, and other distributions
HOST_QUESTIONS: tuple[Question, ...] = (
    *(Question("ask", (name,), 10.0) for name in COLLECTORS),
    *LIBAIO,
    read_question("/proc/sys/net/ipv4/ip_local_port_range"),
    read_question("/proc/sys/net/ipv4/ip_local_reserved_ports"),
    read_question("/etc/docker/daemon.json"),
    read_question("/var/lib/kubelet/cpu_manager_state"),
    read_question("/etc/containerd/config.toml"),
    IMAGES,
    run_question("docker", "info", "--format", "{{json .}}"),
)

"""Which host an output is of: prefixes of its lines, titles above it, prompts, and commands that run elsewhere."""

from __future__ import annotations

import pytest

from probes.paste.paste_parser import parse_paste
from tests.probes.paste.test_paste_parser import TOOLS, read_recording

LISTING = read_recording("nvidia_smi/table/a100x8_535.txt")
LINES = LISTING.splitlines()
DASHES = "-" * 15
# What stands for each of two hosts before each of its lines.
PREFIXES = {
    "pdsh": ("node1: ", "node2: "),
    "address": ("10.0.0.1: ", "10.0.0.2: "),
    "srun": ("0: ", "1: "),
    "srun of ten tasks": (" 9: ", "10: "),
    "mpirun": ("[1,0]<stdout>:", "[1,1]<stdout>:"),
    "ray": ("(Worker pid=7, ip=10.0.0.1) ", "(Worker pid=8, ip=10.0.0.2) "),
    "coloured ray": ("\x1b[36m(Worker pid=7)\x1b[0m ", "\x1b[36m(Worker pid=8)\x1b[0m "),
}
# What stands above the output of each host, and the host.
TITLES = {
    "ansible": ("gpu-01 | CHANGED | rc=0 >>", "gpu-01"),
    "clush": (f"{DASHES}\ngpu[1-4,7]\n{DASHES}", "gpu[1-4,7]"),
    "pssh": ("[1] 10:33:01 [SUCCESS] gpu-01", "gpu-01"),
    "tail": ("==> gpu-01 <==", "gpu-01"),
    "equals": ("==== gpu-01 ====", "gpu-01"),
    "stars": ("***** 10.0.0.7 *****", "10.0.0.7"),
    "prompt": ("[root@gpu-01 ~]# nvidia-smi", "gpu-01"),
    "ssh": ("[root@login ~]# ssh -p 22 root@gpu-01 nvidia-smi", "gpu-01"),
    "quoted ssh": ("$ ssh gpu-01 'nvidia-smi'", "gpu-01"),
    "kubectl": ("$ kubectl exec -it pod-a -- nvidia-smi", "pod-a"),
    "watch": ("Every 2.0s: nvidia-smi                        gpu-01: Fri Jul  4 10:00:00 2026", "gpu-01"),
    "command between dashes": (f"{DASHES}\nnvidia-smi", ""),
}


@pytest.mark.parametrize("marks", PREFIXES.values(), ids=PREFIXES)
def test_prefixes_tell_hosts_apart(marks: tuple[str, str]) -> None:
    """Interleaved or one host after the other: each has its own devices."""
    alone = parse_paste(LISTING, TOOLS)

    for text in (
        "".join(f"{mark}{line}\n" for line in LINES for mark in marks),
        "".join(f"{mark}{line}\n" for mark in marks for line in LINES),
    ):
        found = parse_paste(text, TOOLS)

        assert [part.devices for part in found.parts] == [alone.devices, alone.devices]
        assert len({part.host for part in found.parts} - {""}) == 2
        assert len(found.devices) == 2 * len(alone.devices)


@pytest.mark.parametrize("marks", PREFIXES.values(), ids=PREFIXES)
def test_one_prefix_is_no_content(marks: tuple[str, str]) -> None:
    """The lines of a single host are read without what stands before each."""
    found = parse_paste("".join(f"{marks[0]}{line}\n" for line in LINES), TOOLS)

    assert found.devices == parse_paste(LISTING, TOOLS).devices


@pytest.mark.parametrize(("title", "host"), TITLES.values(), ids=TITLES)
def test_titles_and_commands_name_the_host(title: str, host: str) -> None:
    """The host of the second output is its own, also where the first one has another."""
    first = f"[root@other ~]# nvidia-smi\n{LISTING}\n" if host else ""
    found = parse_paste(f"{first}{title}\n{LISTING}", TOOLS)

    hosts = [part.host for part in found.parts] or [found.host]
    assert hosts == (["other", host] if host else [""])


def test_the_host_of_each_line_outranks_the_prompt() -> None:
    """Every container of a cluster may have the same name in its prompt."""
    lines = ["[root@container ~]# nvidia-smi", *LINES]
    text = "".join(f"{host}: {line}\n" for host in ("node1", "node2") for line in lines)

    assert [part.host for part in parse_paste(text, TOOLS).parts] == ["node1", "node2"]


def test_numbers_of_lines_are_no_hosts() -> None:
    """`grep -n` counts lines; the text is one output."""
    found = parse_paste("".join(f"{at}: {line}\n" for at, line in enumerate(LINES, 1)), TOOLS)

    assert (found.kind, len(found.devices)) == ("table", 8)


def test_the_first_line_behind_a_title() -> None:
    """`ansible --one-line` puts the title and the header of a CSV into one line."""
    rows = "index, name, memory.used [MiB], memory.total [MiB]\n0, Tesla T4, 5 MiB, 15360 MiB\n"
    text = "".join(f"{host} | CHANGED | rc=0 | (stdout) {rows}" for host in ("node1", "node2"))

    found = parse_paste(text, TOOLS)

    assert [(part.host, [each.memory_used_mib for each in part.devices]) for part in found.parts] == [
        ("node1", [5]),
        ("node2", [5]),
    ]


def test_one_line_of_each_host() -> None:
    """`pdsh -w node[1-2] hccn_tool ...` prints a line or two per host; a link's number is no host."""
    text = "".join(f"node{at}: link status: {status}\n" for at, status in ((1, "UP"), (2, "DOWN")))
    parts = "".join(f"link{at}: link status: UP\n" for at in range(2))

    found = parse_paste(text, TOOLS)

    assert [(part.host, part.detail["fields"]) for part in found.parts] == [
        ("node1", {"link status": "UP"}),
        ("node2", {"link status": "DOWN"}),
    ]
    assert not parse_paste(parts, TOOLS).parts


@pytest.mark.parametrize("is_first", [True, False], ids=["above", "below"])
def test_lines_without_a_host_are_not_lost(is_first: bool) -> None:
    """An output among the lines of a host that has nine in ten of them is read, too, in its place."""
    hosts = "".join(f"[1,0]<stdout>:{line}\n" for line in LINES * 9)
    message = "No devices were found\n"
    devices = parse_paste(LISTING, TOOLS).devices

    found = parse_paste(f"{message}\n{hosts}" if is_first else f"{hosts}\n{message}", TOOLS)

    kinds = ["table"] * 9
    assert [part.kind for part in found.parts] == (["error", *kinds] if is_first else [*kinds, "error"])
    assert found.devices == devices


def test_the_head_of_a_document_stays_with_its_host() -> None:
    """What is above the first line of an output, such as the DOCTYPE, has the prefix of the host, too."""
    document = read_recording("nvidia_smi/xml/a100x2_v12.xml")
    text = LISTING * 8 + "\n" + "".join(f"node1: {line}\n" for line in document.splitlines())

    found = parse_paste(text, TOOLS)

    assert found.parts[-1].host == "node1"
    assert found.parts[-1].detail == parse_paste(document, TOOLS).detail

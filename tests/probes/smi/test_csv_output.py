"""CSV output: a cell costs no row, a row costs no table, and the samples of a loop are not further devices."""

from __future__ import annotations

import pytest

from envcheck.core.model import Document
from probes.smi import nvidia_smi

HEAD = "index, name, uuid, memory.used [MiB], temperature.gpu"
UUID = "GPU-2c7c1f5e-1111-2222-3333-44445555666"
APPS_HEAD = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
APPS = "".join(f"{UUID}{at}, 123{at}, python, 100 MiB\n" for at in range(2))


def make_rows(count: int, temperature: int = 33) -> str:
    return "".join(f"{at}, Tesla T4, {UUID}{at}, 3 MiB, {temperature}\n" for at in range(count))


def list_values(document: Document) -> list[tuple[int | None, float | None]]:
    return [(device.index, device.temperature_c) for device in document.devices]


def list_remarks(document: Document) -> list[tuple[int, str, str]]:
    return [(remark.line, remark.field, remark.text) for remark in document.remarks]


@pytest.mark.parametrize(
    "cell", ["***", "xxxx", "ERR!", "[Unknown Error]", "[GPU is lost]", "未知", "3 apples and more", ""]
)
@pytest.mark.parametrize(
    ("at", "field"), [(0, "index"), (1, "name"), (2, "uuid"), (3, "memory_used_mib"), (4, "temperature_c")]
)
def test_an_unreadable_cell_costs_its_value(at: int, field: str, cell: str) -> None:
    """The row and those below it stay; the remark has the line, the field and the text."""
    if (at, cell) in ((1, "3 apples and more"), (2, "3 apples and more")):
        cell = "**"  # any words may be a name
    lines = [HEAD, "", *make_rows(3).splitlines()]
    cells = lines[3].split(", ")
    lines[3] = ", ".join([*cells[:at], cell, *cells[at + 1 :]])

    document = nvidia_smi.parse("\n".join(lines) + "\n")

    assert len(document.devices) == 3
    assert getattr(document.devices[1], field) == (1 if field == "index" else None)
    assert list_remarks(document) == [(4, field, cell)]
    assert not document.truncated


def test_no_value_is_no_remark() -> None:
    """[N/A] and its like are answers; an empty cell of a text field is None."""
    document = nvidia_smi.parse(f"{HEAD}, serial\n0, Tesla T4, [N/A], [Not Supported], N/A, \n")

    assert document.remarks == ()
    assert document.detail["rows"] == (("0", "Tesla T4", "[N/A]", "[Not Supported]", "N/A", None),)


def test_a_row_without_a_cell_costs_no_table() -> None:
    """The row is reported, and the rows below it count."""
    rows = make_rows(3).replace("1, Tesla T4, ", "1, ", 1)

    document = nvidia_smi.parse(f"{HEAD}\n{rows}")

    assert [device.index for device in document.devices] == [0, 2]
    assert list_remarks(document) == [(3, "row", rows.splitlines()[1])]


def test_words_below_the_rows_are_no_devices() -> None:
    """A line of the same width that has one value by chance is not a row."""
    text = "index, name\n0, Tesla T4\nhello, world\nroot@node:~# echo 5, c\n5, c\n"

    assert [device.index for device in nvidia_smi.parse(text).devices] == [0]


LOOPS = {
    "one header": f"{HEAD}\n{make_rows(3, 1)}{make_rows(3, 2)}",
    "repeated headers": f"{HEAD}\n{make_rows(3, 1)}{HEAD}\n{make_rows(3, 2)}",
    "cut within a sample": f"{HEAD}\n{make_rows(3, 1)}{make_rows(3, 2)}{make_rows(2, 3)}",
    "a masked index": f"{HEAD}\n{make_rows(3, 1).replace('1, T', 'x, T')}{make_rows(3, 2)}",
    "a masked UUID": f"{HEAD}\n{make_rows(3, 1).replace(UUID, '****')}{make_rows(3, 2)}",
    "below the command": f"$ nvidia-smi --query-gpu={HEAD.replace(' [MiB]', '').replace(' ', '')} -l 1\n"
    + make_rows(3, 1)
    + make_rows(3, 2),
}


@pytest.mark.parametrize("name", LOOPS)
def test_samples_are_a_session(name: str) -> None:
    """The devices are those of the last complete sample; each sample is a part."""
    document = nvidia_smi.parse(LOOPS[name])

    assert document.kind == "session"
    assert list_values(document) == [(0, 2), (1, 2), (2, 2)]
    assert [len(part.devices) for part in document.parts[:2]] == [3, 3]


def test_samples_of_one_device() -> None:
    """Of one device, each row is a sample."""
    document = nvidia_smi.parse(f"{HEAD}\n{make_rows(1, 1)}{make_rows(1, 2)}{make_rows(1, 3)}")

    assert list_values(document) == [(0, 3)]


def test_samples_by_time() -> None:
    """Without an index or identifier, rows half a second later are the next sample."""
    rows = "".join(f"2025/01/01 10:00:0{at}.0{card}0, 3{at}\n" for at in range(3) for card in range(4))

    document = nvidia_smi.parse(f"timestamp, temperature.gpu\n{rows}")

    assert list_values(document) == [(card, 32) for card in range(4)]


def test_identifiers_without_digits_tell_no_devices_apart() -> None:
    """Somebody replaced the digits of all UUIDs: the rows are devices."""
    zeros = "GPU-00000000-0000-0000-0000-000000000000"

    assert len(nvidia_smi.parse("uuid, temperature.gpu\n" + f"{zeros}, 33\n" * 8).devices) == 8


@pytest.mark.parametrize("rows", [make_rows(3), make_rows(3).replace(f"{UUID}", "")], ids=["UUID", "index"])
def test_samples_without_a_header(rows: str) -> None:
    """A UUID or an index that counts again and again shows the samples."""
    rows = rows if UUID in rows else "".join(f"{row[:12]}, 23028 MiB\n" for row in rows.splitlines())

    document = nvidia_smi.parse(rows * 3)

    assert [device.index for device in document.devices] == [0, 1, 2]
    assert len(document.parts) == 3


def test_processes_below_a_header() -> None:
    """A masked process id or memory costs its value, not the process."""
    document = nvidia_smi.parse(f"{APPS_HEAD}\n{APPS.replace('1230', '****').replace('100 MiB', 'xxx', 1)}")

    assert [(each.pid, each.name, each.memory_mib) for each in document.processes] == [
        (None, "python", None),
        (1231, "python", 100),
    ]
    assert list_remarks(document) == [(2, "pid", "****"), (2, "memory_mib", "xxx")]


@pytest.mark.parametrize("program", ["python", "/usr/bin/python3 train.py", "C:\\bin\\app.exe", "Xorg", "[Not Found]"])
def test_processes_without_a_header_are_no_devices(program: str) -> None:
    """A number and a program show a row of a process; its numbers are not guessed."""
    document = nvidia_smi.parse(APPS.replace("python", program))

    assert (document.kind, document.devices, document.processes) == ("csv", (), ())


def test_a_masked_name_without_a_header_is_no_program() -> None:
    """Rows of devices stay rows of devices; the values of the other rows keep their names."""
    document = nvidia_smi.parse(make_rows(3).replace("1, Tesla T4", "1, xxxx"))

    assert [device.name for device in document.devices] == ["Tesla T4", None, "Tesla T4"]
    assert list_remarks(document) == [(2, "name", "xxxx")]

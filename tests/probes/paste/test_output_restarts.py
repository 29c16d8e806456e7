"""Rules by which a line begins another output."""

from __future__ import annotations

import pytest

from probes.paste.output_restarts import LinesAbove, has_new_key, is_row_of_another_table, is_second


def test_each_line_is_read_once_however_often_a_rule_asks() -> None:
    """A rule that is asked below each line reads no line twice: texts of many blocks take linear time."""
    lines: list[str] = []
    above = LinesAbove(lines)
    read: list[str] = []

    def fold(line: str) -> str:
        read.append(line)
        return line.strip()

    for number in range(200):
        lines.append(f"  {number % 7}")
        above.group_lines(fold)

    assert len(read) == 200
    assert above.group_lines(fold)["3"][:2] == [3, 10]


def test_the_first_line_with_a_value_is_read_once() -> None:
    """What is found above is found again without reading the lines below it; lines that are added count."""
    lines = ["$ command", "a: 1", "b: 2"]
    above = LinesAbove(lines, first=1)
    read: list[str] = []

    def fold(line: str) -> str | None:
        read.append(line)
        return line[:1].upper() if line[1:2] == ":" else None

    assert (above.find_first(fold, "B"), above.find_first(fold, "A"), above.find_first(fold, "C")) == (1, 0, -1)
    lines += ["c: 3", "a: 4"]
    assert above.find_first(fold, "A") == 0
    assert len(read) == 2
    assert (above.find_first(fold, "C"), above.find_first(fold, "A"), above.find_first_value(fold)) == (2, 0, "A")
    assert len(read) == 5


def test_lines_without_a_value_are_read_once() -> None:
    lines = ["x", "y"]
    above = LinesAbove(lines)

    assert above.find_first_value(lambda line: None) is None
    read: list[str] = []

    def fold(line: str) -> str | None:
        read.append(line)
        return line if line == "z" else None

    assert above.find_first_value(fold) is None
    lines += ["w", "z"]
    assert above.find_first_value(fold) == "z"
    assert read.count("x") == 1


def test_the_line_of_the_command_is_no_part_of_the_output() -> None:
    """Indices count from the first line below the command."""
    above = LinesAbove(["$ npu-smi info -t board", "", "NPU ID : 1", "Board ID : 0x33", ""], first=1)

    assert above.cut(1, 2) == ["NPU ID : 1"]
    assert (above.find_first_full_line(), above.find_last_full_line()) == ("NPU ID : 1", "Board ID : 0x33")
    assert above.group_lines(str.strip)[""] == [0, 3]


def test_lines_that_are_added_count() -> None:
    """The rules see the lines that were added after the last question."""
    lines = ["NPU ID : 1", "Board ID : 0x33"]
    above = LinesAbove(lines)

    assert has_new_key(above, "Temperature : 40", ())
    assert not is_second(above, "Temperature : 40", ())

    lines.append("Temperature : 40")

    assert not has_new_key(above, "Temperature : 40", ())
    assert is_second(above, "Temperature  :  40", ())


@pytest.mark.parametrize(
    ("before", "line", "expected"),
    (
        ("| 4    Iluvatar BI-V150", "| 5    Iluvatar BI-V150", False),
        ("| 4    Iluvatar BI-V150", "| 4    Iluvatar BI-V150", True),
        ("|4 Iluvatar ", "|5 Iluvatar ", False),
        ("|4 Iluvatar ", "|3 Iluvatar ", True),
        ("| \u00b2 Iluvatar BI-V150", "| 4 Iluvatar BI-V150", False),
        ("| 4 Iluvatar BI-V150", f"| {'9' * 5000} Iluvatar BI-V150", False),
        ("| 4 Iluvatar BI-V150", "|", False),
    ),
)
def test_rows_of_another_table(before: str, line: str, expected: bool) -> None:
    """A number that is not behind that of the row before begins another table; text in its place never raises."""
    assert is_row_of_another_table(LinesAbove([before]), line, ()) is expected

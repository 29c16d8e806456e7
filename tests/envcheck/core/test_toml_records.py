"""TOML records: every field type, the errors, and that one loader builds all records."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.toml_file import FileKey, Given, OneOrMany, ParsedText, load_record

ROOT = Path(__file__).parents[3]


class Colour(enum.Enum):
    RED = "dark red"


class Grade(enum.IntEnum):
    FAIL = 3


@dataclass(frozen=True)
class Inner:
    size: float


@dataclass(frozen=True)
class Outer:
    name: Given[str]
    text: str
    count: int = 0
    ready: bool = False
    day: datetime.date | None = None
    colour: Colour = Colour.RED
    grade: Grade = Grade.FAIL
    word: Literal["a", "b"] = "a"
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    pair: tuple[str, int] = ("", 0)
    names: frozenset[str] = frozenset()
    by_name: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    either: int | str = 0
    some: OneOrMany[str] = ()
    used_with: Annotated[str, FileKey("with")] = ""
    number: Annotated[int, ParsedText(int)] = 0
    anything: Any = None


WHOLE = """
text = "x"
count = 3
ready = true
day = 2027-01-31
colour = "dark red"
grade = "FAIL"
word = "b"
inner = { size = 2 }
many = [{ size = 1.5 }]
pair = ["a", 1]
names = ["p", "q"]
by_name = { k = [1, 2] }
either = "y"
some = "z"
with = "w"
number = "7"
anything = [{ a = 1 }]
"""


def load_outer(text: str) -> Outer:
    return load_record(Outer, toml_file.parse_table(text, "f.toml", ""), "f.toml", name="its own")


def test_every_form_of_a_field() -> None:
    """Each field is read according to its type; an integer is accepted where a float is expected."""
    assert load_outer(WHOLE) == Outer(
        name="its own",
        text="x",
        count=3,
        ready=True,
        day=datetime.date(2027, 1, 31),
        word="b",
        inner=Inner(2.0),
        many=(Inner(1.5),),
        pair=("a", 1),
        names=frozenset({"p", "q"}),
        by_name={"k": (1, 2)},
        either="y",
        some=("z",),
        used_with="w",
        number=7,
        anything=[{"a": 1}],
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("name = 'n'", "f.toml: name: unknown key"),
        ("used_with = 'n'", "used_with: unknown key"),
        ("cuont = 1", "did you mean count?"),
        ("count = true", "count: expected a whole number, found true or false"),
        ("count = 1.5", "count: expected a whole number, found the number 1.5"),
        ("count = -1", "count: expected a whole number, 0 or greater, found the number -1"),
        ("inner.size = nan", "inner.size: expected a number, 0 or greater"),
        ("inner = 1", "inner: expected a table, found the number 1"),
        ("inner.sise = 1", "inner.sise: unknown key"),
        ("inner = {}", "inner.size: missing (a number expected)"),
        ("many = { size = 1 }", "many: expected a list of tables, found a table"),
        ("many = [{ size = 1 }, { size = '2' }]", "many[1].size: expected a number, found the text '2'"),
        ("pair = ['a']", "pair: expected a list of 2 values, found a list"),
        ("day = '2027-01-31'", "day: expected a date such as 2027-01-31, without quotes"),
        ("day = 2027-01-31T10:00:00", "day: expected a date"),
        ("colour = 'rde'", "colour: expected one of dark red, found the text 'rde'"),
        ("grade = 3", "grade: expected one of FAIL"),
        ("word = 'c'", "word: expected one of a, b"),
        ("word = ['a']", "word: expected one of a, b"),
        ("names = [1]", "names[0]: expected text"),
        ("by_name.k = 1", "by_name.k: expected a list of numbers"),
        ("either = 1.5", "either: expected a whole number"),
        ("some = [1]", "some[0]: expected text"),
        ("number = 'x'", "number: invalid literal"),
        ("text = 'a\\tb'", "text: expected one line of printable text"),
    ],
)
def test_what_is_wrong_is_named(line: str, words: str) -> None:
    """An error names the file, the key, what was expected and what was found; an unknown key gets the nearest name."""
    key = line.partition(" =")[0]
    text = "" if key == "text" else 'text = "x"\n'
    with pytest.raises(UsageError) as refused:
        load_outer(text + line.replace("\\t", "\t"))

    assert words in f"{refused.value.message}; {refused.value.next_step}"
    assert refused.value.message.startswith("f.toml: ")


def test_a_file_of_ours_is_not_bounded(tmp_path: Path) -> None:
    """What ships with envcheck may have long texts and numbers below 0, and is read once."""
    file = tmp_path / "ours.toml"
    file.write_text('text = "a\\nb"\ncount = -1\n')
    made = toml_file.load_own_part(Outer, file, toml_file.load_own_table(file), "", name="n")

    assert (made.text, made.count) == ("a\nb", -1)
    assert toml_file.load_own_table(file) is toml_file.load_own_table(file)


values = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([each.name for each in dataclasses.fields(Outer)]) | st.text(), values))
def test_any_table(table: dict[str, Any]) -> None:
    """Any table gives a record or one printable error that starts with the file name."""
    try:
        load_record(Outer, table, "f.toml", name="n")
    except UsageError as err:
        assert err.message.startswith("f.toml: ") and len(err.message) < 400


# Tables whose keys are data: codes, option names, figures by card; and what is read before it can be a record.
RAW = {
    "envcheck/compat/table_file.py", "envcheck/checks/known_issues.py", "envcheck/deep/baselines.py",
    "envcheck/explain/catalogue.py", "envcheck/explain/codes.py", "envcheck/lint/context/name_tables.py",
    "envcheck/settings/envcheck_toml.py", "envcheck/simulate/machine_file.py", "installers/locks/lockfile.py",
    "installers/recipes/loader.py", "launch/catalogue/devices.py", "launch/catalogue/frameworks.py",
    "launch/catalogue/models.py", "launch/rendering/user_options.py", "launch/rendering/validate.py",
    "installers/bundle/build_requirements.py", "envcheck/explain/exceptions/raised_place.py",
    "launch/catalogue/framework_options.py", "launch/memory/intervals.py",
    "envcheck/explain/exceptions/api_changes.py", "envcheck/explain/exceptions/known_bugs.py",
}  # fmt: skip


def test_one_loader() -> None:
    """Python's TOML reader is called in one module; raw tables are used only where their keys are data; only the loader
    reads the field types of a dataclass."""
    files = [f for top in ("envcheck", "probes", "installers", "launch") for f in (ROOT / top).rglob("*.py")]
    developers_tools = {"envcheck/cli/message_catalogue.py"}
    text = {str(f.relative_to(ROOT)): f.read_text(encoding="utf-8") for f in files}
    text = {name: code for name, code in text.items() if name not in developers_tools}
    raw = {
        name
        for name, code in text.items()
        if "toml_file.parse_table(" in code or re.search(r"\bload_own_table\(", code)
    }

    assert [name for name, code in text.items() if "tomllib.loads" in code or "tomli.loads" in code] == [
        "envcheck/core/toml_file.py"
    ]
    assert raw - {"envcheck/core/toml_file.py"} == RAW
    assert [name for name, code in text.items() if "get_type_hints" in code and "schemas" not in name] == [
        "envcheck/core/toml_file.py"
    ]

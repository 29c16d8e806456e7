"""What stands in the way of a driver: facts of a host and of a file against verdicts, and the ready-made tables."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.collect import machine
from envcheck.core.errors import UsageError
from envcheck.core.model import Answer, Outcome, Question
from envcheck.vendors import VENDORS, find_data_files
from installers.drivers import driver, host_facts, installer_tables, patterns
from installers.drivers.host_facts import SECURE_BOOT, Holder, Module, Site
from installers.drivers.installer_tables import Named
from installers.drivers.preconditions import CHECKS, Case, judge
from installers.drivers.run_file import RunFile
from installers.recipes import catalogue
from installers.recipes.recipe import Driver, VersionQuery
from installers.recipes.recipes_file import load_drivers

GIB = 1 << 30
DRIVER = Driver(
    name="driver",
    title="Card driver",
    files=("card_{version}_{architecture}.run",),
    modules=("card", "card_uvm"),
    conflicts=("opencard",),
    builds_module=True,
    tools=("gcc", "lspci"),
    users=("CardUser",),
    space_mib=2048,
)
GOOD = Case(
    named=Named(DRIVER, "2.1", "x86_64"),
    file=RunFile(Path("/root/card_2.1_x86_64.run"), 100, "a" * 64, "/bin/sh", "Card", True, "SHA-256 sums agree", 300),
    site=Site(
        kernel="6.1.0",
        architecture="x86_64",
        euid=0,
        in_container=False,
        headers=True,
        tools=frozenset(("gcc", "lspci")),
        users=frozenset(("root", "CardUser")),
        room_bytes={"/": 9 * GIB, "/tmp": 9 * GIB},
        scratch_noexec=False,
        modules={"card": Module(1, ("card_uvm",)), "card_uvm": Module(0)},
        secure_boot=False,
        holders=(),
        installed="2.0",
    ),
    minimum="2.0",
    expected_sha256="a" * 64,
)
BARE = Site(room_bytes={"/": None})


def site(**changes: object) -> Case:
    return replace(GOOD, site=replace(GOOD.site, **changes))  # type: ignore[arg-type]


def named(version: str, architecture: str = "x86_64") -> Case:
    return replace(GOOD, named=replace(GOOD.named, version=version, architecture=architecture))


def file(**changes: object) -> Case:
    return replace(GOOD, file=replace(GOOD.file, **changes))  # type: ignore[arg-type]


def words(case: Case, fits: bool | None) -> list[str]:
    return [verdict.words for verdict in judge(case) if verdict.fits is fits]


def test_good_machine() -> None:
    """Where all is well nothing is in the way and nothing in doubt."""
    assert (words(GOOD, False), words(GOOD, None)) == ([], [])


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (file(intact=False, why="it is cut off"), "it is cut off"),
        (replace(GOOD, expected_sha256="b" * 64), "expected was b"),
        (site(architecture="aarch64"), "the file is for x86_64, this machine is aarch64"),
        (site(euid=1000), "installed by root"),
        (site(in_container=True), "this is a container"),
        (replace(named("1.9"), site=replace(GOOD.site, installed="")), "the recipe wants 2.0 or newer"),
        (site(installed="2.2"), "2.2 is installed, the file is 2.1: that is older"),
        (site(installed="x.x.x"), "which is newer cannot be told"),
        (named(""), "the file is of unknown version"),
        (site(tools=frozenset(("gcc",))), "it needs lspci"),
        (site(headers=False), "headers of the running kernel are missing: /lib/modules/6.1.0/build"),
        (site(users=frozenset(("root",))), "no user CardUser"),
        (site(room_bytes={"/": GIB, "/tmp": 9 * GIB}), "1 GiB are free in /, about 2 GiB are needed"),
        (site(room_bytes={"/": 9 * GIB, "/tmp": 200}), "are free in /tmp"),
        (file(unpacked_bytes=None, size_bytes=4 * GIB), "about 12 GiB are needed"),
        (site(scratch_noexec=True), "noexec"),
        (site(modules={"opencard": Module(0)}), "opencard is loaded and excludes"),
        (site(modules={"card": Module(3, ("card_uvm",))}), "card is in use (2 times)"),
        (site(holders=(Holder(42, "python3"),)), "in use by python3 (42)"),
        (site(secure_boot=True), "Secure Boot is on"),
    ],
)
def test_in_the_way(case: Case, said: str) -> None:
    """Each thing in the way is said once, with what to do about it, and nothing else is."""
    found = [verdict for verdict in judge(case) if verdict.fits is False]

    assert [said in verdict.words for verdict in found] == [True]
    assert found[0].remedy


def test_cannot_tell() -> None:
    """Of a host that tells nothing everything is in doubt, nothing is in the way, and nothing looks well."""
    case = replace(GOOD, site=BARE, file=replace(GOOD.file, intact=None), expected_sha256="", guarded=None)

    assert words(case, False) == []
    assert words(case, True) == []
    assert len(words(case, None)) >= len(CHECKS)


def test_allowed_downgrade() -> None:
    """An older driver is taken when that was said."""
    case = replace(site(installed="2.2"), allow_downgrade=True)

    assert words(case, False) == []


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("24.1.rc3", "24.1.0", True),
        ("24.1.0", "24.1.rc3", False),
        ("4.3.0", "4.3.0.rc.9.20250624", True),
        ("535.104.05", "535.171.04", True),
        ("", "1.0", True),
    ],
)
def test_order_of_versions(old: str, new: str, fits: bool) -> None:
    """A candidate is older than its release; the build behind a release's number is that release."""
    case = replace(site(installed=old), named=Named(DRIVER, new, "x86_64"), minimum=None)

    assert (words(case, False) == []) == fits


def test_unguarded_file() -> None:
    """A file that others may write is no obstacle, as a copy is run; the copy's room counts."""
    case = replace(file(size_bytes=5 * GIB, unpacked_bytes=5 * GIB), guarded=False)

    assert ["others may write" in text for text in words(case, None)] == [True]
    assert ["about 10 GiB are needed" in text for text in words(case, False)] == [True]
    assert words(replace(case, guarded=True), False) == []


def test_own_key() -> None:
    """With a key of the owner's, Secure Boot is a doubt and no obstacle."""
    case = site(secure_boot=True, owner_key=True)

    assert (words(case, False), len(words(case, None))) == ([], 1)


def test_unknown_sum_is_shown() -> None:
    """Where nobody publishes a sum, the file's own is shown for a person to agree to."""
    case = replace(GOOD, expected_sha256="")

    assert ["a" * 64 in text for text in words(case, None)] == [True]


def test_obstacles_for_the_plan() -> None:
    """What is in the way reaches the plan with its exit code: root is wrong usage, a card in use is not."""
    case = site(euid=1000, holders=(Holder(42, "python3"),))
    seen = driver.DriverState(case, judge(case))

    assert [obstacle.code for obstacle in driver.checks(seen)] == [2, 1]


def told(answers: dict[str, str]) -> machine.Machine:
    return machine.recorded({key: Answer(key, Outcome.ANSWERED, out) for key, out in answers.items()})


def test_facts() -> None:
    """Facts are read from what a host says: modules, mounts, rooms, users, Secure Boot, headers, tools."""
    site = host_facts.gather(
        replace(DRIVER, versions=(VersionQuery("Version={version}", read="/v"),)),
        "nvidia",
        told(
            {
                "ask host": '{"kernel": "6.1.0", "architecture": "aarch64", "euid": 0, "in_container": false}',
                "ask disks": '{"/": {"free_bytes": 5}, "/tmp": {"free_bytes": 7}, "home": {"free_bytes": 9}}',
                "read /proc/modules": "card 100 2 card_uvm,x, Live 0x0\ncard_uvm 5 0 - Live 0x0\nodd\n",
                "read /proc/mounts": "a / ext4 rw 0 0\nb /tmp tmpfs rw,noexec 0 0\nc /tmpfoo tmpfs rw 0 0\n",
                "read /etc/passwd": "root:x:0:0::/root:/bin/sh\nCardUser:x:1:1::/:/bin/sh\n",
                f"read {SECURE_BOOT}": "\x06\x00\x00\x00\x01",
                "list /lib/modules/6.1.0/build/Makefile": "/lib/modules/6.1.0/build/Makefile",
                "list /usr/bin/env": "/usr/bin/env",
                "list /usr/bin/gcc": "/usr/bin/gcc",
                "read /v": "# file\nVersion=2.0.rc1\n",
            }
        ),
    )

    assert (site.kernel, site.architecture, site.headers, site.secure_boot) == ("6.1.0", "aarch64", True, True)
    assert site.modules == {"card": Module(2, ("card_uvm", "x")), "card_uvm": Module(0)}
    assert (site.tools, site.users) == (frozenset(("gcc",)), frozenset(("root", "CardUser")))
    assert (site.installed, site.room_bytes["/"]) == ("2.0.rc1", 5)
    if site.scratch == "/tmp":
        assert (site.room_bytes["/tmp"], site.scratch_noexec) == (7, True)


def test_facts_of_a_silent_host() -> None:
    """Of a host that answers nothing nothing is claimed; without EFI's folder Secure Boot is off."""
    site = host_facts.gather(DRIVER, "nvidia", machine.recorded({}))

    unknown = (site.euid, site.headers, site.tools, site.modules, site.users, site.installed)
    assert unknown == (None,) * 6
    assert site.secure_boot is False


@pytest.mark.parametrize(
    ("outcome", "out", "err", "expected"),
    [
        (Outcome.ANSWERED, "535.171.04\n", "", "535.171.04"),
        (Outcome.ABSENT, "", "not found", ""),
        (Outcome.FAILED, "", "modinfo: ERROR: Module card not found.", ""),
        (Outcome.FAILED, "", "cannot talk to the card", None),
        (Outcome.HUNG, "", "", None),
        (Outcome.ANSWERED, "no version here", "", None),
    ],
)
def test_installed_version(outcome: Outcome, out: str, err: str, expected: str | None) -> None:
    """Nothing installed, a version, and no telling are three answers."""
    one = replace(DRIVER, versions=(VersionQuery("{version}", run=("modinfo", "card")),))

    def ask(question: Question) -> Answer:
        return Answer(question.key, outcome, out, err)

    assert host_facts.installed(one, ask) == expected


def test_holders(tmp_path: Path) -> None:
    """Who has a card's node open is found, by the node's name."""
    node = tmp_path / "card0"
    code = f"import time; file = open({str(node)!r}, 'w'); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        found = host_facts.holders(f"{tmp_path}/card[0-9]*")
        child.kill()
        child.wait()
    after = host_facts.holders(f"{tmp_path}/card[0-9]*")

    assert [holder.pid for holder in found or ()] == [child.pid]
    assert after in ((), None)  # None: not root, so that others' processes cannot be looked into


def test_guarded(tmp_path: Path) -> None:
    """A file that others may write, or whose folder they may, is told from one that is root's or mine."""
    mine = tmp_path / "a.run"
    mine.write_text("")
    mine.chmod(0o644)
    before = driver.guarded(mine)
    mine.chmod(0o666)
    writable = driver.guarded(mine)
    mine.chmod(0o644)
    tmp_path.chmod(0o777)

    assert (before, writable, driver.guarded(mine)) == (True, False, False)
    assert driver.guarded(tmp_path / "none") is None


@pytest.mark.parametrize("device", [vendor.name for vendor, _ in find_data_files("driver.toml")])
def test_tables(device: str) -> None:
    """Each vendor with a tool has installers whose questions say what they mean, and whose licences ask a person."""
    drivers = installer_tables.vendor_drivers(device)

    assert drivers
    assert VENDORS[device].tool
    assert all(one.versions for one in drivers)
    assert all(p.licence for one in drivers for p in one.prompts if "licen" in p.meaning)


@pytest.mark.parametrize(
    ("recipe", "name", "expected"),
    [
        ("tiny-npu", "Ascend-hdk-910b-npu-driver_24.1.rc3_linux-aarch64.run", ("driver", "24.1.rc3", "aarch64")),
        ("tiny-npu", "Ascend-hdk-910b-npu-firmware_7.7.0.1.231.run", ("firmware", "7.7.0.1.231", "")),
        ("tiny-npu", "Ascend-hdk-910b-firmware_7.5.0.1.129.run", ("firmware", "7.5.0.1.129", "")),
        (
            "tiny-iluvatar",
            "corex-driver-linux64-4.3.0.rc.9.20250624_x86_64_10.2.run",
            ("driver", "4.3.0.rc.9.20250624", "x86_64"),
        ),
        ("tiny-iluvatar", "corex-driver-linux64-4.3.8-x86_64.run", ("driver", "4.3.8", "x86_64")),
        ("tiny-nvidia", "NVIDIA-Linux-x86_64-550.120-no-compat32.run", ("driver", "550.120", "x86_64")),
    ],
)
def test_names_of_vendors_files(recipe: str, name: str, expected: tuple[str, str, str]) -> None:
    """Published files of the vendors are known by their names."""
    found = installer_tables.named(installer_tables.drivers_of(catalogue.by_name(catalogue.load_all(), recipe)), name)

    assert (found.driver.name, found.version, found.architecture) == expected


def test_what_to_download() -> None:
    """The published file nearest to the recipe's minimum is meant, and none for another architecture."""
    recipe = catalogue.by_name(catalogue.load_all(), "tiny-iluvatar")

    assert driver.file_of(replace(recipe, driver_minimum="4.3.0"), "x86_64").version == "4.3.0"
    assert driver.file_of(replace(recipe, driver_minimum="4.3.1"), "x86_64").version == "4.3.8"
    with pytest.raises(UsageError, match="aarch64"):
        driver.file_of(recipe, "aarch64")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('files = ["x.sh"]', "files"),
        ('files = ["../x.run"]', "files"),
        ('files = ["a*b*c*d*e*.run"]', "files"),
        ('files = ["x.run"]\nprompts = [{pattern = "?*", answer = "y", meaning = "m"}]', r"prompts\[0\].pattern"),
        ('files = ["x.run"]\nprompts = [{pattern = "Install?", answer = "y", meaning = ""}]', r"prompts\[0\].meaning"),
        ('files = ["x.run"]\nsilence_s = 0', "silence_s"),
        ('files = ["x.run"]\nexit_codes = [256]', "exit_codes"),
        ('files = ["x.run"]\nversions = [{says = "{version}"}]', r"versions\[0\]"),
        ('files = ["x.run"]\nversions = [{says = "x", read = "/v"}]', r"versions\[0\].says"),
        ('files = ["x.run"]\npublished = [{version = "1", url = "file:///x"}]', r"published\[0\].url"),
        ('files = ["x.run"]\npublished = [{version = "1", url = "https://x", sha256 = "abc"}]', "sha256"),
        ('files = ["x.run"]\ncolour = "red"', "colour"),
        ('files = "x.run"', "files"),
    ],
)
def test_wrong_tables(text: str, key: str, tmp_path: Path) -> None:
    """What is wrong in a table of installers is named by file and key."""
    path = tmp_path / "own.toml"
    path.write_text(f'[[drivers]]\nname = "driver"\ntitle = "t"\n{text}\n')

    with pytest.raises(UsageError, match=rf"own\.toml: drivers.*{key}"):
        load_drivers(path)


def test_documented_table(tmp_path: Path) -> None:
    """The example in docs/recipes.md is a table that loads, and names every field that one needs to know."""
    page = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text()
    example = next(block for block in page.split("```") if "[[drivers]]\n" in block)
    (tmp_path / "own.toml").write_text(example.removeprefix("toml"))

    assert load_drivers(tmp_path / "own.toml")[0].prompts[0].refusal == "decline"


@given(st.text("ab*{}version1.", max_size=40), st.text("ab1.version", max_size=200))
def test_any_pattern(pattern: str, text: str) -> None:
    """A pattern is text with *, whatever else is in it; what contains() finds stands in the line."""
    if "{version}" not in pattern or pattern.count("{version}") == 1:
        patterns.parts(pattern, text)

    assert patterns.contains(pattern, text) or any(piece not in text for piece in pattern.split("*")) or "*" in pattern


def test_patterns_take_no_time() -> None:
    """A stranger's pattern cannot hold us up, on a line made for it."""
    began = time.process_time()
    patterns.parts("*a*a*a*a{version}b", "a" * 100_000)
    patterns.contains("*a" * 2000, "a" * 100_000)

    assert time.process_time() - began < 60  # one that backtracks takes for ever

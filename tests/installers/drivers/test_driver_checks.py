"""Preconditions of a driver: verdicts on facts of a host and a file, and the vendors' tables."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.collect import answer_sources
from envcheck.core.errors import UsageError
from envcheck.core.model import Answer, Outcome, Question
from envcheck.vendors import VENDORS, find_data_files
from installers.drivers import host_facts, installation, installer_tables, patterns
from installers.drivers.host_facts import SECURE_BOOT, DeviceHolder, DriverHost, KernelModule
from installers.drivers.installer_tables import MatchedInstaller
from installers.drivers.preconditions import CHECKS, DriverCase, judge_case
from installers.drivers.run_file import RunFile
from installers.recipes import catalogue
from installers.recipes.loader import load_drivers
from installers.recipes.recipe import DriverInstaller, VersionQuery

GIB = 1 << 30
DRIVER = DriverInstaller(
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
GOOD = DriverCase(
    named=MatchedInstaller(DRIVER, "2.1", "x86_64"),
    file=RunFile(
        Path("/root/card_2.1_x86_64.run"), 100, "a" * 64, "/bin/sh", "Card", True, "SHA-256 checksums match", 300
    ),
    site=DriverHost(
        kernel="6.1.0",
        architecture="x86_64",
        euid=0,
        in_container=False,
        headers=True,
        tools=frozenset(("gcc", "lspci")),
        users=frozenset(("root", "CardUser")),
        room_bytes={"/": 9 * GIB, "/tmp": 9 * GIB},
        scratch_noexec=False,
        modules={"card": KernelModule(1, ("card_uvm",)), "card_uvm": KernelModule(0)},
        secure_boot=False,
        holders=(),
        installed="2.0",
    ),
    minimum="2.0",
    expected_sha256="a" * 64,
)
BARE = DriverHost(room_bytes={"/": None})


def change_site(**changes: object) -> DriverCase:
    return replace(GOOD, site=replace(GOOD.site, **changes))  # type: ignore[arg-type]


def change_name(version: str, architecture: str = "x86_64") -> DriverCase:
    return replace(GOOD, named=replace(GOOD.named, version=version, architecture=architecture))


def change_file(**changes: object) -> DriverCase:
    return replace(GOOD, file=replace(GOOD.file, **changes))  # type: ignore[arg-type]


def list_words(case: DriverCase, fits: bool | None) -> list[str]:
    return [verdict.words for verdict in judge_case(case) if verdict.fits is fits]


def test_good_machine() -> None:
    """A good machine has no obstacles and no doubts."""
    assert (list_words(GOOD, False), list_words(GOOD, None)) == ([], [])


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (change_file(intact=False, why="it is cut off"), "it is cut off"),
        (replace(GOOD, expected_sha256="b" * 64), "expected SHA-256 bbb"),
        (change_site(architecture="aarch64"), "the file is for x86_64; this machine is aarch64"),
        (change_site(euid=1000), "requires root"),
        (change_site(in_container=True), "this is a container"),
        (replace(change_name("1.9"), site=replace(GOOD.site, installed="")), "the recipe requires 2.0 or newer"),
        (change_site(installed="2.2"), "2.2 is installed; the file is 2.1: this is a downgrade"),
        (change_site(installed="x.x.x"), "cannot determine which is newer"),
        (change_name(""), "the file is an unknown version"),
        (change_site(tools=frozenset(("gcc",))), "the installer requires lspci"),
        (change_site(headers=False), "headers of the running kernel are missing: /lib/modules/6.1.0/build"),
        (change_site(users=frozenset(("root",))), "user CardUser, which the driver runs as, does not exist"),
        (change_site(room_bytes={"/": GIB, "/tmp": 9 * GIB}), "about 2 GiB needed in /; 1 GiB free"),
        (change_site(room_bytes={"/": 9 * GIB, "/tmp": 200}), "needed in /tmp; 1 KiB free"),
        (change_file(unpacked_bytes=None, size_bytes=4 * GIB), "about 12 GiB needed"),
        (change_site(scratch_noexec=True), "noexec"),
        (change_site(modules={"opencard": KernelModule(0)}), "opencard is loaded and conflicts"),
        (change_site(modules={"card": KernelModule(3, ("card_uvm",))}), "card is in use (2 users)"),
        (change_site(holders=(DeviceHolder(42, "python3"),)), "in use by python3 (42)"),
        (change_site(secure_boot=True), "Secure Boot is enabled"),
    ],
)
def test_in_the_way(case: DriverCase, said: str) -> None:
    """Each obstacle is reported once with a remedy, and nothing else is."""
    found = [verdict for verdict in judge_case(case) if verdict.fits is False]

    assert [said in verdict.words for verdict in found] == [True]
    assert found[0].remedy


def test_cannot_tell() -> None:
    """On a host without facts everything is in doubt, nothing blocks, and nothing is reported as good."""
    case = replace(GOOD, site=BARE, file=replace(GOOD.file, intact=None), expected_sha256="", guarded=None)

    assert list_words(case, False) == []
    assert list_words(case, True) == []
    assert len(list_words(case, None)) >= len(CHECKS)


def test_allowed_downgrade() -> None:
    """An older driver is accepted if requested."""
    case = replace(change_site(installed="2.2"), allow_downgrade=True)

    assert list_words(case, False) == []


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
    """A candidate is older than its release; a build number after the release is the same release."""
    case = replace(change_site(installed=old), named=MatchedInstaller(DRIVER, new, "x86_64"), minimum=None)

    assert (list_words(case, False) == []) == fits


def test_unguarded_file() -> None:
    """A file that others may write does not block, because a copy is run; the copy's space counts."""
    case = replace(change_file(size_bytes=5 * GIB, unpacked_bytes=5 * GIB), guarded=False)

    assert ["other users can write" in text for text in list_words(case, None)] == [True]
    assert ["about 10 GiB needed" in text for text in list_words(case, False)] == [True]
    assert list_words(replace(case, guarded=True), False) == []


def test_own_key() -> None:
    """With a machine owner key Secure Boot is a doubt, not an obstacle."""
    case = change_site(secure_boot=True, owner_key=True)

    assert (list_words(case, False), len(list_words(case, None))) == ([], 1)


def test_unknown_sum_is_shown() -> None:
    """Without a published checksum the file's own is shown for confirmation."""
    case = replace(GOOD, expected_sha256="")

    assert ["a" * 64 in text for text in list_words(case, None)] == [True]


def test_obstacles_for_the_plan() -> None:
    """Obstacles reach the plan with their exit codes: missing root is a usage error, a card in use is not."""
    case = change_site(euid=1000, holders=(DeviceHolder(42, "python3"),))
    seen = installation.DriverState(case, judge_case(case))

    assert [obstacle.code for obstacle in installation.find_obstacles(seen)] == [2, 1]


def make_door(answers: dict[str, str]) -> answer_sources.AnswerSource:
    return answer_sources.recorded_machine({key: Answer(key, Outcome.ANSWERED, out) for key, out in answers.items()})


def test_facts() -> None:
    """Facts are parsed from a host's answers: modules, mounts, space, users, Secure Boot, headers, tools."""
    site = host_facts.gather_facts(
        replace(DRIVER, versions=(VersionQuery("Version={version}", read="/v"),)),
        "nvidia",
        make_door(
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
    assert site.modules == {"card": KernelModule(2, ("card_uvm", "x")), "card_uvm": KernelModule(0)}
    assert (site.tools, site.users) == (frozenset(("gcc",)), frozenset(("root", "CardUser")))
    assert (site.installed, site.room_bytes["/"]) == ("2.0.rc1", 5)
    if site.scratch == "/tmp":
        assert (site.room_bytes["/tmp"], site.scratch_noexec) == (7, True)


def test_facts_of_a_silent_host() -> None:
    """A host without answers has unknown facts; without an EFI folder Secure Boot is off."""
    site = host_facts.gather_facts(DRIVER, "nvidia", answer_sources.recorded_machine({}))

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
    """Not installed, a version, and unknown are three results."""
    one = replace(DRIVER, versions=(VersionQuery("{version}", run=("modinfo", "card")),))

    def ask(question: Question) -> Answer:
        return Answer(question.key, outcome, out, err)

    assert host_facts.read_installed_version(one, ask) == expected


def test_holders(tmp_path: Path) -> None:
    """Processes that have a card's node open are found by the node's name."""
    node = tmp_path / "card0"
    code = f"import time; file = open({str(node)!r}, 'w'); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        found = host_facts.find_holders(f"{tmp_path}/card[0-9]*")
        child.kill()
        child.wait()
    after = host_facts.find_holders(f"{tmp_path}/card[0-9]*")

    assert [holder.pid for holder in found or ()] == [child.pid]
    assert after in ((), None)  # None: without root, other users' processes are hidden


def test_guarded(tmp_path: Path) -> None:
    """Files that others may write, or whose folder they may write, are distinguished from root's and one's own."""
    mine = tmp_path / "a.run"
    mine.write_text("")
    mine.chmod(0o644)
    before = installation.is_guarded(mine)
    mine.chmod(0o666)
    writable = installation.is_guarded(mine)
    mine.chmod(0o644)
    tmp_path.chmod(0o777)

    assert (before, writable, installation.is_guarded(mine)) == (True, False, False)
    assert installation.is_guarded(tmp_path / "none") is None


@pytest.mark.parametrize("device", [vendor.name for vendor, _ in find_data_files("driver.toml")])
def test_tables(device: str) -> None:
    """Each vendor with a tool has installers whose answers have meanings and whose licences ask a person."""
    drivers = installer_tables.load_vendor_drivers(device)

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
    """The vendors' published files are recognised by name."""
    found = installer_tables.match_installer(
        installer_tables.list_drivers(catalogue.find_recipe(catalogue.load_all(), recipe)), name
    )

    assert (found.driver.name, found.version, found.architecture) == expected


def test_what_to_download() -> None:
    """The published file closest to the recipe's minimum is chosen, and none for another architecture."""
    recipe = catalogue.find_recipe(catalogue.load_all(), "tiny-iluvatar")

    assert installation.find_published_file(replace(recipe, driver_minimum="4.3.0"), "x86_64").version == "4.3.0"
    assert installation.find_published_file(replace(recipe, driver_minimum="4.3.1"), "x86_64").version == "4.3.8"
    with pytest.raises(UsageError, match="aarch64"):
        installation.find_published_file(recipe, "aarch64")


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
        ('files = ["x.run"]\nversions = [{pattern = "{version}"}]', r"versions\[0\]"),
        ('files = ["x.run"]\nversions = [{pattern = "x", read = "/v"}]', r"versions\[0\].pattern"),
        ('files = ["x.run"]\npublished = [{version = "1", url = "file:///x"}]', r"published\[0\].url"),
        ('files = ["x.run"]\npublished = [{version = "1", url = "https://x", sha256 = "abc"}]', "sha256"),
        ('files = ["x.run"]\ncolour = "red"', "colour"),
        ('files = "x.run"', "files"),
    ],
)
def test_wrong_tables(text: str, key: str, tmp_path: Path) -> None:
    """Mistakes in a table of installers are reported by file and key."""
    path = tmp_path / "own.toml"
    path.write_text(f'[[drivers]]\nname = "driver"\ntitle = "t"\n{text}\n')

    with pytest.raises(UsageError, match=rf"own\.toml: drivers.*{key}"):
        load_drivers(path)


def test_documented_table(tmp_path: Path) -> None:
    """The example in the recipe guide loads and has every field that a user needs."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "write-a-recipe.md").read_text()
    example = next(block for block in page.split("```") if "[[drivers]]\n" in block)
    (tmp_path / "own.toml").write_text(example.removeprefix("toml"))

    assert load_drivers(tmp_path / "own.toml")[0].prompts[0].refusal == "decline"


@given(st.text("ab*{}version1.", max_size=40), st.text("ab1.version", max_size=200))
def test_any_pattern(pattern: str, text: str) -> None:
    """A pattern is text with *, whatever else it has; contains_pieces() finds what the line contains."""
    if "{version}" not in pattern or pattern.count("{version}") == 1:
        patterns.match_parts(pattern, text)

    assert (
        patterns.contains_pieces(pattern, text)
        or any(piece not in text for piece in pattern.split("*"))
        or "*" in pattern
    )


def test_patterns_take_no_time() -> None:
    """A malicious pattern cannot take long, even on a line written for it."""
    began = time.process_time()
    patterns.match_parts("*a*a*a*a{version}b", "a" * 100_000)
    patterns.contains_pieces("*a" * 2000, "a" * 100_000)

    assert time.process_time() - began < 60  # a backtracking matcher would take hours

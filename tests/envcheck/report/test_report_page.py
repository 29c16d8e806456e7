"""The page is complete, accessible and safe with untrusted text; tested without a browser."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck import checks
from envcheck.core.facts import Disk, Facts, SystemFacts
from envcheck.core.model import Finding, Status, Topology
from envcheck.core.units import GIB
from envcheck.report import DoctorReport, HostReport, bars, formats, page_hosts, palette, topology
from envcheck.report.page_labels import get_labels
from tests.envcheck.report import host_reports
from tests.envcheck.report.report_helpers import FAULTY, make_doctor_report, make_hostile_report, make_machine_report

VOID = {"meta", "link", "br", "img", "input", "hr"}
MACHINES = {
    "healthy": ("atlas-800t-a2", ()),
    "faulty": ("atlas-800t-a2", FAULTY),
    "box16": ("atlas-200t-a2-box16", ("topology-degraded",)),
    "chips": ("bi-v150x8", ()),
    "h200": ("h200x8", ()),
    "silent": ("h200x8", ("tool-missing",)),
    "cpu": ("cpu", ()),
}


class PageParser(HTMLParser):
    """Elements with their attributes, the text, and whether tags close as they opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.crooked: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.crooked.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def find_elements(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def full_text(self) -> str:
        return " ".join("".join(self.words).split())


def render_page(kind: str) -> str:
    return formats.render("html", OTHERS[kind]() if kind in OTHERS else make_doctor_report(*MACHINES[kind]))


OTHERS = {"hostile": make_hostile_report, "hosts_faulty": host_reports.make_faulty_report,
          "hosts_well": host_reports.make_healthy_report,
          "hosts_strange": host_reports.make_strange_report}  # fmt: skip
each_page = pytest.mark.parametrize(
    "kind",
    [*MACHINES, "hostile", *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS if kind != "hostile")],
)


@each_page
def test_tags_close(kind: str) -> None:
    """All tags are balanced and all ids unique, whatever the machine returned."""
    page = PageParser(render_page(kind))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]

    assert (page.crooked, page.open) == ([], [])
    assert len(ids) == len(set(ids))


@each_page
def test_loads_nothing(kind: str) -> None:
    """The page names no address but anchors and its policy's; no font, script, style or image from elsewhere."""
    text = render_page(kind)
    page = PageParser(text)
    addresses = [a[key] for _, a in page.elements for key in ("src", "href", "action", "srcset", "data") if key in a]

    assert [one for one in addresses if not one.startswith("#") and one != "data:,"] == []
    assert (len(page.find_elements("script")), len(page.find_elements("style"))) == (1, 1)
    assert "@import" not in text and "url(" not in text
    assert [a for _, a in page.elements if any(key.startswith("on") for key in a)] == []


@each_page
def test_policy_allows_its_own_script_alone(kind: str) -> None:
    """The content security policy forbids everything but the page's own style and script, by their hashes."""
    policy = next(a["content"] for a in PageParser(render_page(kind)).find_elements("meta") if "http-equiv" in a)

    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]{44}'; script-src 'sha256-[\w+/=]{44}'; img-src data:; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )


@each_page
def test_everybody_can_read_it(kind: str) -> None:
    """Language, one h1, landmarks, headings that skip no level, named tables and pictures, heads with their scope."""
    page = PageParser(render_page(kind))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}

    assert page.find_elements("html")[0]["lang"] == "en"
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert [len(page.find_elements(tag)) for tag in ("main", "nav", "footer")] == [1, not kind.startswith("hosts"), 1]
    assert all(a.get("scope") in ("col", "row") for a in page.find_elements("th"))
    assert all(a.get("aria-label") for a in page.find_elements("svg"))
    assert all(a["aria-labelledby"] in ids for _, a in page.elements if "aria-labelledby" in a)
    assert all(a["href"][1:] in ids for a in page.find_elements("a"))
    assert all(a.get("type") == "button" for a in page.find_elements("button"))


def test_verdict_and_next_step_come_first() -> None:
    """The verdict and the next step, with its command, precede everything else."""
    text = PageParser(render_page("faulty")).full_text
    parts = ("Not ready to train.", "Next step", "Machine", "Links between devices", "Findings", "Created by")
    order = [0]
    for part in parts:
        order.append(text.index(part, order[-1]))  # ValueError if it stands before the previous part

    assert order[2] < 300
    assert "dmesg | grep -i -E 'davinci|drv_pcie'" in text[order[2] : order[3]]


def test_tiles_say_what_is_wrong() -> None:
    """A tile shows in words who uses memory and how much, temperature and health; a lost device has one too."""
    text = PageParser(render_page("faulty")).full_text

    assert "23.2 / 64 GiB" in text
    assert "Used by python3 (pid 20817, 20 GiB)" in text
    assert "✗ 93 °C limit 90 °C" in text
    assert "Alarm" in text
    assert "On the PCI bus, but not listed by the vendor tool" in text


@pytest.mark.parametrize("name", ["atlas-800t-a2", "atlas-800t-a3", "h200x8"])
def test_a_worn_memory_marks_its_tile(name: str) -> None:
    """A device with health OK and uncorrectable errors fails, and its tile shows it."""
    text = formats.render("html", make_doctor_report(name, ("ecc=3",)))

    assert "Memory errors✗ 3" in PageParser(text).full_text
    assert 1 <= text.count("card tile fail") <= 2  # an NPU counts for both its dies


def test_what_is_amiss_comes_first() -> None:
    """Failing devices and areas come first; healthy areas are collapsed."""
    page = render_page("faulty")
    states = [re.findall(r'card tile(?: ghost)? (\w+)"', page), re.findall(r'class="card area" id="area-\w+"', page)]
    tiles = [Status[state.upper()] for state in states[0]]
    folds = re.findall(r'<(article|details) class="card area"', page)

    assert tiles == sorted(tiles, reverse=True) and tiles[0] is Status.FAIL
    assert folds == sorted(folds) and {"article", "details"} == set(folds)


@pytest.mark.parametrize(("faults", "said"), [(("hot=101",), "7 healthy devices"), ((), "8 healthy devices")])
def test_healthy_devices_are_folded(faults: tuple[str, ...], said: str) -> None:
    """Beside a failing device healthy ones are folded and counted; where all are healthy, the fold is open."""
    page = formats.render("html", make_doctor_report("h200x8", faults))
    shown, fold = page.split('<details class="healthy"', 1)

    assert shown.count("card tile fail") == len(faults) and "card tile ok" not in shown
    assert fold.startswith(" open>" if not faults else ">") and said in fold
    assert fold.split("</details>")[0].count("card tile ok") == int(said[0])


@pytest.mark.slow
def test_64_hosts_are_light() -> None:
    """A page of 64 hosts takes at most 10 kB per host, even if half of them have different faults."""
    page = formats.render("html", host_reports.make_large_report())
    order = re.findall(r'<details class="card area" id="host-(node\d\d)"', page)
    (well,) = re.findall(r'<details class="card area">\s*<summary><span class="mark ok"[^>]*>✓</span><h3>([^<]+)', page)

    assert len(page.encode()) <= 640_000
    assert [int(name[4:]) % 4 for name in order] == [0] * 16 + [2] * 16  # two checks failed, one
    assert well == "32 of 64 hosts without issues"


@pytest.mark.slow
def test_a_large_fleet_has_no_endless_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, only the worst hosts have a section; the others have a row, and the page mentions it."""
    monkeypatch.setattr(page_hosts, "HOSTS_LIMIT", 2)
    text = formats.render("html", host_reports.make_faulty_report())

    assert re.findall(r'<details class="card area" id="host-(node\d\d)"', text) == ["node02", "node03"]
    assert "2 hosts have no section on this page" in text and "node06</th>" in text


@pytest.mark.slow
def test_the_grid_says_what_the_hosts_have() -> None:
    """A cell is as bad as the worst of that host in that area; being outvoted counts among the hosts."""
    text = render_page("hosts_faulty")
    heads = re.findall(r'<th scope="col">([^<]+)</th>', text.partition("</thead>")[0])
    rows = re.findall(r'<a href="#host-(node\d\d)">.*?</tr>', text)
    lines = re.findall(r'<tr><th scope="row">[^\n]*<a href="#host-[^\n]*</tr>', text)
    states = [re.findall(r'<td(?: class="(\w+)")?>', line) for line in lines]
    cells = {(name, head): state for name, row in zip(rows, states, strict=True)
             for head, state in zip(heads[1:], row, strict=True)}  # fmt: skip

    assert rows == ["node02", "node03", "node04", "node06"]
    assert (cells["node02", "Devices"], cells["node04", "Devices"]) == ("fail", "ok")
    assert (cells["node04", "Host comparison"], cells["node02", "Host comparison"]) == ("warn", "fail")
    assert (cells["node06", "Host comparison"], cells["node06", "Devices"]) == ("fail", "")


def test_colour_is_never_alone() -> None:
    """Each state that colours a tile, a pill or a mark is there as a word, too, and each link's cell has its text."""
    text = render_page("box16")
    cells = re.findall(r'<td class="(\w+)">([^<]*)</td>', text)

    assert "warning" in PageParser(text).full_text
    assert {kind for kind, words in cells if not words} == {"self"}
    assert ("fabric", "HCCS") in cells and ("sys", "SYS") in cells


def test_graph_shows_the_slow_one() -> None:
    """A device without the fast links of its peers is marked in the graph, and it alone."""
    tied = make_doctor_report(*MACHINES["box16"]).hosts[0].facts.vendors[0].topology
    assert tied is not None
    drawn = topology.build_graph(tied, ["ok"] * 16)

    assert [box.near for box in drawn.boxes] == ["0-47", "48-95"]
    assert [dot.name for box in drawn.boxes for dot in box.dots if dot.slower] == ["NPU15"]
    assert drawn.between == (("sys", "SYS"),)


def make_mesh(groups: int, lost: set[tuple[int, int]]) -> Topology:
    """Sixteen devices that HCCS ties each to each, but for some pairs."""
    names = tuple(f"NPU{n}" for n in range(16))
    relation = {a: {b: "SYS" if tuple(sorted((i, j))) in lost else "HCCS" for j, b in enumerate(names) if a != b}
                for i, a in enumerate(names)}  # fmt: skip
    return Topology(names, (), relation, {}, {name: str(n * groups // 16) for n, name in enumerate(names)})


@pytest.mark.parametrize("groups", [1, 2, 3, 8])
def test_links_alike_need_no_line(groups: int) -> None:
    """If all links are equal, no line is drawn, and the usual link is named instead."""
    drawn = topology.build_graph(make_mesh(groups, set()), [])

    assert drawn.lines == ()
    assert {*drawn.within, *drawn.between} == {("fabric", "HCCS")}


@given(
    st.integers(1, 3),
    st.sets(st.tuples(st.integers(0, 15), st.integers(0, 15)).filter(lambda p: p[0] < p[1]), max_size=5),
)
def test_a_line_where_links_differ(groups: int, lost: set[tuple[int, int]]) -> None:
    """Each link that differs is drawn, inside the picture, and none goes through the words of a group."""
    drawn = topology.build_graph(make_mesh(groups, lost), [])
    strokes = [part for line in drawn.lines for part in line.path.split("M")[1:]]

    assert len(strokes) == len(lost)
    for stroke in strokes:
        numbers = list(map(float, re.findall(r"-?[\d.]+", stroke)))
        ends = list(zip(numbers[::2], numbers[1::2], strict=True))
        for x, y in (_locate_on_curve(ends, step / 40) for step in range(41)):
            assert 0 <= x <= drawn.width and 0 <= y <= drawn.height
            assert not any(b.x <= x <= b.x + b.width and b.y <= y <= b.y + topology.HEAD for b in drawn.boxes)


def _locate_on_curve(points: list[tuple[float, float]], at: float) -> tuple[float, float]:
    """Points of a line, or of a curve with one control point."""
    while len(points) > 1:
        points = [(a[0] + (b[0] - a[0]) * at, a[1] + (b[1] - a[1]) * at) for a, b in itertools.pairwise(points)]
    return points[0]


@pytest.mark.parametrize(
    ("relation", "kind"),
    [
        ("SIO", "package"),
        ("HCCS", "fabric"),
        ("HCCS_SW", "fabric"),
        ("NV18", "fabric"),
        ("PIX", "switch"),
        ("PXB", "switch"),
        ("PHB", "bridge"),
        ("NODE", "bridge"),
        ("SYS", "sys"),
        ("N/A", "untold"),
        ("", "untold"),
        (None, "untold"),
        ("NEW_LINK", "untold"),
    ],
)
def test_kinds_of_link(relation: str | None, kind: str) -> None:
    """Each printed relation has one kind; unknown relations are unknown, not guessed."""
    assert topology.classify_link(relation) == kind


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 16, 64])
def test_dots_lie_apart_and_inside(count: int) -> None:
    """However many devices a group has, no two lie on each other and none leaves its box."""
    names = tuple(f"GPU{n}" for n in range(count))
    drawn = topology.build_graph(Topology(names, (), {}, {}, {}), [])
    dots = [(dot, box) for box in drawn.boxes for dot in box.dots]

    assert len(dots) == count
    assert all(abs(a.x - b.x) + abs(a.y - b.y) > 20 for (a, _), (b, _) in combinations(dots, 2))
    assert all(box.x + 15 <= dot.x <= box.x + box.width - 15 for dot, box in dots)
    assert all(box.y + 15 <= dot.y <= box.y + box.height - 15 for dot, box in dots)


def test_hostile_words_are_words() -> None:
    """Markup of a machine's own is shown as text, and 10 MB of evidence leave a page that a browser opens at once."""
    text = render_page("hostile")

    assert "&lt;script&gt;document.title=" in text
    assert "taken'</script>" not in text and "<img src=x" not in text and "{{7*7}}" in text
    assert not any(c in text for c in "\x1b\x00\x07\u202e")
    assert len(text) < 2_000_000


def test_nothing_to_show() -> None:
    """A report without findings, host or devices is still a valid page."""
    page = PageParser(formats.render("html", make_machine_report((), Facts())))

    assert "No check applies to this machine." in page.full_text
    assert "no accelerator found" in page.full_text


def test_sixteen_cards_are_light() -> None:
    """The page of a machine with sixteen cards and faults stays under 300 kB."""
    assert len(render_page("box16").encode()) < 300_000


def compute_luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


SCHEMES = {"light": palette.LIGHT, "dark": palette.DARK}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("text", "ground"), palette.PAIRS, ids=lambda name: name)
def test_contrast(scheme: str, text: str, ground: str) -> None:
    """Text has a contrast of at least 4.5 to 1 in both schemes."""
    a, b = sorted((compute_luminance(SCHEMES[scheme][text]), compute_luminance(SCHEMES[scheme][ground])))

    assert (b + 0.05) / (a + 0.05) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_bars_stand_out(scheme: str) -> None:
    """A bar has a contrast of at least 3 to 1, as graphics must."""
    colours = SCHEMES[scheme]
    for part in ("bar", "warn", "fail"):
        a, b = sorted((compute_luminance(colours[part]), compute_luminance(colours["sunk"])))

        assert (b + 0.05) / (a + 0.05) >= 3


@pytest.mark.parametrize(
    ("name", "place", "status"),
    [
        ("host.shm", "/dev/shm", Status.FAIL),
        ("job.shm", "/dev/shm", Status.WARN),
        ("host.memory", "Host memory", Status.WARN),
        ("host.disk", "home directory", Status.WARN),
        ("job.disk", "current directory", Status.FAIL),
        ("engine.disk", "/var/lib/docker", Status.WARN),
        ("host.shm", "", Status.UNKNOWN),
        ("host.clock", "", Status.FAIL),
    ],
)
def test_a_place_that_a_check_tells_of_is_marked(name: str, place: str, status: Status) -> None:
    """The bar of what a check finds wanting has its colour and its sign, no other has; a waived one looks well."""
    disks = {p: Disk(n * 100 * GIB, (5 if p == "home" else 50) * GIB) for n, p in enumerate((".", "home", "/"), 1)}
    disks["/dev/shm"] = disks["."]  # a file system of its own whatever its size
    host = SystemFacts(memory_total_bytes=GIB, memory_available_bytes=GIB)
    found = Facts(host=host, disks={**disks, "/var/lib/docker": Disk(900 * GIB, 50 * GIB)})
    finding = Finding(name, status, "seen")
    drawn = {b.name: b.state for b in bars.build_bars(found, [finding], get_labels())}
    marked = {b: state for b, state in drawn.items() if state}

    assert len(drawn) == 6
    assert marked == ({place: status.name.lower()} if place else {})
    assert not any(b.state for b in bars.build_bars(found, [replace(finding, waived="so")], get_labels()))


def test_one_row_for_one_file_system() -> None:
    """Paths with the same size and free space are one row; free space is shown with what is needed."""
    disks = {"/": Disk(100 * GIB, 50 * GIB), ".": Disk(100 * GIB, 50 * GIB), "home": Disk(100 * GIB, 50 * GIB + 4096),
             "/data": Disk(100 * GIB, 70 * GIB)}  # fmt: skip
    drawn = [(b.name, b.text, b.needs) for b in bars.build_bars(Facts(disks=disks), [], get_labels())]

    assert drawn == [("/, current directory, home directory", "50 / 100 GiB free", "needs 20 GiB"),
                     ("/data", "70 / 100 GiB free", "")]  # fmt: skip


def test_a_waived_finding_is_called_waived() -> None:
    """The page shows that a finding is waived, and until when."""
    finding = Finding("host.memory", Status.WARN, "3 GiB free", waived="until 2027-01-31: known")
    page = formats.render("html", make_machine_report([finding], Facts()))
    (pill,) = re.findall(r'<li class="pill waived"><span aria-hidden="true">~</span> (.*?)</li>', page)
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index('<p class="name">') :]))

    assert said.startswith(" waived · host.memory · until 2027-01-31: known ")
    assert pill == "1 waived"


def test_a_small_shm_is_seen_on_the_page() -> None:
    """By its colour, and by a sign for those who see none."""
    text = render_page("faulty")

    assert re.search(r'<span>/dev/shm</span><span class="word fail">✗ [\d.]+ / 64 MiB free, needs 16 GiB</span>', text)
    assert '<svg class="bar fail"' in text and '<svg class="bar fail"' not in render_page("healthy")


# Machado, Oliveira, Fernandes 2009: how colours look without one kind of cone, in linear RGB.
BLIND = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def convert_to_lab(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """CIE L*a*b* (D65) of the colour as it is seen through the matrix."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    r, g, b = (min(1.0, max(0.0, sum(m * v for m, v in zip(row, linear, strict=True)))) for row in matrix)
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def measure_distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum((p - q) ** 2 for p, q in zip(one, other, strict=True)) ** 0.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("blind", BLIND)
def test_colour_blind_people_see_states(scheme: str, blind: str) -> None:
    """Well, warning and failure, and neighbouring kinds of link, stay apart for eyes without one kind of cone."""
    colours, matrix = SCHEMES[scheme], BLIND[blind]
    links = [f"link-{link}" for link in palette.LINKS]
    pairs = [*combinations(("ok", "warn", "fail"), 2), *pairwise(links)]
    seen = {name: convert_to_lab(colour, matrix) for name, colour in colours.items()}
    close = [(one, other) for one, other in pairs if measure_distance(seen[one], seen[other]) < 9]

    assert close == []


@pytest.mark.slow
def test_failing_hosts_with_many_cards_are_light() -> None:
    """A page of 32 hosts of 16 cards, all of which fail, takes less than 10 kB per host: healthy cards are one short
    line each."""
    failing = [host for host in host_reports.make_large_report().hosts if not page_hosts.is_healthy(host)]
    hosts = tuple(HostReport(tuple(checks.run_checks(h.facts)), h.facts, h.name) for h in failing)
    page = formats.render("html", DoctorReport(hosts))

    assert len(hosts) == 32 and len(page.encode()) < 320_000
    assert page.count('<tr><th scope="row">Device 15</th>') == 32

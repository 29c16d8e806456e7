"""The fleet's page: its parts, what a stranger writes into it, and what a real Chromium makes of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from envcheck.core.model import Status
from envcheck.fleet.report import page
from envcheck.report.summary import verdict
from tests.envcheck.fleet.fleet_reports import faulty, rendered, strange, well
from tests.envcheck.report import browser
from tests.envcheck.report.test_report_browser import WIDE, copied


class Ids(HTMLParser):
    """All ids, all places that links lead to, and the texts of labels that name others."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.scripts += tag == "script"
        self.ids += [told["id"]] if told.get("id") else []
        named = (told.get("aria-labelledby") or "").split()
        self.links += [f"#{name}" for name in named] + ([told["href"]] if tag == "a" and told.get("href") else [])


@pytest.mark.parametrize("make", (faulty, well, strange), ids=("faulty", "well", "strange"))
def test_each_link_leads_somewhere(make) -> None:  # type: ignore[no-untyped-def]
    """Ids are there once, each link and label leads to one, and no script is there but ours."""
    told = Ids(rendered("html", make()))

    assert len(told.ids) == len(set(told.ids))
    assert [link for link in told.links if link.removeprefix("#") not in told.ids] == []
    assert told.scripts == 1


def test_the_grid_says_what_the_hosts_have() -> None:
    """A cell is as bad as the worst of that host in that area; being outvoted counts among the hosts."""
    text = rendered("html", faulty())
    cells = dict(re.findall(r'aria-label="(node\d\d, [^"]+): ([a-z ]+)">', text))

    assert cells["node02, Devices"] == "failed"
    assert cells["node01, Devices"] == "passed"
    assert (cells["node04, Among the hosts"], cells["node02, Among the hosts"]) == ("warning", "failed")
    assert cells["node06, Among the hosts"] == "failed"


def test_a_large_fleet_has_no_endless_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the worst hosts have a page, the others their line in the grid, and that is said."""
    monkeypatch.setattr(page, "PAGES_LIMIT", 4)
    fleet = faulty()
    text = rendered("html", fleet)
    shown = set(re.findall(r'id="host-(node\d\d)-top"', text))

    assert shown == {h.name for h in fleet.hosts if verdict(h.findings) is Status.FAIL} | {"node02"}
    assert "2 hosts have no page of their own here" in text
    assert text.count('<th scope="row">') > 6


def test_in_chinese() -> None:
    """The words around the findings are in the language that was chosen."""
    assert "主机与各方面" in rendered("html", faulty(), lang="zh")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    browser.program()
    folder = tmp_path_factory.mktemp("fleet-pages")
    for name, make in (("faulty", faulty), ("strange", strange)):
        (folder / f"{name}.html").write_text(rendered("html", make()), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in ("faulty", "strange")}


@pytest.mark.real
@pytest.mark.parametrize("kind", ("faulty", "strange"))
def test_the_console_stays_silent(pages: dict[str, Path], kind: str) -> None:
    """With its policy in force the page draws without an error or a refusal, and its own script runs."""
    done = browser.run(pages[kind], "--dump-dom", "--virtual-time-budget=3000")

    assert browser.console(done) == []
    assert '<button type="button" id="theme" data-script=""' in done.stdout
    assert "<title>taken" not in done.stdout


@pytest.mark.real
def test_a_click_opens_the_hosts_own_page(pages: dict[str, Path]) -> None:
    """From the grid to a host, to one area of another, and back: one of them is shown at a time."""
    steps = """
    var seen=function(){var all=[].slice.call(document.querySelectorAll('.overview,.node'));
      return all.filter(function(e){return getComputedStyle(e).display!=='none'}).map(function(e){return e.id})};
    var go=function(where){document.querySelector('a[href="'+where+'"]').click(); return seen()};
    return [seen(), go('#host-node02-top'), go('#host-node03-area-devices'), go('#fleet')];
    """

    assert browser.after(pages["faulty"], steps) == [["fleet"], ["host-node02-top"], ["host-node03-top"], ["fleet"]]


@pytest.mark.real
def test_keyboard_reaches_all(pages: dict[str, Path]) -> None:
    """Whatever can be pressed or scrolled on a page that is shown takes the focus, and shows it."""
    steps = """
    var what='.top button,.overview a,.overview button,.overview summary,.scroll';
    var all=[].slice.call(document.querySelectorAll(what))
      .filter(function(e){return e.offsetParent!==null});
    var lost=all.filter(function(e){e.focus({focusVisible:true}); return document.activeElement!==e});
    document.getElementById('theme').focus({focusVisible:true});
    return [all.length>40, lost.length, getComputedStyle(document.activeElement).outlineStyle];
    """

    assert browser.after(pages["faulty"], steps) == [True, 0, "solid"]


@pytest.mark.real
@pytest.mark.parametrize("kind", ("faulty", "strange"))
def test_fits_a_phone(pages: dict[str, Path], kind: str, tmp_path: Path) -> None:
    """On a window of 390 points nothing sticks out: the grid scrolls in its own place."""
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<script>addEventListener('load',function(){var w=document.querySelector('iframe').contentWindow;"
        f"document.title=JSON.stringify(w.eval('(function(){{'+{WIDE!r}+'}})()'))}})</script>"
        f'<iframe width="390" height="900" style="border:0" src="{copied(pages[kind], tmp_path).name}"></iframe>'
    )
    done = browser.run(frame, "--dump-dom", "--virtual-time-budget=4000", "--allow-file-access-from-files")

    assert "<title>[true,[]]</title>" in done.stdout


@pytest.mark.real
def test_pictures(pages: dict[str, Path], tmp_path: Path) -> None:
    """It is drawn light or dark as the system is."""
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    for picture, more in ((light, ()), (dark, ("--blink-settings=preferredColorScheme=0",))):
        browser.run(pages["faulty"], "--window-size=1280,1200", f"--screenshot={picture}", *more)

    assert light.stat().st_size > 20_000 and dark.stat().st_size > 20_000
    assert light.read_bytes() != dark.read_bytes()

"""The page in a real, headless Chromium: nothing goes wrong, folds open, the scheme changes, it fits a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envcheck.report import formats
from tests.envcheck.report import browser, host_reports
from tests.envcheck.report.report_helpers import FAULTY, make_doctor_report, make_hostile_report

pytestmark = pytest.mark.real

# Whether anything is wider than the window, and what sticks out.
WIDE = """
var wide=[].slice.call(document.querySelectorAll('body *')).filter(function(e){
  return !e.closest('.scroll,pre,code,.visually-hidden,.skip-link,svg') &&
    e.getBoundingClientRect().right>innerWidth+1});
return [document.documentElement.scrollWidth<=innerWidth, wide.slice(0,3).map(function(e){return e.className})];
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    browser.find_browser()
    folder = tmp_path_factory.mktemp("pages")
    reports = {
        "healthy": make_doctor_report("atlas-800t-a2"),
        "faulty": make_doctor_report("atlas-800t-a2", FAULTY),
        "box16": make_doctor_report("atlas-200t-a2-box16", ("topology-degraded",)),
        "hostile": make_hostile_report(),
        "hosts": host_reports.make_faulty_report(),
        "strange": host_reports.make_strange_report(),
    }
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(formats.render("html", report), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in reports}


@pytest.mark.parametrize("kind", ["faulty", "hostile", "hosts", "strange"])
def test_the_console_stays_silent(pages: dict[str, Path], kind: str) -> None:
    """The page as it is written, with its policy in force, draws without an error or a refusal in the console."""
    done = browser.run_browser(pages[kind], "--dump-dom", "--virtual-time-budget=3000")

    assert browser.read_console(done) == []
    assert 'id="verdict"' in done.stdout
    assert (
        '<button type="button" id="theme" data-script=""' in done.stdout
    )  # shown by the script: the policy lets it run
    assert "<title>taken" not in done.stdout


def test_folds_open(pages: dict[str, Path]) -> None:
    """A click opens one fold and shows its evidence; the button opens and closes all."""
    steps = """
    var folds=[].slice.call(document.querySelectorAll('details')), open=function(){
      return folds.filter(function(d){return d.open}).length};
    var before=open(); folds[0].querySelector('summary').click(); var one=open();
    var shown=folds[0].lastElementChild.getBoundingClientRect().height>0;
    var button=document.getElementById('folds'); button.click(); var all=open()===folds.length, said=button.textContent;
    button.click();
    return [before, one, shown, all, said, open(), folds.length>10];
    """

    assert browser.run_steps(pages["faulty"], steps) == [0, 1, True, True, "Collapse all", 0, True]


def test_scheme_changes(pages: dict[str, Path]) -> None:
    """The button toggles light and dark, shows which is active, and the colours change."""
    steps = """
    var ground=function(){return getComputedStyle(document.body).backgroundColor};
    var button=document.getElementById('theme');
    var a=[ground(),button.getAttribute('aria-pressed')]; button.click();
    var b=[ground(),button.getAttribute('aria-pressed')]; button.click();
    return [a,b,[ground(),button.getAttribute('aria-pressed')]];
    """
    first, second, third = browser.run_steps(pages["healthy"], steps)

    assert (first, second) == (["rgb(246, 247, 249)", "false"], ["rgb(16, 21, 27)", "true"])
    assert third == first


@pytest.mark.parametrize("kind", ["faulty", "box16", "hostile", "hosts", "strange"])
def test_fits_a_phone(pages: dict[str, Path], kind: str, tmp_path: Path) -> None:
    """On a window of 390 points nothing sticks out: wide tables scroll in their own place."""
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<script>addEventListener('load',function(){var w=document.querySelector('iframe').contentWindow;"
        f"document.title=JSON.stringify(w.eval('(function(){{'+{WIDE!r}+'}})()'))}})</script>"
        f'<iframe width="390" height="900" style="border:0" '
        f'src="{copy_without_policy(pages[kind], tmp_path).name}"></iframe>'
    )
    done = browser.run_browser(frame, "--dump-dom", "--virtual-time-budget=4000", "--allow-file-access-from-files")

    assert "<title>[true,[]]</title>" in done.stdout


def copy_without_policy(page: Path, folder: Path) -> Path:
    """The page without its policy, which forbids to be asked."""
    text = page.read_text(encoding="utf-8")
    start = text.index('<meta http-equiv="Content-Security-Policy"')
    (folder / "page.html").write_text(text[:start] + text[text.index(">", start) + 1 :], encoding="utf-8")
    return folder / "page.html"


def test_keyboard_reaches_all(pages: dict[str, Path]) -> None:
    """Whatever can be pressed or scrolled takes the focus, and shows that it has it."""
    steps = """
    var all=[].slice.call(document.querySelectorAll('a,button,summary,.scroll,pre,code'));
    var lost=all.filter(function(e){e.closest('details')&&(e.closest('details').open=true);
      e.focus({focusVisible:true}); return document.activeElement!==e && e.tagName!=='CODE'});
    document.getElementById('theme').focus({focusVisible:true});
    return [all.length>20, lost.length, getComputedStyle(document.activeElement).outlineStyle];
    """

    assert browser.run_steps(pages["faulty"], steps) == [True, 0, "solid"]


def test_pictures(pages: dict[str, Path], tmp_path: Path) -> None:
    """It is drawn as the system is, light or dark."""
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    for picture, more in ((light, ()), (dark, ("--blink-settings=preferredColorScheme=0",))):
        browser.run_browser(pages["box16"], "--window-size=1280,1600", f"--screenshot={picture}", *more)

    assert light.stat().st_size > 20_000 and dark.stat().st_size > 20_000
    assert light.read_bytes() != dark.read_bytes()


def test_print_opens_folds(pages: dict[str, Path], tmp_path: Path) -> None:
    """On paper all folds are open, by the style sheet alone: without any script the print is as long as with it."""
    whole = pages["faulty"].read_text(encoding="utf-8")
    bare = re.sub(r"<script>.*</script>", "", whole, flags=re.DOTALL)
    sizes = {}
    for name, text in {"script": whole, "bare": bare, "none": bare.replace("<details>", "<details hidden>")}.items():
        page, paper = tmp_path / f"{name}.html", tmp_path / f"{name}.pdf"
        page.write_text(text, encoding="utf-8")
        browser.run_browser(page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
        sizes[name] = paper.stat().st_size

    assert sizes["bare"] > 1.3 * sizes["none"]
    assert abs(sizes["bare"] - sizes["script"]) < 0.1 * sizes["script"]

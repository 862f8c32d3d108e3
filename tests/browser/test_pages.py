"""What only a browser can tell: figures, colours, widths, keys, and whom a page talks to."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, expect

from dashboards.report import render
from service.db import models
from service.db import runs as runs_db
from service.domain import CANCELLED, Status
from tests.browser.conftest import Site, Visit
from tests.browser.rows import COMMAND, HOSTILE

Open = Callable[..., Visit]

OUTCOMES = [
    "failed", "cancelled", "missing", "invalid", "broken", "inconclusive", "no_change",
    "improvement", "regression", "running", "queued",
]  # fmt: skip
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def drawn(page: Page, count: int) -> None:
    """Scroll to every figure and see that it is drawn."""
    plots = page.locator(".plot")
    expect(plots).to_have_count(count)
    for number in range(count):
        plots.nth(number).scroll_into_view_if_needed()
        expect(plots.nth(number).locator("svg.main-svg").first).to_be_visible()
    expect(page.locator(".plot[data-drawn]")).to_have_count(count)


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def asked_nobody_else(visit: Visit, site: Site) -> bool:
    return visit.hosts == {urlsplit(site.url).netloc}


def has_no_sideways_scroll(page: Page) -> bool:
    fits: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return fits


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_page_of_every_outcome_loads_in_silence(site: Site, visit: Open, name: str) -> None:
    opened = visit(site.run(name), **PHONE)
    expect(opened.page.locator("h1")).to_be_visible()
    assert not opened.complaints
    assert asked_nobody_else(opened, site)
    assert has_no_sideways_scroll(opened.page)


def test_the_list_shows_every_outcome_and_a_hostile_subject_as_text(
    site: Site, visit: Open
) -> None:
    opened = visit(f"{site.url}/ui")
    words = opened.page.locator("tbody .mark").all_inner_texts()
    assert len(words) == len({word.strip() for word in words}) == len(OUTCOMES)
    expect(opened.page.get_by_text(HOSTILE)).to_be_visible()
    assert opened.page.title() == "Runs · Paceline"
    assert not opened.complaints


def test_the_form_puts_its_filter_into_the_address(site: Site, visit: Open) -> None:
    page = visit(f"{site.url}/ui").page
    page.get_by_text("Filter").click()
    page.get_by_label("regression").check()
    page.get_by_label("broken").check()
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    assert "verdict=regression&verdict=broken" in page.url
    expect(page.get_by_label("broken")).to_be_checked()
    page.get_by_role("link", name="all runs").click()
    expect(page.locator("tbody tr")).to_have_count(len(OUTCOMES))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_are_drawn_in_the_colours_of_the_scheme(
    site: Site, visit: Open, scheme: str
) -> None:
    opened = visit(site.run("regression"), color_scheme=scheme)
    drawn(opened.page, 6)
    assert (
        background(opened.page)
        == {
            "light": "rgb(246, 246, 244)",
            "dark": "rgb(17, 21, 26)",
        }[scheme]
    )
    expect(_candidate_line(opened.page)).to_have_css(
        "stroke", {"light": "rgb(213, 94, 0)", "dark": "rgb(230, 159, 0)"}[scheme]
    )
    assert not opened.complaints
    assert asked_nobody_else(opened, site)


def test_figures_follow_when_the_scheme_changes(site: Site, visit: Open) -> None:
    opened = visit(site.run("regression"), color_scheme="light")
    drawn(opened.page, 6)
    opened.page.emulate_media(color_scheme="dark")
    expect(_candidate_line(opened.page)).to_have_css("stroke", "rgb(230, 159, 0)")
    assert not opened.complaints


def _candidate_line(page: Page):  # type: ignore[no-untyped-def]
    return page.locator(".trace .plot").first.locator("path.js-line").nth(1)


@pytest.mark.parametrize("path", ["/ui", "/ui/runs/00000000-0000-0000-0000-000000000001"])
def test_a_phone_needs_no_sideways_scroll(site: Site, visit: Open, path: str) -> None:
    opened = visit(site.url + path, **PHONE)
    assert has_no_sideways_scroll(opened.page)


def test_a_phone_needs_none_with_everything_open_either(site: Site, visit: Open) -> None:
    opened = visit(site.run("regression"), **PHONE)
    drawn(opened.page, 6)
    opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert has_no_sideways_scroll(opened.page)


def test_the_keyboard_reaches_the_reasons(site: Site, visit: Open) -> None:
    page = visit(site.run("no_change")).page
    reasons = page.locator(".why details").first
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.why summary')"):
            break
    focused = page.locator(":focus-visible")
    expect(focused).to_have_css("outline-style", "solid")
    page.keyboard.press("Enter")
    expect(reasons).to_have_attribute("open", "")
    expect(reasons.locator(".looks")).to_be_visible()


def test_a_pair_is_chosen_by_address(site: Site, visit: Open) -> None:
    page = visit(site.run("no_change")).page
    page.get_by_role("link", name="3", exact=True).click()
    assert re.search(r"\?pair=3#", page.url)
    expect(page.get_by_role("heading", name="Step times of pair 3")).to_be_visible()


def test_a_command_can_be_copied(site: Site, visit: Open) -> None:
    page = visit(site.run("broken"), permissions=["clipboard-read", "clipboard-write"]).page
    page.locator("summary", has_text="command").last.click()
    page.get_by_role("button", name="Copy").last.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == COMMAND


def test_a_log_is_shown_as_text_and_can_be_saved(site: Site, visit: Open) -> None:
    page = visit(site.run("broken")).page
    page.get_by_role("link", name="log.txt").first.click()
    expect(page.locator("pre.log")).to_contain_text("RuntimeError: <b>shape</b> mismatch")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").click()
    assert saved.value.suggested_filename == "log.txt"


def test_a_run_that_moved_on_says_so_without_moving(own_site: Site, visit: Open) -> None:
    opened = visit(own_site.run("running"))
    status = opened.page.locator(".live [role=status]")
    expect(status).to_be_empty()
    with own_site.sessions.begin() as session:
        for case in session.scalars(sa.select(models.JobCase)):
            case.finished_at = datetime.now(UTC)
    expect(status).to_contain_text("There is new data. The run is being measured")
    with own_site.sessions.begin() as session:
        run = runs_db.run(session, own_site.runs["running"])
        runs_db.finish(session, run, Status.CANCELLED, CANCELLED)
    expect(status).to_contain_text("The run has ended.")
    expect(opened.page.locator("h1")).to_contain_text("is being measured")
    opened.page.get_by_role("link", name="Reload").click()
    expect(opened.page.locator("h1")).to_contain_text("was cancelled")
    assert not opened.complaints


def test_an_empty_service_says_what_to_type(empty_site: Site, visit: Open) -> None:
    opened = visit(f"{empty_site.url}/ui", **PHONE)
    expect(opened.page.get_by_text("paceline project add PATH")).to_be_visible()
    expect(opened.page.get_by_text("paceline compare BASE..CANDIDATE")).to_be_visible()
    assert not opened.complaints
    assert has_no_sideways_scroll(opened.page)


def test_a_report_is_whole_without_any_network(site: Site, visit: Open, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with site.sessions() as session:
        html = render(session, [site.runs["regression"], site.runs["broken"]], "Report")
    file = tmp_path / "report.html"
    file.write_text(html, encoding="utf-8")
    opened = visit(file.as_uri(), offline=True)
    drawn(opened.page, 6)
    assert not opened.complaints
    assert opened.hosts == {""}

"""Logging in, cancelling a run and logging out, as people do it."""

from collections.abc import Callable

from playwright.sync_api import expect

from service.domain import Scope
from tests import factories
from tests.browser.conftest import Site, Visit

Open = Callable[..., Visit]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def test_a_person_logs_in_cancels_a_run_and_logs_out(guarded_site: Site, visit: Open) -> None:
    with guarded_site.sessions.begin() as session:
        text = factories.token(session, "ada", Scope.RUNS_WRITE).text
    opened = visit(guarded_site.run("queued"), **PHONE)
    page = opened.page
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()

    page.get_by_label("Token").fill("pl_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("malformed")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(guarded_site.run("queued"))
    assert page.evaluate("document.cookie") == ""

    page.get_by_role("button", name="Cancel run").click()
    expect(page.locator(".verdict .mark")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(f"{guarded_site.url}/ui")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    # Chromium itself notes the 422 of the wrong token; nothing else went wrong.
    assert [line for line in opened.complaints if "422" not in line] == []

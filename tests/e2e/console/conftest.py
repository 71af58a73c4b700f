"""A browser for the tests of a module, and who has logged in with it."""

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.fixtures.browser import Visitor, launch


@pytest.fixture(scope="module")
def browser():
    """Chromium."""
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def cookies(browser, site):
    """The cookies of someone who has opened the link of the module's `site`."""
    url, link = site
    visitor = Visitor(browser, url)
    visitor.page.goto(link)
    expect(visitor.page).to_have_url(f"{url}/")
    found = visitor.page.context.cookies()
    visitor.close()
    return found

"""A browser for the tests of a module."""

import pytest
from playwright.sync_api import sync_playwright

from tests.fixtures.browser import launch


@pytest.fixture(scope="module")
def browser():
    """Chromium."""
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()

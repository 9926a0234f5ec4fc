"""Debian's chromium, headless and cut off from the network, driven by Playwright.

A page is opened from disk. At the end of the test it must have asked for nothing but files, and
must have logged no error.
"""

import shutil

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT = 60_000
"""Milliseconds until a browser that does not answer fails a test; no test waits for them."""


@pytest.fixture(scope="module")
def chromium():
    """The browser, one for all tests of a module.

    Playwright keeps an event loop running in the thread it is driven from, in which no later test
    could run one of its own: it must end with the module.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("chromium is not installed; `make browser` installs it on Debian")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=LIMIT)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """A function that opens a file: `open_page(path, width=390, dark=True, javascript=False)`."""
    contexts, faults = [], []

    def said(message):
        if message.type in ("error", "warning"):
            faults.append(f"console: {message.text}")

    def asked(request):
        if not request.url.startswith("file://"):
            faults.append(f"request: {request.url}")

    def opened(path, width=1280, height=900, dark=False, javascript=True, **options):
        context = chromium.new_context(
            offline=True,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        context.set_default_timeout(LIMIT)
        page = context.new_page()
        page.on("console", said)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("request", asked)
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not faults

"""`dlx console` serves the tables, prints a link that logs in, and ends with Ctrl-C."""

import http.cookiejar
import signal
import subprocess
import sys
import urllib.request

import pytest

from streaming.cli.exit_codes import EXIT_INVALID


@pytest.fixture
def start(tmp_path):
    """Starts `dlx console` with options."""
    running = []

    def run(*options):
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming.cli", "console", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def test_the_printed_link_logs_in_and_ctrl_c_ends_the_console(start, shop_root):
    process = start("--tables", shop_root)
    link = process.stdout.readline().strip()
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    page = browser.open(link).read().decode()
    process.send_signal(signal.SIGINT)

    assert "<h1>Now</h1>" in page
    assert process.wait() == 0
    assert "Traceback" not in process.stderr.read()


def test_a_second_console_takes_another_port(start, shop_root):
    first = start("--tables", shop_root).stdout.readline()
    second = start("--tables", shop_root).stdout.readline()

    assert first.split("?")[0] != second.split("?")[0]


def test_an_address_that_is_in_use_is_refused(start, shop_root):
    address = start("--tables", shop_root).stdout.readline().split("/")[2]

    process = start("--tables", shop_root, "--listen", address)

    assert process.wait() == EXIT_INVALID
    assert address in process.stderr.read()


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:0", "0.0.0.0:9420"])
def test_an_address_that_cannot_be_used_is_refused(start, shop_root, address):
    process = start("--tables", shop_root, "--listen", address)

    assert process.wait() == EXIT_INVALID
    error = process.stderr.read()
    assert "listen" in error
    assert "Traceback" not in error


def test_tables_that_do_not_exist_are_said_on_the_page(start, tmp_path):
    link = start("--tables", str(tmp_path)).stdout.readline().strip()
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    with pytest.raises(urllib.error.HTTPError) as refused:
        browser.open(link)

    assert str(tmp_path) in refused.value.read().decode()

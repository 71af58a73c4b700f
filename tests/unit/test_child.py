"""A test that waits for a program says at its deadline what the program did and where it is."""

import subprocess
import sys

import pytest

from tests.fixtures.child import Child

HANGS = "import threading\nprint('ready', flush=True)\ndef hang(): threading.Event().wait()\nhang()"


def test_a_program_that_hangs_is_shown_with_its_stacks():
    with Child([sys.executable, "-c", HANGS], stderr=subprocess.STDOUT) as child:
        assert child.line() == "ready"
        with pytest.raises(AssertionError, match=r"printed no line within 0\.2 s") as caught:
            child.line(0.2)
        assert child.wait() != 0

    assert "ready\n" in str(caught.value)
    assert " in hang\n" in str(caught.value)


def test_a_program_that_ends_early_is_shown_with_its_status_and_output():
    program = [sys.executable, "-c", "import sys; print('one'); sys.exit('why')"]
    with Child(program, stderr=subprocess.PIPE) as child:
        assert child.line() == "one"
        with pytest.raises(AssertionError, match="ended with status 1; it printed:\none\nwhy\n"):
            child.line()


def test_the_rest_of_an_output_is_what_follows_the_lines():
    with Child([sys.executable, "-c", "print('one'); print('two'); print('three')"]) as child:
        assert (child.line(), child.rest(), child.wait()) == ("one", "two\nthree\n", 0)

    assert child.printed == ["one\n", "two\n", "three\n"]

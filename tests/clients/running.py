"""Run the program of a page against a broker of its own, in memory, with a clock moved by hand."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streaming.embedded.kafka.ports import LOOPBACK, free_port
from tests.bench.processes import Process
from tests.clients.programs import PROGRAMS, Program, text_of
from tests.fixtures.waiting import wait_until
from tests.fixtures.wheel import UV

TIMEOUT_S: Final = 600


class ProgramError(Exception):
    """A program cannot be prepared, failed, or printed something else; the text says what."""


def run_program(name: str, folder: Path) -> None:
    """Run the program of a page.

    Raises:
        ProgramError: it did not do what its page says.
    """
    program = PROGRAMS[name]
    folder.mkdir(parents=True, exist_ok=True)
    python = _python(program, folder)
    for file, text in program.files:
        (folder / file).write_text(text, "utf-8")
    with _broker(folder) as (port, web_port):
        text = text_of(name).replace("localhost:5672", f"localhost:{port}")
        text = text.replace('"localhost", 5672', f'"localhost", {port}')
        text = text.replace("localhost:15673", f"localhost:{web_port}")
        (folder / program.file).write_text(text, "utf-8")
        if program.prepare:
            _output(program.prepare, folder)
        command = [str(python) if word == "python" else word for word in program.command]
        printed = _output(command, folder)
    if printed.strip().splitlines()[-1:] != [program.prints]:
        raise ProgramError(f"{name} printed {printed!r} and not {program.prints!r}")


def _python(program: Program, folder: Path) -> Path:
    if not program.packages:
        return Path(sys.executable)
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        _output((str(UV), "venv", "-q", "--python", "3.11", "venv"), folder)
        _output(
            (str(UV), "pip", "install", "-q", "--python", str(python), *program.packages), folder
        )
    return python


@contextmanager
def _broker(folder: Path) -> Iterator[tuple[int, int]]:
    """A broker in memory; its ports for AMQP and for the clock."""
    port, web_port = free_port(), free_port()
    ports = ("--port", str(port), "--web", str(web_port))
    ours = Process(
        folder, "broker", "streaming.cli", "amqp", "--memory", "--clock", "manual", *ports
    )
    ours.log.unlink(missing_ok=True)
    ours.start()
    try:
        wait_until(lambda: f"//{LOOPBACK}:{web_port}" in ours.log_end(), ours.log_end)
        yield port, web_port
        ours.check()
    finally:
        ours.stop()


def _output(command: tuple[str, ...] | list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError as missing:
        raise ProgramError(f"{missing.filename} is not installed") from None
    if done.returncode:
        raise ProgramError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout

"""What each page of docs/clients/ has: a program in a language, and what that needs to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.docs.markdown import DOCS, blocks

FOLDER: Final = DOCS / "clients"


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a page.

    Attributes:
        language: of its block.
        file: the name that its block gets.
        command: what runs it, in the folder of that file; `python` is the one of `packages`.
        packages: from PyPI, in an environment of their own; empty: this environment.
        files: others that it needs beside it, by name.
        prepare: a command before it, which may need a network.
        prints: its last line.
    """

    language: str
    file: str
    command: tuple[str, ...]
    packages: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    prepare: tuple[str, ...] = ()
    prints: str = "order 17 is parked"


_MAVEN: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>orders</groupId><artifactId>orders</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.springframework.amqp</groupId><artifactId>spring-rabbit</artifactId>
    <version>3.2.5</version>
  </dependency></dependencies>
</project>
"""

_GO: Final = """module orders

go 1.22

require github.com/rabbitmq/amqp091-go v1.16.0
"""

PROGRAMS: Final = {
    "pika": Program("python", "orders.py", ("python", "orders.py")),
    "aio-pika": Program("python", "orders.py", ("python", "orders.py"), ("aio-pika==9.6.2",)),
    "celery": Program(
        "python",
        "orders.py",
        ("python", "orders.py"),
        ("celery==5.7.0",),
        prints="0 after a week",
    ),
    "dramatiq": Program(
        "python",
        "orders.py",
        ("python", "orders.py"),
        ("dramatiq[rabbitmq]==2.2.1",),
        prints="0 after a week",
    ),
    "spring-amqp": Program(
        "java",
        "Orders.java",
        ("sh", "-c", 'java -cp "$(cat classpath)" Orders.java'),
        files=(("pom.xml", _MAVEN),),
        prepare=("mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"),
    ),
    "amqp091-go": Program(
        "go",
        "main.go",
        ("go", "run", "."),
        files=(("go.mod", _GO),),
        prepare=("go", "mod", "tidy"),
    ),
    "bunny": Program("ruby", "orders.rb", ("ruby", "orders.rb")),
    "php-amqplib": Program("php", "orders.php", ("php", "orders.php")),
}
"""By page. MassTransit has none: no .NET was at hand."""


def text_of(name: str, folder: Path = FOLDER) -> str:
    """The program on a page: its one block in that language."""
    language = PROGRAMS[name].language
    (block,) = [each for each in blocks(folder / f"{name}.md") if each.language == language]
    return block.text

"""`python -m tools.docs`: what `./dlx docs` does.

build      build the site
serve      serve it while you write
generate   renew every generated part, and the sessions that need no job
translate  renew only the files of the console's translations
record     renew the pictures of terminals and of the console, and the sessions with a job
measure    measure this machine, and draw the figures
"""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from tools.docs import measurements, recordings, reference, shop, site, translations
from tools.docs.markdown import ROOT, all_blocks, name_of, replace
from tools.docs.registry import JOB, STORY
from tools.docs.sessions import CHECKOUT, is_pure

RENEW: Final = "DLX_RENEW_DOCS"


def build() -> None:
    """Build the site and say where it is."""
    print(site.build())


def generate() -> None:
    """Renew what is generated; running it twice changes nothing."""
    changed = set(reference.write_all())
    for block in reversed(all_blocks()):
        text = block.text
        if block.language == "mermaid":
            text = CHECKOUT.run(block.note)
        elif block.language == "console" and is_pure(text):
            text = CHECKOUT.renewed(text)
        if text != block.text:
            replace(block, text)
            changed.add(block.page)
    changed |= set(shop.renew()) | set(translations.renew())
    measurements.draw()
    for name in sorted(changed):
        print(f"renewed {name}")


def translate() -> None:
    """Renew the files of translations alone, which is quick."""
    for name in translations.renew():
        print(f"renewed {name}")


def record() -> None:
    """Renew what needs a real run; takes some minutes."""
    for name in recordings.renew():
        print(f"renewed {name}")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", JOB, STORY],
        cwd=ROOT,
        env=os.environ | {RENEW: "1"},
        check=True,
    )


def measure() -> None:
    """Measure this machine; takes some minutes."""
    measurements.measure()
    measurements.draw()
    print(f"measured: {name_of(measurements.MEASUREMENTS)}")


ACTIONS: Final[dict[str, Callable[[], None]]] = {
    "build": build,
    "serve": site.serve,
    "generate": generate,
    "translate": translate,
    "record": record,
    "measure": measure,
}


if __name__ == "__main__":
    ACTIONS[sys.argv[1]]()

"""The step of the image's build that downloads the jars has every module it imports."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
IMPORTS = "import streaming.embedded.jvm.jars, streaming.embedded.jvm.java"


def test_the_download_needs_only_the_files_copied_before_it(tmp_path):
    before, _, _ = (
        (CHECKOUT / "Dockerfile").read_text().partition("docker/fill_cache.py\n\nCOPY dlx")
    )
    for names in re.findall(r"^COPY (.+) \S+$", before, re.MULTILINE):
        for name in names.split():
            source, target = CHECKOUT / name, tmp_path / name
            if source.suffix == ".py":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
            elif source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)

    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {IMPORTS}"
    subprocess.run([sys.executable, "-I", "-c", code], check=True)

    assert re.findall(
        r"^from (\S+) import", (CHECKOUT / "docker/fill_cache.py").read_text(), re.MULTILINE
    ) == [
        "streaming.embedded.jvm.jars",
        "streaming.embedded.jvm.java",
    ]

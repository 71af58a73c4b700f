"""The documentation as a site, as `./dlx docs` builds it: without a warning or a broken link."""

import re
import shutil

from tools.docs import site
from tools.docs.markdown import ROOT

LINK = re.compile(r'(?:href|src)="?([^"#? >]+)')


def test_the_site_builds_without_warnings_and_has_every_page_and_link(tmp_path, capfd):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)

    front = site.build(tmp_path)

    said = "".join(capfd.readouterr())
    assert re.findall(r"(?i)\bwarning|\berror|No issues", said) == ["No issues"], said
    assert front.is_file()
    built = sorted(front.parent.rglob("*.html"))
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    found = {path.relative_to(front.parent) for path in built}
    assert {page.with_suffix(".html") for page in pages} <= found
    broken = [
        f"{file.name}: {target}"
        for file in built
        if file.name != "404.html"
        for target in LINK.findall(file.read_text("utf-8"))
        if not re.match(r"[a-z]+:|//", target) and not (file.parent / target).exists()
    ]
    assert broken == []

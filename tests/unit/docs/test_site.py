"""The documentation as a site, as `./dlx docs` builds it: without a warning."""

import re
import shutil

from tools.docs import site
from tools.docs.markdown import ROOT


def test_the_site_builds_without_warnings_and_has_every_page(tmp_path, monkeypatch, capfd):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "CONFIG", tmp_path / "zensical.toml")
    monkeypatch.setattr(site, "SITE", tmp_path / "build" / "site")

    front = site.build()

    said = "".join(capfd.readouterr())
    assert re.findall(r"(?i)\bwarning|\berror|No issues", said) == ["No issues"], said
    assert front.is_file()
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site.SITE) for path in site.SITE.rglob("*.html")}
    assert {page.with_suffix(".html") for page in pages} <= built

"""The files of the console's translations are those that its texts make."""

import pytest

from tools.docs import translations


@pytest.mark.parametrize("file", sorted(translations.files()), ids=lambda file: file.name)
def test_the_files_of_translations_are_renewed(file):
    wanted = translations.files()[file]

    assert file.read_text("utf-8") == wanted, "run ./dlx docs --generate"

"""The site is built without a warning, and its links lead somewhere."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from pages import DOCS, PAGES, ROOT

pytest.importorskip("sphinx")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built by the command of the documentation."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", folder / "trees", DOCS, folder / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_there(site):
    assert {path.with_suffix(".html").name for path in map(DOCS.joinpath, PAGES)} <= {p.name for p in site.iterdir()}


def test_links_within_the_site_lead_somewhere(site):
    for page in site.glob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"#?]+)[^"]*"', page.read_text(encoding="utf-8")):
            if not re.match(r"\w+:", link):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_formulas_are_drawn_by_the_browser_alone(site):
    formulas = [
        one for page in site.glob("*.html") for one in re.findall(r"<math.*?</math>", page.read_text(), re.DOTALL)
    ]
    for formula in formulas:
        ET.fromstring(re.sub(r"&(?!amp;|lt;|gt;|#)\w+;", "x", formula))


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(
            r'<(?:script|img|iframe)[^>]+src="https?:[^"]*"|<link rel="stylesheet"[^>]*https?:', text
        ), page


def test_paths_of_the_checkout_exist():
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for name in re.findall(r"\b((?:scripts|datasets|bgsub|tests)/[\w./-]+\.(?:py|png|md|ipynb))", text):
            assert (ROOT / name).exists(), f"{page}: {name}"

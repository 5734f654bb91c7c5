"""The site builds without warnings, its links work, and its pages fit on a phone."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib import import_module
from inspect import ismodule

import pytest
from filelock import FileLock
from pages import DOCS, PAGES, ROOT

pytest.importorskip("sphinx")


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """The site, built once for all test processes."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    folder /= "site"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", folder / "trees"]
            done = subprocess.run([*command, DOCS, folder / "html"], capture_output=True, text=True, check=False)
            (folder / "errors.txt").write_text(done.stderr if done.returncode else "", encoding="utf-8")
    errors = (folder / "errors.txt").read_text(encoding="utf-8")
    assert errors == ""
    return folder / "html"


def text_of(page):
    return page.read_text(encoding="utf-8")


def ids_of(page):
    return set(re.findall(r'\bid="([^"]+)"', text_of(page)))


def test_every_page_is_built_and_its_links_work(site):
    assert {path.with_suffix(".html").name for path in map(DOCS.joinpath, PAGES)} <= {p.name for p in site.iterdir()}
    ids = {page.name: ids_of(page) for page in site.glob("*.html")}
    for page in site.glob("*.html"):
        for link, anchor in re.findall(r'(?:href|src)="([^"#?]*)(?:\?[^"#]*)?#?([^"]*)"', text_of(page)):
            if not re.match(r"\w+:", link):
                assert (page.parent / link).exists(), f"{page.name}: {link}"
                target = link or page.name
                assert not anchor or target not in ids or anchor in ids[target], f"{page.name}: {link}#{anchor}"


def test_every_public_name_is_documented(site):
    described = set.union(*(ids_of(page) for page in site.glob("api*.html")))
    kept = {}
    for stub in (ROOT / "bgsub").rglob("__init__.pyi"):
        package = ".".join(stub.parent.relative_to(ROOT).parts)
        for name in import_module(package).__all__:
            value = getattr(import_module(package), name)
            if not (name.startswith("_") or ismodule(value)):
                kept.setdefault(id(value), set()).add(f"{package}.{name}")
    for names in kept.values():
        assert names & described, names
    assert "bgsub.BackgroundSubtractor.apply" in described
    signature = re.search(r'id="bgsub.BackgroundSubtractor".*?</dt>', text_of(site / "api.html"), re.DOTALL)[0]
    assert "rank=3" in re.sub(r"<[^>]+>", "", signature)


def test_no_page_scrolls_horizontally_on_a_phone(site):
    pages = pytest.importorskip("test_page", reason="needs the package playwright")
    with pages.browsing(viewport=pages.PHONE) as page:
        for path in sorted(site.glob("*.html")):
            page.goto(path.as_uri())
            root = "document.documentElement"
            wide, fits = page.evaluate(f"[{root}.scrollWidth, {root}.clientWidth]")
            assert wide <= fits, f"{path.name}: {wide} pixels on {fits}"


def test_formulas_are_valid_and_no_page_loads_external_resources(site):
    for page in site.glob("*.html"):
        text = text_of(page)
        for formula in re.findall(r"<math.*?</math>", text, re.DOTALL):
            ET.fromstring(re.sub(r"&(?!amp;|lt;|gt;|#)\w+;", "x", formula))
        loaded = r'<(?:script|img|iframe)[^>]+src="https?:[^"]*"|<link rel="stylesheet"[^>]*https?:'
        assert not re.findall(loaded, text), page


def test_links_to_repository_files_and_mentioned_paths_exist():
    for page in (*PAGES, "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md", "../datasets/README.md"):
        path = DOCS / page
        text = text_of(path)
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", text):
            assert re.match(r"\w+:", link) or (path.parent / link).exists(), f"{page}: {link}"
        for name in re.findall(r"\b((?:scripts|datasets|bgsub|tests)/[\w./-]+\.(?:py|png|md|ipynb))", text):
            assert page not in PAGES or (ROOT / name).exists(), f"{page}: {name}"

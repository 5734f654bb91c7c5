"""The version in the package, its metadata, the citation and the change log."""

import re
import tomllib
from pathlib import Path

import pytest

from bgsub import __version__

ROOT = Path(__file__).resolve().parent.parent
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
VERSIONS = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", CHANGES, re.MULTILINE)


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.search(r"^version: (.*)$", citation, re.MULTILINE)[1]
    assert {project["version"], cited, VERSIONS[0][0]} == {__version__}


def test_newest_version_comes_first():
    numbers = [tuple(map(int, version.split("."))) for version, _ in VERSIONS]
    assert numbers == sorted(numbers, reverse=True)
    assert len(VERSIONS) == len(re.findall("^## ", CHANGES, re.MULTILINE))
    assert [day for _, day in VERSIONS] == sorted((day for _, day in VERSIONS), reverse=True)


def test_citation():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["doi"].startswith("10.1007/")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = f"{paper['volume']}, {paper['start']}-{paper['end']}"
    assert all(words in readme for words in (paper["title"], paper["doi"], paper["journal"], pages))

"""The reference of Python, made from the code when the site is built.

A line ``<!-- names of bgsub.video -->`` on a page stands for all public names of that package, as its stub lists them.
A name that several packages have is described on the page that comes first.
"""

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from inspect import getdoc, isclass, isroutine
from pathlib import Path

from sphinx import addnodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

logger = logging.getLogger(__name__)
KINDS = ("class", "function", "data")  # in the order in which they come
_NAMES = re.compile(r"^<!-- names of ([\w.]+) -->$", re.MULTILINE)
_FOREIGN = ["object", "BaseException", "Exception", "tuple", "Protocol"]  # bases whose members are nothing of ours


@dataclass(frozen=True)
class Name:
    """A public name: its package, itself, the module that defines it."""

    package: str
    last: str
    module: str

    @property
    def full(self):
        """As it is imported."""
        return f"{self.package}.{self.last}"

    @cached_property
    def value(self):
        """What it means."""
        return getattr(import_module(self.package), self.last)

    @cached_property
    def kind(self):
        """One of `KINDS`."""
        return "class" if isclass(self.value) else "function" if isroutine(self.value) else "data"

    @cached_property
    def text(self):
        """The docstring; that of a constant stands below it."""
        if self.kind != "data":
            return getdoc(self.value) or ""
        return "\n".join(ModuleAnalyzer.for_module(self.module).find_attr_docs().get(("", self.last), []))


def names_of(package):
    """Return the public names of a package in the order in which they are described."""
    stub = Path(import_module(package).__file__).with_suffix(".pyi")
    imports = [line for line in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(line, ast.ImportFrom)]
    of_files = [line for line in imports if line.module]  # packages have their own pages
    names = [Name(package, one.asname, f"{package}.{line.module}") for line in of_files for one in line.names]
    public = [name for name in names if not name.last.startswith("_")]
    return sorted(public, key=lambda name: (KINDS.index(name.kind), name.last.lower()))


def describe(names, home):
    """Return what a page says of names, in Markdown; `home` tells of each object by its number under which name."""
    own = [name for name in names if name.kind == "data" or home[id(name.value)] == name.full]
    rows = [f"- {{py:obj}}`~{home.get(id(name.value), name.full)}`: {_first_sentence(name)}" for name in names]
    return "\n\n".join(["\n".join(rows), *(_entry(name, own) for name in own)])


def _first_sentence(name):
    if not name.text:
        logger.warning("%s has no docstring", name.full)
    paragraph = " ".join(name.text.split("\n\n")[0].split())
    return re.sub(r"`+([^`]+)`+", r"`\1`", paragraph)


def _entry(name, page):
    """Return the description of one name, in a block of reStructuredText."""
    if name.kind == "data":
        body = [
            f".. py:data:: {name.full}",
            f"   :value: {name.value!r}",
            "",
            *(f"   {x}" for x in name.text.split("\n")),
        ]
    else:
        body = [f".. auto{name.kind}:: {name.full}"]
    if name.kind == "class":
        stops = _FOREIGN + [one.last for one in page if one.kind == "class" and one is not name]
        body += ["   :members:", f"   :inherited-members: {', '.join(stops)}"]
        body += ["   :show-inheritance:"] * (name.value.__base__ is not object)
    return "\n".join(["```{eval-rst}", *body, "```"])


def _fill(app, _docname, source):
    """Put the names into a page."""
    if not _NAMES.search(source[0]):
        return
    pages = sorted(app.srcdir.glob("api*.md"))
    packages = [one for page in pages for one in _NAMES.findall(page.read_text(encoding="utf-8"))]
    home = {}
    for name in (name for package in packages for name in names_of(package)):
        home.setdefault(id(name.value), name.full)
    source[0] = _NAMES.sub(lambda found: describe(names_of(found[1]), home), source[0])


def _mend_links(_app, doctree):
    """Let names of classes lead to them wherever they are, and plain words in the types of parameters nowhere."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("refdomain") != "py":
            continue
        if link["reftarget"][:1].isupper():
            link["refspecific"] = True
        elif link.get("refspecific") and link["reftarget"].islower():
            link.replace_self(link.children)


def setup(app):
    """Fill the pages when they are read."""
    app.connect("source-read", _fill)
    app.connect("doctree-read", _mend_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

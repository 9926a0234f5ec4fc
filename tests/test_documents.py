"""What README and the pages of docs/ show is run, page by page, as a reader would run it.

In a page, from top to bottom and in one folder:

- a `python` block is executed, with the names of those before it;
- in a `sh` block every `cpsrl` command is run; of `make`, `pip` and `python FILE` it is checked
  that there is such a target, extra or file, and other tests run them;
- an `output` block is what the block before it printed;
- a comment before a block says what to do with it: `<!-- file: NAME -->` puts it into the folder,
  `<!-- with: OPTIONS -->` adds options to its commands that make them small, `<!-- slow -->` leaves
  it to `make test-all`, `<!-- needs: PACKAGE -->` runs it where that is installed, and
  `<!-- not run: REASON -->` is for what cannot be run.
"""

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib
import pytest
from markdown_it import MarkdownIt

import cpsrl
from cpsrl.agents.registration import KINDS
from cpsrl.cli.main import main
from cpsrl.experiments import Experiment
from cpsrl.experiments.provenance import Provenance
from cpsrl.support.registry import Registry

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts),
    ROOT / "benchmarks" / "README.md",
]
RECORDED = json.loads((ROOT / "tests/experiments/nothing_moved.json").read_text())
SAME_BITS = any(not Provenance(**family["provenance"]).difference() for family in RECORDED)
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"
MARK = re.compile(r"<!-- (file|with|slow|needs|not run)(?:: (.+))? -->")
NOT_RUN = 12
"""At most so many blocks of all pages are not run."""


class Block(NamedTuple):
    """A fenced block, its place, and what the comment before it says."""

    language: str
    text: str
    line: int
    mark: str
    said: str


def blocks(path):
    """Give the blocks of a page that are not directives."""
    mark = said = ""
    for token in MarkdownIt("commonmark").enable("table").parse(path.read_text("utf-8")):
        assert token.type != "code_block", f"{path}:{token.map[0] + 1} is indented, not fenced"
        if token.type == "html_block" and (found := MARK.match(token.content.strip())):
            mark, said = found[1], found[2] or ""
        elif token.type == "fence":
            if not token.info.startswith("{"):
                yield Block(token.info.strip(), token.content, token.map[0] + 1, mark, said)
            mark = said = ""


def named(paths):
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the repository's experiments and examples beside it."""
    for name in ("experiments", "examples", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    before = {kind: dict(registry._factories) for kind, registry in KINDS.items()}
    with matplotlib.rc_context({"backend": "agg"}):
        yield tmp_path
    for kind, registry in KINDS.items():
        registry._factories.clear()
        registry._factories.update(before[kind])


@pytest.mark.parametrize("page", named(PAGES))
def test_its_blocks_run(page, folder):
    run(page, folder, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", named(p for p in PAGES if any(b.mark == "slow" for b in blocks(p)))
)
def test_its_slow_blocks_run(page, folder):
    run(page, folder, slow=True)


def test_few_blocks_are_not_run():
    left_out = [
        f"{page.relative_to(ROOT)}:{block.line}: {block.said}"
        for page in PAGES
        for block in blocks(page)
        if block.mark == "not run"
    ]
    assert all(entry.rpartition(": ")[2] for entry in left_out)
    assert len(left_out) <= NOT_RUN, "\n".join(left_out)


def test_the_notebook_runs_from_top_to_bottom_and_prints_what_it_shows(folder):
    pytest.importorskip("pandas")
    names = {"__name__": "notebook"}
    for number, cell in enumerate(json.loads(NOTEBOOK.read_text("utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            shown = ["".join(one["text"]) for one in cell["outputs"] if "text" in one]
            assert same("".join(shown), out.getvalue()), f"cell {number}:\n{out.getvalue()}"


def run(page, folder, slow):
    """Run the blocks of a page, those marked as slow only if `slow`."""
    names = {"__name__": page.stem}
    printed = None
    for block in blocks(page):
        place = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "output":
            assert printed is not None, f"{place}: nothing was printed before it"
            assert same(block.text, printed), f"{place}: what was printed is\n{printed}"
            continue
        printed = None
        if block.mark == "not run" or (block.mark == "slow" and not slow):
            continue
        if block.mark == "needs" and find_spec(block.said) is None:
            continue
        if block.mark == "file":
            (folder / block.said).write_text(block.text, "utf-8")
        elif block.language == "toml":
            read_toml(block.text)
        else:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                if block.language == "python":
                    code = "\n" * block.line + block.text
                    exec(compile(code, str(page), "exec"), names)
                elif block.language == "sh":
                    for line in block.text.replace("\\\n", " ").splitlines():
                        do(shlex.split(line, comments=True), shlex.split(block.said), place)
                else:
                    pytest.fail(f"{place}: nothing is known of blocks of {block.language!r}")
            printed = out.getvalue()


def do(words, more, place):
    """Run a line of a shell, or check that what it names is there."""
    match words:
        case []:
            pass
        case ["cpsrl", *arguments]:
            small = more if arguments[0] in ("run", "continue", "compare") else []
            assert main([*arguments, *small]) == 0, f"{place}: {shlex.join(words)}"
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), place
        case ["pip" | ".venv/bin/pip", "install", *what]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            asked = [
                extra for group in re.findall(r"\[(.*?)\]", what[-1]) for extra in group.split(",")
            ]
            assert set(asked) <= set(extras["optional-dependencies"]), place
        case ["python" | ".venv/bin/python", file, *_]:
            assert (ROOT / file).is_file(), place
        case [".", ".venv/bin/activate"]:
            pass
        case _:
            pytest.fail(f"{place}: it is not known how to run {shlex.join(words)}")


def read_toml(text):
    """Read a whole specification as one, and a piece of one as TOML."""
    found = tomllib.loads(text)
    if "agents" in found:
        Experiment.from_toml(text)


def same(expected, printed):
    """Whether two texts agree; in other versions or on another CPU family, but for numbers."""
    texts = [[line.rstrip() for line in text.strip().splitlines()] for text in (expected, printed)]
    if not SAME_BITS:
        texts = [[re.sub(r"[-\d.,]+", "#", line) for line in lines] for lines in texts]
    return texts[0] == texts[1]


def slug(heading):
    """The anchor of a heading, as MyST and code hosts make it."""
    words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(path):
    tokens = MarkdownIt("commonmark").parse(path.read_text("utf-8"))
    return {
        slug(inline.content)
        for opening, inline in pairwise(tokens)
        if opening.type == "heading_open"
    }


@pytest.mark.parametrize("page", named([*PAGES, ROOT / "CONTRIBUTING.md"]))
def test_its_links_lead_somewhere(page):
    broken = []
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8")):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if not target or "://" in target:
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            ours = {ROOT / "CONTRIBUTING.md"} if there.name == "own-parts.md" else set()
            if not there.exists() or (
                anchor and not any(anchor in anchors(p) for p in {there, *ours})
            ):
                broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", ["README", "docs/method", "docs/tutorial", "docs/guide"])
def test_where_a_bound_on_the_error_is_promised_its_proof_is_named(page):
    text = (ROOT / f"{page}.md").read_text("utf-8")
    assert re.search(r"planning/certificates\.py|`cpsrl\.planning\.certificates`", text)


def test_every_public_name_has_a_page_and_says_what_it_is():
    sys.path.insert(0, str(ROOT / "docs/_extensions"))
    try:
        reference = import_module("reference")
    finally:
        sys.path.pop(0)
    index = (ROOT / "docs/api/index.md").read_text().split()
    assert set(reference.MODULES) | set(reference.EXPLAINED) <= set(index)
    assert set(cpsrl.__all__) == set(reference.summaries()["cpsrl"][1])
    silent = []
    for module, (_, own) in reference.summaries().items():
        for name in own:
            thing = getattr(import_module(module), name)
            constant = not callable(thing) and not isinstance(thing, Registry)
            text = (
                reference.text_after_assignment(f"{module}.{name}") if constant else thing.__doc__
            )
            if not (text or "").strip():
                silent.append(f"{module}.{name}")
    assert not silent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT, folder / "clone", ignore=shutil.ignore_patterns(".*", "build", "results"))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n"]
    done = subprocess.run(
        [*command, folder / "clone" / "docs", folder / "html"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_has_every_name(site):
    from sphinx.util.inventory import InventoryFile

    found = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    names = {name for kind in found.data.values() for name in kind}
    sys.path.insert(0, str(ROOT / "docs/_extensions"))
    try:
        reference = import_module("reference")
    finally:
        sys.path.pop(0)
    for module in reference.MODULES:
        assert {f"{module}.{name}" for name in reference.public_names(module)} <= names
    for path in (ROOT / "docs" / "examples").glob("*.py"):
        assert (site / "_images" / f"{path.stem}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_site_asks_for_nothing_but_itself(site):
    outside = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["'](?:https?:)?//""")
    for page in site.rglob("*.html"):
        assert not outside.search(page.read_text("utf-8")), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text("utf-8")), sheet

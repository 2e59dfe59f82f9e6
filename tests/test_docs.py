"""The documentation runs: every python and bash block of a page, in order."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
THEME = re.compile(r'^html_theme = "(\w+)"$', re.MULTILINE)
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the code of every block that runs."""
    return [one for one in FENCE.findall(page.read_text("utf-8")) if one[0] in ("python", "bash")]


@pytest.mark.parametrize("page", [*filter(blocks, PAGES)], ids=str)
def test_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__main__"}
    for number, (language, code) in enumerate(blocks(page)):
        if language == "python":
            exec(compile(code, f"{page.name}[{number}]", "exec"), space)  # noqa: S102
        else:
            run_lines(page, code)


def run_lines(page: Path, code: str) -> None:
    """Run every line of a bash block in this process."""
    for line in filter(str.strip, code.replace("\\\n", " ").splitlines()):
        command, *arguments = shlex.split(line)
        assert command == "shortlist", f"{page}: a bash block may only call shortlist, got {line!r}"
        answer = CliRunner().invoke(app, arguments)
        assert answer.exit_code == 0, f"{line}: {answer.output}"


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_exist(page: Path) -> None:
    prose = FENCE.sub("", page.read_text("utf-8"))
    for groups in re.findall(r'(?:href|src)="([^"]+)"|\]\(([^)\s]+)\)', prose):
        path, _, heading = next(filter(None, groups)).partition("#")
        if path.startswith(("http:", "https:", "mailto:")):
            continue
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{path}#{heading}"


def test_readme_has_at_most_700_words() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


WORDS = (
    r"told|mend(ed|ing|s)?|foretell|foretold|yardsticks?|rehears(al|als|e|ed|es)|by lot|kitchen|lessons?|taught|"
    r"met|judged?|judges|pleased|by chance|namings?|drawn by|wanted|looks? at quality|doubts|remarks|heat|fade"
)
QUOTED = {
    "src/shortlist/settings.py",  # old names of renamed keys
    "src/shortlist/simulate/themes.py",  # words of invented titles
}


def test_prose_and_code_use_the_words_of_the_glossary() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml"), *PAGES]
    replaced = re.compile(rf"\b({WORDS})\b", re.IGNORECASE)
    for path in files:
        if str(path.relative_to(ROOT)) in QUOTED:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            assert not replaced.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_readme_shows_both_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_site_builds_without_warnings(tmp_path: Path) -> None:
    # Rendering the pages with the theme of the site would take half of the time, and none of it reads our text.
    assert find_spec(THEME.search((ROOT / "docs" / "conf.py").read_text("utf-8"))[1]) is not None
    options = ["-q", "-W", "--keep-going", "-b", "html", "-D", "html_theme=basic"]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "shortlist.train" in (tmp_path / "api" / "train.html").read_text("utf-8")

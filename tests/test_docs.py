"""The documentation runs: every python block of a page in order, then its bash blocks."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [code for name, code in FENCE.findall(page.read_text("utf-8")) if name == language]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python") or blocks(page, "bash")], ids=str
)
def test_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name}[{number}]", "exec"), space)  # noqa: S102
    for code in blocks(page, "bash"):
        for line in code.replace("\\\n", " ").splitlines():
            if line.strip():
                command, *arguments = shlex.split(line)
                assert command == "shortlist", f"{page}: a bash block may only call shortlist, got {line!r}"
                answer = CliRunner().invoke(app, arguments)
                assert answer.exit_code == 0, f"{line}: {answer.output}"


def test_links_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for target in re.findall(r'href="([^"]+)"|\]\(([^)]+)\)', text):
        path, _, heading = next(filter(None, target)).partition("#")
        assert path.startswith("http") or (ROOT / path).exists(), path
        if heading and path.endswith(".md"):
            titles = re.findall(r"^#+ (.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in titles}, (
                heading
            )


def test_readme_has_at_most_700_words() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


WORDS = (
    r"told|mend(ed|ing|s)?|foretell|foretold|yardsticks?|rehears(al|als|e|ed|es)|by lot|kitchen|lessons?|taught|"
    r"met|judged?|judges|pleased|by chance|namings?|drawn by"
)
QUOTED = {"src/shortlist/settings.py", "CHANGELOG.md"}  # old names of renamed keys


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
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "shortlist.train" in (tmp_path / "api" / "train.html").read_text("utf-8")

"""What the documentation shows, runs: every python block of a page in order, then its bash blocks."""

import re
import shlex
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
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_links_of_the_readme_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for target in re.findall(r'href="([^"]+)"|\]\(([^)]+)\)', text):
        path, _, heading = next(filter(None, target)).partition("#")
        assert path.startswith("http") or (ROOT / path).exists(), path
        if heading and path.endswith(".md"):
            titles = re.findall(r"^#+ (.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in titles}, (
                heading
            )


def test_the_readme_shows_both_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text

"""One HTML document that needs nothing but itself: inline style, light and dark, every text escaped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #fbfbf9; --card: #ffffff;
  --line: #e3e5e0; --accent: #2f6f8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --paper: #14181e;
  --card: #1b2129; --line: #2d3540; --accent: #7db8d4; }
  figure svg { filter: invert(0.88) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1.5rem; letter-spacing: -0.01em; }
h2 { font-size: 1.15rem; margin: 0 0 0.8rem; color: var(--accent); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.25rem 1.4rem; margin: 0 0 1.1rem; overflow-x: auto; }
p { margin: 0 0 0.8rem; max-width: 46rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0 0 0.6rem; }
th, td { padding: 0.32rem 0.9rem 0.32rem 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 0.9rem 1.2rem;
  margin: 0 0 0.9rem; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
pre { margin: 0.9rem 0 0; white-space: pre-wrap; font: 0.92rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
figure { margin: 0.4rem 0 0.9rem; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: 0.9rem; }
"""


@dataclass(frozen=True)
class Html:
    """A fragment that is already HTML; plain text is escaped, this is not."""

    text: str


@dataclass(frozen=True)
class Section:
    """A heading and the fragments below it."""

    title: str
    parts: Sequence[Html | str]


def page(title: str, sections: Iterable[Section]) -> str:
    """The whole document; a part that is plain text becomes a paragraph."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> Html:
    """A table; numbers stand to the right, with separators."""
    listed = [list(row) for row in rows]
    right = [bool(listed) and all(_is_number(row[at]) for row in listed) for at in range(len(headers))]
    head = "".join(_cell("th", name, side) for name, side in zip(headers, right, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell("td", cell, side) for cell, side in zip(row, right, strict=True)) + "</tr>\n"
        for row in listed
    )
    return Html(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>")


def facts(named: Mapping[str, Any]) -> Html:
    """Labels with their values, side by side."""
    told = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{_shown(value)}</dd></div>\n" for name, value in named.items()
    )
    return Html(f"<dl>\n{told}</dl>")


def code(text: str) -> Html:
    """Text as it would be typed."""
    return Html(f"<pre>{escape(text)}</pre>")


def interval(one: Mapping[str, Any], middle: str = "mean") -> str:
    """A value with its interval; a dash where there is none."""
    if one[middle] is None:
        return "–"
    return f"{one[middle]:.4f} [{one['low']:.4f}, {one['high']:.4f}]"


def figure(svg: str, caption: str) -> Html:
    """A drawing with the sentence that says what it shows; `svg` is trusted, the caption is not."""
    return Html(f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>")


def _section(section: Section) -> str:
    parts = "\n".join(
        part.text if isinstance(part, Html) else f"<p>{escape(part)}</p>" for part in section.parts
    )
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{parts}\n</section>"


def _cell(tag: str, value: Any, right: bool) -> str:
    side = ' class="number"' if right else ""
    return f"<{tag}{side}>{_shown(value)}</{tag}>"


def _shown(value: Any) -> str:
    if isinstance(value, Html):
        return value.text
    if value is None:
        return "–"
    if not _is_number(value):
        return escape(str(value))
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

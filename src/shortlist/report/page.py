"""Self-contained HTML documents: inline style, light and dark, every text escaped, no script but our own."""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from typing import Any

from shortlist.errors import visible
from shortlist.metrics.estimate import Estimate
from shortlist.metrics.significance import Interval, PairedTest
from shortlist.metrics.t_tests import TTest

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #fbfbf9; --card: #ffffff;
  --line: #e3e5e0; --accent: #2f6f8f; --pool: #b9c6cf; --flow: #2f6f8f22; --lost: #d9a58a; --worst: #c4511d;
  --hit: #2f6f8f18; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --paper: #14181e;
  --card: #1b2129; --line: #2d3540; --accent: #7db8d4; --pool: #46535f; --flow: #7db8d422; --lost: #8a5a42;
  --worst: #e8814f; --hit: #7db8d426; }
  figure > svg:not(.wide, .narrow) { filter: invert(0.88) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1.5rem; letter-spacing: -0.01em; }
h2 { font-size: 1.15rem; margin: 0 0 0.8rem; color: var(--accent); }
h3 { font-size: 1.05rem; margin: 1.2rem 0 0.5rem; }
h4 { font-size: 0.95rem; margin: 1.1rem 0 0.3rem; color: var(--soft); }
section, details.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.25rem 1.4rem; margin: 0 0 1.1rem; }
details.card { padding: 0 1.4rem; margin-bottom: 0.6rem; }
details.card > summary { padding: 0.8rem 0; cursor: pointer; }
details.card > summary h2 { display: inline; font-size: 1.02rem; }
details.card[open] { padding-bottom: 1.1rem; }
p { margin: 0 0 0.8rem; max-width: 46rem; }
p.lead { font-size: 1.06rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0 0 0.6rem; overflow-wrap: normal; }
th, td { padding: 0.32rem 0.9rem 0.32rem 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; }
tr.hit td { background: var(--hit); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(11rem, 100%), 1fr)); gap: 0.9rem 1.2rem;
  margin: 0 0 0.9rem; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
dd small, td small { color: var(--soft); font-size: 0.85rem; }
td small { white-space: nowrap; }
pre { margin: 0.9rem 0 0; white-space: pre-wrap; font: 0.92rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
figure { margin: 0.4rem 0 0.9rem; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: 0.9rem; }
input, button { font: inherit; padding: 0.35rem 0.6rem; border: 1px solid var(--line); border-radius: 6px;
  background: var(--paper); color: var(--ink); max-width: 100%; }
button { cursor: pointer; }
.funnel svg { display: block; margin: 0 auto 0.6rem; }
.funnel svg.narrow { display: none; }
.funnel text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
.funnel text.name { font-weight: 600; font-size: 13px; }
.funnel text.value { font-variant-numeric: tabular-nums; }
.funnel text.note, .funnel text.label { fill: var(--soft); font-size: 11px; }
.funnel text.lost-text { fill: var(--ink); }
.funnel text.worst-text { fill: var(--worst); font-weight: 600; }
.funnel .pool { fill: var(--pool); } .funnel .kept { fill: var(--accent); } .funnel .flow { fill: var(--flow); }
.funnel .lost { fill: var(--lost); } .funnel .worst { fill: var(--worst); }
@media (max-width: 40rem) {
  body { padding: 1.2rem 0.7rem 3rem; } h1 { font-size: 1.4rem; }
  section { padding: 0.9rem 0.75rem; } details.card { padding: 0 0.75rem; }
  .funnel .wide { display: none; } .funnel svg.narrow { display: block; width: 100%; }
  th, td { padding-right: 0.45rem; font-size: 0.85rem; overflow-wrap: break-word; }
  th:last-child, td:last-child { padding-right: 0; }
  td small { white-space: normal; font-size: 0.78rem; } }
"""


@dataclass(frozen=True)
class Html:
    """A fragment that is already HTML and is not escaped."""

    text: str


@dataclass(frozen=True)
class Section:
    """A heading and the fragments below it; a folded one opens on a click."""

    title: str
    parts: Sequence[Html | str]
    folded: bool = False


def page(title: str, sections: Iterable[Section], script: str = "") -> str:
    """The whole document; a part that is plain text becomes a paragraph. No other script than `script` can run."""
    body = "\n".join(_section(section) for section in sections)
    ending = f"<script>{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escaped(title)}</h1>\n{body}\n{ending}</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    """Nothing is loaded, and only the script with this hash runs, even if markup got into the page unescaped."""
    allowed = base64.b64encode(sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{allowed}'" if script else "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; base-uri 'none'; form-action 'none'"


def folded(sections: Iterable[Section | None]) -> list[Section]:
    """The same sections, folded; missing ones are left out."""
    return [replace(section, folded=True) for section in sections if section is not None]


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> Html:
    """A table; columns of numbers are aligned right, with thousands separators."""
    listed = [list(row) for row in rows]
    right = [bool(listed) and all(_is_number(row[at]) for row in listed) for at in range(len(headers))]
    head = "".join(_cell("th", name, side) for name, side in zip(headers, right, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell("td", cell, side) for cell, side in zip(row, right, strict=True)) + "</tr>\n"
        for row in listed
    )
    inside = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>"
    return Html(f'<div class="scroll"><table>\n{inside}\n</table></div>')


def facts(named: Mapping[str, Any]) -> Html:
    """Labels with their values, side by side."""
    shown = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{_shown(value)}</dd></div>\n" for name, value in named.items()
    )
    return Html(f"<dl>\n{shown}</dl>")


def escaped(text: str) -> str:
    """Text in HTML: markup is shown, and so are controls and changes of text direction, as escapes such as \\u202e."""
    return escape(visible(text, keep="\n"))


def code(text: str) -> Html:
    """Preformatted text."""
    return Html(f"<pre>{escaped(text)}</pre>")


def interval(value: Interval | Estimate) -> str:
    """A mean with its 95 % interval; a dash where there is no mean."""
    return _with_bounds(value.mean, value.low, value.high)


def difference(test: PairedTest | TTest) -> str:
    """The difference of a test with its 95 % interval."""
    return _with_bounds(test.difference, test.low, test.high)


def _with_bounds(mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None or math.isnan(mean):
        return "–"
    return f"{mean:.4f}" if low is None or high is None else f"{mean:.4f} [{low:.4f}, {high:.4f}]"


def figure(svg: str, caption: str) -> Html:
    """A drawing with its caption; `svg` is not escaped, the caption is."""
    return Html(f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>")


def _section(section: Section) -> str:
    parts = "\n".join(
        part.text if isinstance(part, Html) else f"<p>{escaped(part)}</p>" for part in section.parts
    )
    heading = f"<h2>{escaped(section.title)}</h2>"
    if section.folded:
        return f'<details class="card"><summary>{heading}</summary>\n{parts}\n</details>'
    return f"<section>\n{heading}\n{parts}\n</section>"


def _cell(tag: str, value: Any, right: bool) -> str:
    side = ' class="number"' if right else ""
    return f"<{tag}{side}>{_shown(value)}</{tag}>"


def _shown(value: Any) -> str:
    if isinstance(value, Html):
        return value.text
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if not _is_number(value):
        return escaped(str(value))
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""A table of bounds as ratios: a section of a page, or lines of Markdown. Bounds and errors never share a column."""

from collections.abc import Iterable

from shortlist.lab.theory.bounds_compare import BoundTable
from shortlist.lab.theory.bounds_inputs import BoundTerm
from shortlist.metrics.estimate import Estimate
from shortlist.report.page import Html, Section, table

WORDS = {
    "paper": "as the paper prints it",
    "pair_exact": "with the pairs of nodes that there are",
    "rigorous": "the form that is proven",
    "rigorous, m = users": "the same, if only users count as independent",
    "theorem 4, printed": "of the DTR paper, as printed",
    "theorem 4": "of the DTR paper, mended",
    "tail": "what chance may do to any mean",
    "trivial": "what is known without any data",
}
KNOWN = ("configuration", "hold-out error", "at most (Hoeffding)", "measured gap", "fits by chance")


def bounds_section(found: BoundTable) -> Section:
    """The section: what the bounds are worth, their ratios, then what is measured, in a table of its own."""
    parts: list[Html | str] = [found.headline]
    parts.append(
        f"A ratio of 0.5 says that the term is half of that of {found.reference!r}. A smaller bound does not mean a "
        "smaller error: only what is measured speaks of errors, and stands in a table of its own."
    )
    parts.append(table(["configuration", "term", "ratio", "vacuous", "applies", "meaning"], _ratios(found)))
    if found.beside:
        parts.append(table(list(KNOWN), _known(found)))
    parts.append(f"Taken for granted: {'; '.join(found.assumptions)}.")
    parts += [f"{term}: {said}." for term, said in _said(found)]
    return Section("Bounds", parts)


def bounds_lines(found: BoundTable) -> list[str]:
    """The same as lines of Markdown."""
    lines = [found.headline, "", f"Ratios to {found.reference!r}:", ""]
    lines += _markdown(("configuration", "term", "ratio", "vacuous", "applies", "meaning"), _ratios(found))
    if found.beside:
        lines += ["", "Measured, not bounded:", "", *_markdown(KNOWN, _known(found))]
    lines += ["", "Taken for granted:", "", *(f"- {one}" for one in found.assumptions)]
    return [*lines, *(f"- {term}: {said}" for term, said in _said(found))]


def _ratios(found: BoundTable) -> list[list[str]]:
    return [
        [
            name,
            one.name,
            _ratio(one),
            _yes(one.vacuous),
            _yes(one.applicable),
            WORDS.get(one.name, one.formula),
        ]
        for name, terms in found.terms.items()
        for one in terms
    ]


def _known(found: BoundTable) -> list[list[str]]:
    return [
        [
            name,
            _interval(one.error),
            "–" if one.hoeffding is None else f"{one.hoeffding:.4f}",
            f"{_interval(one.gap)}{f' {one.loss}' if one.gap and one.loss else ''}",
            "–" if one.by_chance is None else f"{one.by_chance.value:.4g}",
        ]
        for name, one in found.beside.items()
    ]


def _said(found: BoundTable) -> list[tuple[str, str]]:
    """What single terms assume, each once."""
    pairs = {
        (one.name, said): None for terms in found.terms.values() for one in terms for said in one.assumptions
    }
    return list(pairs)


def _ratio(one: BoundTerm) -> str:
    return "–" if one.ratio_to_ref is None else f"{one.ratio_to_ref:.4g}"


def _interval(one: Estimate | None) -> str:
    if one is None or one.mean is None:
        return "–"
    return f"{one.mean:.4f}" if one.low is None else f"{one.mean:.4f} [{one.low:.4f}, {one.high:.4f}]"


def _yes(one: bool) -> str:
    return "yes" if one else "no"


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(head)
    return [_line(names), "|" + "---|" * len(names), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(one.replace('|', chr(92) + '|') for one in cells)} |"

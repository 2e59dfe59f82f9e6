"""A table of bounds as ratios: a section of a page, or lines of Markdown. Bounds and errors never share a column."""

from collections.abc import Iterable

from shortlist.lab.theory.bounds_compare import BoundTable
from shortlist.lab.theory.bounds_inputs import BoundTerm
from shortlist.metrics.estimate import Estimate
from shortlist.report.page import Html, Section, table

MEANINGS = {
    "paper": "as printed in the paper",
    "pair_exact": "with the actual number of node pairs",
    "rigorous": "the proven form",
    "rigorous, m = users": "the same, if only users count as independent",
    "theorem 4, printed": "of the DTR paper, as printed",
    "theorem 4": "of the DTR paper, corrected",
    "tail": "concentration of any mean",
    "trivial": "known without any data",
}
MEASURED = (
    "configuration",
    "hold-out error",
    "upper bound (Hoeffding)",
    "train-test gap",
    "Rademacher complexity",
)


def bounds_section(found: BoundTable) -> Section:
    """The section: the headline, the ratios, then the measurements in a separate table."""
    parts: list[Html | str] = [found.headline]
    parts.append(
        f"A ratio of 0.5 means that the term is half of that of {found.reference!r}. A smaller bound does not imply a "
        "smaller error: only the measurements, in their own table, are about errors."
    )
    parts.append(table(["configuration", "term", "ratio", "vacuous", "applies", "meaning"], _ratios(found)))
    if found.measured:
        parts.append(table(list(MEASURED), _measured(found)))
    parts.append(f"Assumptions: {'; '.join(found.assumptions)}.")
    parts += [f"{term}: {text}." for term, text in _assumptions(found)]
    return Section("Bounds", parts)


def bounds_lines(found: BoundTable) -> list[str]:
    """The same as lines of Markdown."""
    lines = [found.headline, "", f"Ratios to {found.reference!r}:", ""]
    lines += _markdown(("configuration", "term", "ratio", "vacuous", "applies", "meaning"), _ratios(found))
    if found.measured:
        lines += ["", "Measured, not bounded:", "", *_markdown(MEASURED, _measured(found))]
    lines += ["", "Assumptions:", "", *(f"- {text}" for text in found.assumptions)]
    return [*lines, *(f"- {term}: {text}" for term, text in _assumptions(found))]


def _ratios(found: BoundTable) -> list[list[str]]:
    return [
        [
            name,
            term.name,
            _ratio(term),
            _yes(term.vacuous),
            _yes(term.applicable),
            MEANINGS.get(term.name, term.formula),
        ]
        for name, terms in found.terms.items()
        for term in terms
    ]


def _measured(found: BoundTable) -> list[list[str]]:
    return [
        [
            name,
            _interval(values.error),
            "–" if values.hoeffding is None else f"{values.hoeffding:.4f}",
            f"{_interval(values.gap)}{f' {values.loss}' if values.gap and values.loss else ''}",
            "–" if values.rademacher is None else f"{values.rademacher.value:.4g}",
        ]
        for name, values in found.measured.items()
    ]


def _assumptions(found: BoundTable) -> list[tuple[str, str]]:
    """The assumptions of single terms, each once."""
    pairs = {
        (term.name, text): None
        for terms in found.terms.values()
        for term in terms
        for text in term.assumptions
    }
    return list(pairs)


def _ratio(term: BoundTerm) -> str:
    return "–" if term.ratio_to_ref is None else f"{term.ratio_to_ref:.4g}"


def _interval(estimate: Estimate | None) -> str:
    if estimate is None or estimate.mean is None:
        return "–"
    if estimate.low is None:
        return f"{estimate.mean:.4f}"
    return f"{estimate.mean:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(head)
    return [_line(names), "|" + "---|" * len(names), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

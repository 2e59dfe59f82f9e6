"""What a diagnosis' page says of trees: what a search loses, what drawing negatives costs, leads, and bounds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from shortlist.report.bounds import WORDS
from shortlist.report.page import Html, Section, table
from shortlist.report.tree import tree_sections

Told = Mapping[str, Any]

DRAWN = {"uniform": "all alike", "tree": "by the tree"}


def trees(told: Told) -> list[Section]:
    """All sections of all trees."""
    return [section for name, tree in told.get("trees", {}).items() for section in _tree(name, tree)]


def _tree(name: str, tree: Told) -> list[Section]:
    sections = [
        Section(f"The tree {name!r}: {section.title[0].lower()}{section.title[1:]}", section.parts)
        for section in tree_sections(tree)
    ]
    theory = tree.get("theory") or {}
    if "levels" not in theory:
        return sections
    parts = (
        ("how narrowly wanted items pass", lead_parts(theory)),
        ("sampler, or what drawing a few wrong nodes costs", sampler_parts(theory)),
        ("bounds, or what theorems promise", bound_parts(theory["bounds"])),
    )
    return [
        *sections,
        *(Section(f"The tree {name!r}: {title}", said) for title, said in parts if said),
    ]


def lead_parts(theory: Told) -> list[Html | str]:
    """Quantiles of the leads by level; nothing where every level fits into the beam."""
    known = [one for one in theory["leads"] if one["instances"]]
    if not known:
        return []
    rows = [
        [one["level"], f"{one['trail']:.0%}", *(_signed(one[name]) for name in ("q10", "q50", "q90"))]
        for one in known
    ]
    return [
        "On the way down to a wanted item, its node at each level must stay among the best. The lead is its score "
        "less that of the first node the search has no place for: below 0 it trails, and is lost there or was lost "
        "above already. Leads just below 0 could be won by a slightly wider beam, leads far below only by training. "
        f"What {known[0]['instances']:,} held-out requests met next; levels that fit into the beam whole are left "
        "out.",
        table(["level", "trail", "lead: one in ten below", "half below", "nine in ten below"], rows),
    ]


def sampler_parts(theory: Told) -> list[Html | str]:
    """Lemma 3 in plain words: level by level, for both ways to draw."""
    drawn = [one for one in theory["levels"] if not one["whole"]]
    if not drawn:
        return [
            f"While the tree learned, the right node of a level was compared with up to {theory['negatives']:,} "
            "wrong ones. No level has more, so nothing was left to chance."
        ]
    rows = [
        [
            one["level"],
            one["size"],
            DRAWN.get(one["sampler"], one["sampler"]) + _used(one, theory),
            f"{one['gap']:.3f} ± {one['error']:.3f}",
            f"{one['delta']:.3f}",
            f"{one['kl_plus']:.3f}",
            f"{one['kl']:.3f}",
            f"{one['loss']:.2f}",
        ]
        for one in drawn
    ]
    heads = ["level", "nodes", "drawn", "gap", "its estimate", "at most (KL+)", "at most (KL)", "loss"]
    return [
        "While a tree learns, the right node of a level is compared with a few wrong ones drawn by lot "
        f"({theory['negatives']:,} here), because comparing it with all would be slow. Its error, the loss, then looks "
        "smaller than it is; the gap says by how much, in the same unit, nats. 0 would be perfect. Wrong nodes may be "
        "drawn all alike, or by walking down the tree as its own scores say: then hard ones come more often.",
        Html(f"<p><strong>{sampler_line(theory)}</strong></p>"),
        table(heads, rows),
        f"Measured on {theory['instances']:,} examples it learned from, ± one standard error of the drawing. The "
        "estimate is what the gap comes to when many nodes are drawn. KL+ and KL say how far the drawing is from what "
        "the tree itself would choose: the gap is never larger than KL+, nor that than KL. (The KL told level by "
        "level above is of held-out users and of another number drawn.)",
        *_other(theory),
    ]


def sampler_line(theory: Told) -> str:
    """What drawing costs, in a sentence."""
    totals = {way: _total(theory, way) for way in DRAWN}
    used = theory["sampler"] if theory["sampler"] in DRAWN else "uniform"
    other = next(way for way in DRAWN if way != used)
    gap, loss = totals[used]
    if not loss:
        return "Every level is small enough to be taken whole: drawing costs nothing."
    return (
        f"Drawn {DRAWN[used]}, the losses of all levels together look {_nats(gap)} nats smaller than the "
        f"{loss:.2f} they are ({max(gap, 0.0) / loss:.1%}); drawn {DRAWN[other]}, {_nats(totals[other][0])}."
    )


def _total(theory: Told, way: str) -> tuple[float, float]:
    """The gap and the loss of all drawn levels."""
    drawn = [one for one in theory["levels"] if one["sampler"] == way and not one["whole"]]
    return math.fsum(one["gap"] for one in drawn), math.fsum(one["loss"] for one in drawn)


def _used(one: Told, theory: Told) -> str:
    return " (as it learned)" if one["sampler"] == theory["sampler"] else ""


def _other(theory: Told) -> list[str]:
    """What this tree does differently from what the numbers are about."""
    said = []
    if theory["sampler"] not in DRAWN:
        said.append(
            f"This tree learned with another way to draw, {theory['sampler']!r}; both above are for comparison."
        )
    if theory["loss"] != "softmax":
        said.append(
            f"It learned with the loss {theory['loss']!r}, and these numbers are of the loss 'softmax': they tell how "
            "its scores fare under it, not what it learned by."
        )
    return said


def bound_parts(bounds: Told) -> list[Html | str]:
    """The headline, ratios term by term, and in words what is measured; never in one table."""
    terms = {name: {one["name"]: one for one in each} for name, each in bounds["terms"].items()}
    own, others = terms[bounds["reference"]], [name for name in terms if name != bounds["reference"]]
    rows = [
        [
            WORDS.get(name, one["formula"]),
            *(_ratio(terms[other].get(name)) for other in others),
            "yes" if one["vacuous"] else "no",
            "yes" if one["applicable"] else "no",
        ]
        for name, one in own.items()
        if name != "trivial"
    ]
    said = _reasons(own.values())
    return [
        bounds["headline"],
        "A bound is a number that the error of a tree will not exceed, by a theorem, computed from sizes and lengths "
        "alone. The table holds other branches of a tree over the same items against this one: 0.5 is half of this "
        "tree's. A smaller bound does not mean a smaller error. Vacuous: it says less than what is known without any "
        "data.",
        table(["bound", *others, "vacuous", "its theorem speaks of such a tree"], rows),
        *([f"Why a theorem does not: {'; '.join(said)}."] if said else []),
        *_beside(bounds),
        f"All theorems take for granted: {'; '.join(bounds['assumptions'])}.",
    ]


def _reasons(terms: Any) -> list[str]:
    """What theorems do not know of this tree, each once."""
    mark = "not_applicable: "
    found = [one[len(mark) :] for term in terms for one in term["assumptions"] if one.startswith(mark)]
    return list(dict.fromkeys(found))


def _beside(bounds: Told) -> list[str]:
    """What is measured, in a sentence of its own."""
    one = bounds["beside"].get(bounds["reference"])
    if not one or not one["error"]:
        return []
    said = (
        f"Measured, not bounded: what came next is missing from the best of all leaves in {_share(one['error'])} of "
        f"the held-out requests (at most {one['hoeffding']:.1%} with 95 % confidence, whatever the data)."
    )
    if one["gap"] and one["gap"]["mean"] is not None:
        said += (
            f" The loss ({one['loss']}) of held-out requests less that of requests it learned from: "
            f"{_signed(one['gap']['mean'])}{_between(one['gap'])}."
        )
    return [said]


def _share(one: Told) -> str:
    return f"{one['mean']:.1%}" + ("" if one["low"] is None else f" [{one['low']:.1%}, {one['high']:.1%}]")


def _between(one: Told) -> str:
    return "" if one["low"] is None else f" [{_signed(one['low'])}, {_signed(one['high'])}]"


def _ratio(one: Told | None) -> str:
    return "–" if one is None or one["ratio_to_ref"] is None else f"{one['ratio_to_ref']:.3g}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"


def _nats(value: float) -> str:
    return f"{max(value, 0.0):.3f}"


def theory_lines(theory: Told) -> Sequence[str]:
    """One line for the sampler and one for the bounds."""
    if "levels" not in theory:
        return (f"sampler and bounds: {theory['why']}",) if theory.get("why") else ()
    return (f"sampler: {sampler_line(theory)}", f"bounds: {theory['bounds']['headline']}")

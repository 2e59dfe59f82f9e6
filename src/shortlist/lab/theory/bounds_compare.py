"""Bounds of several configurations relative to one of them, term by term, with measured errors beside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shortlist.errors import ConfigError
from shortlist.lab.theory.bounds import OF_SCORER, corrected_tail, retriever_bound
from shortlist.lab.theory.bounds_dtr import dtr_bound
from shortlist.lab.theory.bounds_inputs import ASSUMPTIONS, BoundInputs, BoundTerm, bottom_aligned
from shortlist.lab.theory.bounds_measured import Measured


@dataclass(frozen=True)
class BoundTable:
    """Terms of every configuration with their ratios to those of the reference."""

    reference: str
    terms: Mapping[str, tuple[BoundTerm, ...]]
    measured: Mapping[str, Measured] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ASSUMPTIONS
    vacuous: bool = field(init=False)  # whether all bounds are vacuous
    headline: str = field(init=False)  # the first sentence of a report

    def __post_init__(self) -> None:
        terms = [term for own in self.terms.values() for term in own if term.name != "tail"]
        object.__setattr__(self, "vacuous", all(term.vacuous for term in terms))
        object.__setattr__(self, "headline", self._headline())

    def _headline(self) -> str:
        bounds = [
            term for terms in self.terms.values() for term in terms if term.name not in ("tail", "trivial")
        ]
        empty = sum(term.vacuous for term in bounds)
        if empty == len(bounds):
            return (
                f"All {empty} bounds are vacuous: each is weaker than what is known without data. They are shown "
                "as ratios between configurations and guarantee nothing."
            )
        if empty:
            return f"{empty} of {len(bounds)} bounds are vacuous: they are weaker than what is known without data."
        return "None of the bounds is vacuous at these sizes, if their assumptions hold."


def compare_bounds(
    configurations: Mapping[str, BoundInputs],
    reference: str,
    measured: Mapping[str, Measured] | None = None,
    force: bool = False,
) -> BoundTable:
    """The table of bounds; a term that the reference does not have has no ratio."""
    if reference not in configurations:
        raise ConfigError(
            f"bounds: the reference must be one of {', '.join(configurations)}, got {reference!r}"
        )
    if unknown := sorted(set(measured or {}) - set(configurations)):
        raise ConfigError(f"bounds: {unknown[0]!r} is measured but is not a configuration")
    terms = {name: bound_terms(inputs, force) for name, inputs in configurations.items()}
    references = {term.name: term for term in terms[reference]}
    compared = {
        name: tuple(term.against(references[term.name]) if term.name in references else term for term in own)
        for name, own in terms.items()
    }
    return BoundTable(reference, compared, dict(measured or {}))


def compare_branches(
    inputs: BoundInputs, branches: Sequence[int] = (2, 8, 32), force: bool = False
) -> BoundTable:
    """A tree against trees of other branches with the same items, instances and norms."""
    others = {
        f"{branch} branches": replace(
            inputs, branch=branch, level_sizes=bottom_aligned(inputs.n_items, branch)
        )
        for branch in branches
        if branch != inputs.branch
    }
    return compare_bounds({"this tree": inputs, **others}, "this tree", force=force)


def bound_terms(inputs: BoundInputs, force: bool = False) -> tuple[BoundTerm, ...]:
    """Every term of a comparison, under names that all scorers share."""
    kind = OF_SCORER[inputs.scorer]
    found = {
        "paper": retriever_bound(inputs, kind, "paper", force),
        "pair_exact": retriever_bound(inputs, "pair_exact", "corrected", force),
        "rigorous": retriever_bound(inputs, "rigorous_model", "corrected", force),
    }
    if inputs.n_users:
        found["rigorous, m = users"] = retriever_bound(
            inputs.at_users(), "rigorous_model", "corrected", force
        )
    if inputs.scorer == "attention":
        found["theorem 4, printed"] = dtr_bound(inputs, 0.0, constants="paper", force=force)["complexity"]
        found["theorem 4"] = dtr_bound(inputs, 0.0, force=force)["complexity"]
    found["tail"] = corrected_tail(inputs.stratified(), 1.0)
    found["trivial"] = retriever_bound(inputs, "trivial")
    return tuple(replace(term, name=name) for name, term in found.items())

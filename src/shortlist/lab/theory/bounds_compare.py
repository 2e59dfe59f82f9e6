"""Bounds of several configurations held against one of them, term by term, with what is known beside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shortlist.errors import ConfigError
from shortlist.lab.theory.bounds import OF_SCORER, corrected_tail, retriever_bound
from shortlist.lab.theory.bounds_dtr import dtr_bound
from shortlist.lab.theory.bounds_inputs import SILENT, BoundInputs, BoundTerm, bottom_aligned
from shortlist.lab.theory.bounds_measured import Beside


@dataclass(frozen=True)
class BoundTable:
    """Terms of every configuration with their ratio to those of the reference."""

    reference: str
    terms: Mapping[str, tuple[BoundTerm, ...]]
    beside: Mapping[str, Beside] = field(default_factory=dict)
    assumptions: tuple[str, ...] = SILENT

    @property
    def vacuous(self) -> bool:
        """Whether no bound says anything that was not known before."""
        return all(one.vacuous for terms in self.terms.values() for one in terms if one.name != "tail")

    @property
    def headline(self) -> str:
        """What a report says first."""
        bounds = [
            one for terms in self.terms.values() for one in terms if one.name not in ("tail", "trivial")
        ]
        empty = sum(one.vacuous for one in bounds)
        if empty == len(bounds):
            return (
                f"All {empty} bounds are vacuous: each says less than what is known without any data. They are shown "
                "as ratios between configurations and guarantee nothing."
            )
        if empty:
            return f"{empty} of {len(bounds)} bounds are vacuous: they say less than what is known without any data."
        return "None of the bounds is vacuous at these sizes, as long as what they assume holds."

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "headline": self.headline,
            "reference": self.reference,
            "vacuous": self.vacuous,
            "terms": {name: [one.as_dict() for one in terms] for name, terms in self.terms.items()},
            "beside": {name: one.as_dict() for name, one in self.beside.items()},
            "assumptions": list(self.assumptions),
        }


def compare_bounds(
    configurations: Mapping[str, BoundInputs],
    reference: str,
    beside: Mapping[str, Beside] | None = None,
    force: bool = False,
) -> BoundTable:
    """The table; a term that the reference does not have stays without a ratio."""
    if reference not in configurations:
        raise ConfigError(
            f"bounds: the reference must be one of {', '.join(configurations)}, got {reference!r}"
        )
    if unknown := sorted(set(beside or {}) - set(configurations)):
        raise ConfigError(f"bounds: {unknown[0]!r} is measured but is no configuration")
    terms = {name: bound_terms(one, force) for name, one in configurations.items()}
    against = {one.name: one for one in terms[reference]}
    compared = {
        name: tuple(one.against(against[one.name]) if one.name in against else one for one in each)
        for name, each in terms.items()
    }
    return BoundTable(reference, compared, dict(beside or {}))


def compare_branches(
    inputs: BoundInputs, branches: Sequence[int] = (2, 8, 32), force: bool = False
) -> BoundTable:
    """A tree against trees of other branches with the same items, instances and lengths: what the shape alone does."""
    others = {
        f"{branch} branches": replace(
            inputs, branch=branch, level_sizes=bottom_aligned(inputs.n_items, branch)
        )
        for branch in branches
        if branch != inputs.branch
    }
    return compare_bounds({"this tree": inputs, **others}, "this tree", force=force)


def bound_terms(inputs: BoundInputs, force: bool = False) -> tuple[BoundTerm, ...]:
    """Every term that a configuration is compared by, under names that all scorers share."""
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

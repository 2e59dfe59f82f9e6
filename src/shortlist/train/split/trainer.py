"""The trainer of `split`: limits of nominators from out-of-fold candidates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shortlist.errors import ConfigError
from shortlist.nominate.split import Split
from shortlist.pipeline.about import TrainingHistory
from shortlist.settings import check_fields
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.split.gate import fit_gate
from shortlist.train.split.learn import SplitRule
from shortlist.train.split.ranks import ranks_in_pool

GIVEN = ("nominators", "limits")


@dataclass(frozen=True)
class SplitTrainer(SplitRule):
    """Splits the k of the stage over the nominators of its requests, unless the recipe gives the limits."""

    uses_weights: ClassVar[bool | None] = None
    reads_k: ClassVar[bool] = True  # `fit` gets the k of the expression among the settings

    def __post_init__(self) -> None:
        check_fields(self, "split")

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Split:
        """The stage with the limits of the recipe, or with learned ones."""
        given = [name for name in (*GIVEN, "history") if settings.get(name)]
        if not given:
            return self._learned(settings, context)
        missing = [name for name in GIVEN if name not in given]
        if missing:
            raise ConfigError(
                f"expected nominators and limits together, got {' and '.join(given)}; "
                f"add {' and '.join(missing)}, or give none of them to learn them"
            )
        if self.by != "none":
            raise ConfigError(
                f'expected no by = "{self.by}" where limits are given, because nothing is learned; leave it out, or '
                f"leave out {', '.join(given)}"
            )
        return Split.build(settings, {})

    def _learned(self, settings: Mapping[str, Any], context: TrainContext) -> Split:
        name = str(settings.get("name", "split"))
        if not context.batches:
            raise ConfigError(
                "limits are learned from candidates of nominators and got none; put it after a pool"
            )
        names = _nominators(context.batches[0])
        ranks = ranks_in_pool(context.batches, names)
        if not ranks.found:
            raise ConfigError(
                f"no nominator returns any target of {len(ranks)} training requests, so limits cannot be learned; "
                "nominate longer lists, or give nominators and limits"
            )
        learned = self.learned(context.batches, names, int(settings["k"]))
        gate = fit_gate(context.batches, names, context.events, context.seed) if self.by == "gate" else None
        context.note(name, TrainingHistory(0, 0))
        return Split(**{**settings, **learned}, gate=gate)


def _nominators(batch: RequestBatch) -> tuple[str, ...]:
    """The nominators whose ranks the candidates have."""
    return tuple(name.removesuffix(".rank") for name in batch.found.columns if name.endswith(".rank"))

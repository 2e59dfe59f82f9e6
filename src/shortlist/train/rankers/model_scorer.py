"""A pre-ranker that asks a model which a nominator of the pipeline asks, too."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.errors import ConfigError
from shortlist.models.model import Model
from shortlist.nominate import ModelNominator
from shortlist.stages import ModelScorer
from shortlist.train.context import TrainContext


@dataclass(frozen=True)
class ModelScorerTrainer:
    """Takes the model of the nominator named `start`, as it stands; in the rehearsal it knows the past alone."""

    start: str = ""

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> ModelScorer:
        return ModelScorer(self._model(context), **settings)

    def renew(self, stage: ModelScorer, context: TrainContext) -> ModelScorer:
        """The same stage with the model that knows all events."""
        return stage.renewed(model=self._model(context))

    def _model(self, context: TrainContext) -> Model:
        nominator = context.fitted.get(self.start)
        if not isinstance(nominator, ModelNominator):
            known = [name for name, one in context.fitted.items() if isinstance(one, ModelNominator)]
            raise ConfigError(
                f"model-scorer: start must name a nominator that asks a model, got {self.start!r}; "
                f"the pipeline has {', '.join(known) or 'none'}"
            )
        return nominator.model

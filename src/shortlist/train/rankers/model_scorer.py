"""The trainer of the model scorer, which shares the model of a nominator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shortlist.errors import ConfigError
from shortlist.models.model import Model
from shortlist.nominate import ModelNominator
from shortlist.settings import setting
from shortlist.stages import ModelScorer
from shortlist.train.context import TrainContext


@dataclass(frozen=True)
class ModelScorerTrainer:
    """Shares the model of nominator `start` without training; for out-of-fold candidates, the out-of-fold model."""

    uses_weights: ClassVar[bool | None] = None  # reads no events

    start: str = setting("", "Nominator whose model scores the candidates.")

    def models_used(self) -> dict[str, type[Any]]:
        """The setting that names a nominator with a model, and the kind of model."""
        return {"start": Model}

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> ModelScorer:
        return ModelScorer(self._model(context), **settings)

    def renew(self, stage: ModelScorer, context: TrainContext) -> ModelScorer:
        """The same stage with the model that was trained on all events."""
        return stage.renewed(model=self._model(context))

    def _model(self, context: TrainContext) -> Model:
        nominator = context.fitted.get(self.start)
        if not isinstance(nominator, ModelNominator):
            known = [name for name, one in context.fitted.items() if isinstance(one, ModelNominator)]
            raise ConfigError(
                f"model-scorer: start must name a nominator with a model, got {self.start!r}; "
                f"the pipeline has {', '.join(known) or 'none'}"
            )
        return nominator.model

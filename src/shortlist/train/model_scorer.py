"""A pre-ranker that asks a model which a nominator of the pipeline asks, too."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.errors import ConfigError
from shortlist.nominate import ModelNominator
from shortlist.represent.model import Model
from shortlist.stages import ModelScorer
from shortlist.train.material import Material


@dataclass(frozen=True)
class ModelScorerTrainer:
    """Takes the model of the nominator named `start`, as it stands; in the rehearsal it knows the past alone."""

    start: str = ""

    def fit(self, settings: Mapping[str, Any], material: Material) -> ModelScorer:
        return ModelScorer(self._model(material), **settings)

    def renew(self, stage: ModelScorer, material: Material) -> ModelScorer:
        """The same stage with the model that knows all events."""
        return stage.renewed(model=self._model(material))

    def _model(self, material: Material) -> Model:
        nominator = material.fitted.get(self.start)
        if not isinstance(nominator, ModelNominator):
            known = [name for name, one in material.fitted.items() if isinstance(one, ModelNominator)]
            raise ConfigError(
                f"model-scorer: start must name a nominator that asks a model, got {self.start!r}; "
                f"the pipeline has {', '.join(known) or 'none'}"
            )
        return nominator.model

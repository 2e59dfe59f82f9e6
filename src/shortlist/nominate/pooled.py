"""A mixture of nominators as one nominator: a vector index for each pool, or one for the whole mixture."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.artifact.tensor_checks import check_floats, check_shape
from shortlist.data import Candidates, Query
from shortlist.data.candidates import first_positions
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Knob, Nominator
from shortlist.index import INDEXES, VectorIndex, index_from_tensors, index_to_tensors, make_index
from shortlist.models.mixture import PoolMixture, TwoTowerExperts
from shortlist.models.mixture.stored import packed_mixture, unpacked_mixture
from shortlist.nominate.model import index_settings
from shortlist.nominate.pools import Pools
from shortlist.settings import setting

LISTS = ("auto", "mixture", "nominate", "pool")
WIDE = 4  # items fetched per place, where an index can order them only nearly
CELLS = 1 << 24  # numbers in memory at a time


@dataclass(frozen=True, eq=False, repr=False)
class Pooled(Nominator):
    """Learned nominators that share out the catalogue: by hard pools, or by a gate that weighs them for every item.

    A request is the mean factor vector of its recent history, standardised, with the features of its user. The list is
    that of the mixture mean (`mixture`), the joined lists of the nominators by weight times prediction (`nominate`), or
    the joined lists of hard pools by prediction (`pool`). Weights that do not depend on the request multiply the item
    vectors, so that search is as exact as the index; otherwise four times as many items are fetched and weighed again.
    """

    model: PoolMixture
    factors: Tensor  # [A, F] of items, whose mean over the history is the request
    scale: Tensor  # [2, F] mean and standard deviation of such means
    user_features: Tensor = field(default_factory=lambda: torch.zeros(0, 0))  # [U, G], 0 for unknown users
    lists: str = setting(
        "auto", "How lists are made; auto: pool with hard pools, mixture with a gate.", choices=LISTS
    )
    per_nominator: int = setting(
        0, "Items of each nominator in joined lists; 0: as many as the limit.", least=0, most=1_000_000
    )
    last: int = setting(50, "History items that count, the most recent ones.", least=1, most=100_000)
    exclude_seen: bool = setting(False, "Leave out the request's history before the best items are taken.")
    index: str = setting("exact", "Kind of index.", choices=INDEXES)
    ef: int = setting(0, "Search width of an HNSW index; 0 = its default.", least=0, most=1_000_000)
    nprobe: int = setting(0, "Cells searched by an IVF index; 0 = its default.", least=0, most=1_000_000)
    built: tuple[VectorIndex, ...] = field(default=(), kw_only=True)  # empty: built from the vectors

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lists == "pool" and not self.model.gate.hard:
            raise ConfigError(
                f'{self.title}: lists = "pool" needs hard pools, and the mixture has a gate; train it with '
                'allocation = "distilled"'
            )
        object.__setattr__(self, "built", self._indexes())

    @property
    def made(self) -> str:
        """How lists are made."""
        return self.lists if self.lists != "auto" else "pool" if self.model.gate.hard else "mixture"

    @cached_property
    def pools(self) -> Pools | None:
        """The hard pools, None for a gate; other stages can be trained on them."""
        return Pools(self.model.gate.pools.T.cpu().numpy().copy()) if self.model.gate.hard else None

    @torch.no_grad()
    def nominate(self, query: Query) -> Candidates:
        contexts = self.contexts(query)
        exclude = query.history if self.exclude_seen else None
        if self._joint:
            items, scores = self.built[0].search(
                self._experts.users(contexts).flatten(1), self.limit, exclude
            )
        else:
            items, scores = self._merged(contexts, *self._nominated(contexts, exclude))
        return Candidates.of(items, scores.masked_fill(items < 0, 0.0))

    @torch.no_grad()
    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        return {"score": self._scores(self.contexts(query), items)}

    def contexts(self, query: Query) -> Tensor:
        """What the nominators know of requests [B, d]."""
        mean, known = mean_factors(self.factors, query.history[:, -self.last :])
        centre, deviation = self.scale
        seen = torch.where(known[:, None], (mean - centre) / deviation, 0.0)
        return torch.cat([seen, self._of_users(query.user)], dim=1) if self.user_features.numel() else seen

    def _of_users(self, users: Tensor) -> Tensor:
        known = (users >= 0) & (users < len(self.user_features))
        return self.user_features[users.masked_fill(~known, 0)] * known[:, None]

    def _nominated(self, contexts: Tensor, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        """The items of every nominator and its scores of them [B, N, k], best first, -1 and -inf where none."""
        users, parts = self._experts.users(contexts), list[tuple[Tensor, Tensor]]()
        k = self.per_nominator or self.limit
        for n, (index, rows) in enumerate(zip(self.built, self._rows, strict=True)):
            own = None if exclude is None else self._places(n, exclude)
            at, scores = index.search(users[:, n], k if self._scaled or self._ordered else WIDE * k, own)
            items = torch.where(at >= 0, rows[at.clamp(min=0)], -1)
            parts.append(self._weighed(contexts, n, items, scores, k))
        width = max(items.shape[1] for items, _ in parts)
        pad = torch.nn.functional.pad
        items = torch.stack([pad(one, (0, width - one.shape[1]), value=-1) for one, _ in parts], 1)
        scores = torch.stack([pad(one, (0, width - one.shape[1]), value=-torch.inf) for _, one in parts], 1)
        return items, scores

    def _weighed(
        self, contexts: Tensor, n: int, items: Tensor, scores: Tensor, k: int
    ) -> tuple[Tensor, Tensor]:
        """The k best items of a nominator by weight times prediction, with its predictions; a negative one counts
        without its weight.
        """
        scores = self.model.linked(scores)
        if self._scaled or self._ordered:
            return items, scores
        weights = self.model.gate(contexts, items.clamp(min=0))[..., n].exp()
        value = torch.where(scores > 0, weights * scores, scores).masked_fill(items < 0, -torch.inf)
        order = value.sort(dim=1, descending=True, stable=True).indices[:, :k]
        return items.gather(1, order), scores.gather(1, order)

    def _merged(self, contexts: Tensor, items: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Joined lists [B, <= limit], best first; pools by prediction, others by the mixture mean."""
        flat, own = items.flatten(1), scores.flatten(1)
        if self.made == "pool":  # an item of several pools by its largest prediction
            order = own.sort(dim=1, descending=True, stable=True).indices
            flat, own = flat.gather(1, order), own.gather(1, order)
        leads = first_positions(flat, flat >= 0)[1] & (flat >= 0)
        values = own if self.made == "pool" else self._scores(contexts, flat.clamp(min=0))
        values = values.masked_fill(~leads, -torch.inf)
        order = values.sort(dim=1, descending=True, stable=True).indices[:, : self.limit]
        values = values.gather(1, order)
        return flat.gather(1, order).masked_fill(values == -torch.inf, -1), values

    def _scores(self, contexts: Tensor, items: Tensor) -> Tensor:
        """The mixture mean of given items [B, K], or with lists of pools the largest prediction of a pool."""
        numbers = max(items.shape[1] * self.model.n_experts * self._experts.width, 1)
        step = max(CELLS // numbers, 1)
        parts = [
            self._values(contexts[start : start + step], items[start : start + step])
            for start in range(0, len(items), step)
        ]
        return torch.cat(parts) if parts else contexts.new_zeros(items.shape)

    def _values(self, contexts: Tensor, items: Tensor) -> Tensor:
        if self.made != "pool":
            return self.model.mixture_mean(contexts, items)
        predictions = self.model.predictions(contexts, items)
        return predictions.masked_fill(~self.model.gate.pools[items], -torch.inf).amax(-1)

    @property
    def _experts(self) -> TwoTowerExperts:
        assert isinstance(self.model.experts, TwoTowerExperts)
        return self.model.experts

    @property
    def _linear(self) -> bool:
        """Whether the mixture mean is an inner product: weights of items alone, predictions without a link."""
        return not self.model.gate.of_contexts and self.model.outcome == "gaussian"

    @property
    def _joint(self) -> bool:
        """Whether one index orders items by the mixture mean."""
        return self.made == "mixture" and self._linear

    @property
    def _scaled(self) -> bool:
        """Whether item vectors are multiplied by their weights, so that an index orders items by both."""
        return self.made == "nominate" and self._linear

    @property
    def _ordered(self) -> bool:
        """Whether the order of a nominator is that of its predictions alone."""
        return self.made == "pool"

    @cached_property
    def _rows(self) -> tuple[Tensor, ...]:
        """The items of every nominator; all of them without hard pools."""
        if self.model.gate.hard:
            return tuple(own.nonzero()[:, 0] for own in self.model.gate.pools.T)
        every = torch.arange(self.model.n_items, device=self.factors.device)
        return (every,) * self.model.n_experts

    def _places(self, n: int, items: Tensor) -> Tensor:
        """The places of items [B, H] in the index of a nominator, -1 where it has none."""
        known = (items >= 0) & (items < self.model.n_items)
        if not self.model.gate.hard:
            return items.masked_fill(~known, -1)
        places = torch.full((self.model.n_items,), -1, device=items.device)
        places[self._rows[n]] = torch.arange(len(self._rows[n]), device=items.device)
        return places[items.masked_fill(~known, 0)].masked_fill(~known, -1)

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        check_shape("factors", self.factors, n_items, None)
        check_shape("scale", self.scale, 2, self.factors.shape[1])
        for name in ("factors", "scale", "user_features"):
            check_floats(name, getattr(self, name))
        if self.model.n_items != n_items:
            raise ArtifactError(f"the mixture is of {self.model.n_items} items, the catalogue has {n_items}")
        width = self.factors.shape[1] + self.user_features.shape[1]
        if self._experts.n_features != width:
            raise ArtifactError(
                f"the experts read {self._experts.n_features} features, requests have {width}"
            )
        expected = [tuple(one.shape) for one in self._vectors()]
        if expected != [(one.n_items, one.width) for one in self.built]:
            raise ArtifactError(f"the vectors have the shapes {expected}, the indexes others")

    def knobs(self) -> tuple[Knob, ...]:
        params = {} if self.index == "exact" else self.built[0].settings()
        own = [Knob(name, params[name], "double") for name in ("ef", "nprobe") if params.get(name)]
        return (*super().knobs(), *own)

    def tensors(self) -> dict[str, Tensor]:
        named = {"factors": self.factors, "scale": self.scale, "user_features": self.user_features}
        # An exact index searches vectors that are made of stored weights.
        built = () if self.index == "exact" else self.built
        indexes = [with_prefix(f"pool-{n}.", index_to_tensors(one)) for n, one in enumerate(built)]
        stored = {name: one for part in indexes for name, one in part.items()}
        return {**named, **packed_mixture(self.model), **stored}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        named: dict[str, Any] = {name: tensors[name] for name in ("factors", "scale", "user_features")}
        found = list[VectorIndex]()
        while index := index_from_tensors(without_prefix(f"pool-{len(found)}.", tensors)):
            found.append(index)
        return cls(unpacked_mixture(tensors), **named, **settings, built=tuple(found))

    @torch.no_grad()
    def _vectors(self) -> tuple[Tensor, ...]:
        """The item vectors of every index."""
        vectors = self._experts.vectors()  # [A, N, D]
        if self._joint or self._scaled:
            vectors = vectors * self.model.gate.item_weights()[..., None]
        if self._joint:
            return (vectors.flatten(1),)
        return tuple(vectors[rows, n].contiguous() for n, rows in enumerate(self._rows))

    @torch.no_grad()
    def _indexes(self) -> tuple[VectorIndex, ...]:
        """The given indexes with this stage's knobs, or new ones."""
        if not isinstance(self.model.experts, TwoTowerExperts):
            raise ConfigError(
                f"{self.title}: expected two-tower experts, got {type(self.model.experts).__name__}"
            )
        params, count = index_settings(vars(self)), 1 if self._joint else self.model.n_experts
        if len(self.built) == count and all(one.kind == self.index != "exact" for one in self.built):
            return tuple(one.tuned(**params) for one in self.built)
        return tuple(make_index(self.index, one, **params) for one in self._vectors())


def mean_factors(factors: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
    """The mean factor vector of histories [B, F], 0 for one without items, and whether each has any [B]."""
    known = (history >= 0) & (history < len(factors))
    total = (factors[history.masked_fill(~known, 0)] * known[..., None]).sum(1)
    count = known.sum(1)
    return total / count.clamp(min=1)[:, None], count > 0

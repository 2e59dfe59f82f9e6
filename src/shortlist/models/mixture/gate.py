"""The gate of a mixture: how much each nominator counts for a context and an item."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError, DataError, did_you_mean

KINDS = ("item", "user_item", "user", "features", "uniform")
OF_CONTEXTS = ("user_item", "user")
INITIAL_STD = 0.01


class Gate(nn.Module):
    """log p_n(x, a) = u_n(x) + v_n(a) - logsumexp over the nominators; N is the last axis everywhere.

    `item`: v is a table, u is 0. `user_item`: also u(x) = G x. `user`: u(x) alone. `features`: v is a network over item
    features, which new items have too. `uniform`: equal weights. With `pools` a nominator counts only for the items of
    its pool. It starts at G = 0 and a nearly equal v, so that experts differ by their features alone.
    """

    item_features: Tensor  # [A, F]
    pools: Tensor  # [A, N] bool
    bias: Tensor  # [N]

    def __init__(
        self,
        kind: str,
        n_experts: int,
        n_items: int,
        n_features: int = 0,
        *,
        item_features: Tensor | None = None,
        hidden: int = 32,
        pools: Tensor | None = None,
    ) -> None:
        super().__init__()
        _check(kind, n_experts, n_items, item_features)
        _check_pools(pools, n_experts, n_items)
        self.kind, self.n_experts, self.n_items, self.n_features = kind, n_experts, n_items, n_features
        self.hidden, self.hard = hidden, pools is not None
        if kind in OF_CONTEXTS:
            self.contexts = nn.Parameter(torch.zeros(n_features, n_experts))  # [d, N]
        if kind in ("item", "user_item"):
            self.items = nn.Parameter(torch.empty(n_items, n_experts))
        if kind == "features":
            assert item_features is not None
            self.register_buffer("item_features", item_features)
            self.inner, self.outer = nn.Linear(item_features.shape[1], hidden), nn.Linear(hidden, n_experts)
        self.register_buffer("bias", torch.zeros(n_experts))
        if pools is not None:
            self.register_buffer("pools", pools)
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """New initial values, by torch's random numbers."""
        self.bias.zero_()
        if self.kind in OF_CONTEXTS:
            self.contexts.zero_()
        if hasattr(self, "items"):
            nn.init.normal_(self.items, std=INITIAL_STD)
        if self.kind == "features":
            for layer, scale in ((self.inner, 1.0), (self.outer, INITIAL_STD)):
                nn.init.normal_(layer.weight, std=scale * layer.in_features**-0.5)
                nn.init.zeros_(layer.bias)

    @property
    def of_contexts(self) -> bool:
        """Whether the weights depend on the context."""
        return self.kind in OF_CONTEXTS

    def forward(self, contexts: Tensor, items: Tensor) -> Tensor:
        """log p of items [B] as [B, N], or of items [B, K] as [B, K, N]; -inf outside a pool."""
        logits = self.user_logits(contexts).view(len(contexts), *(1,) * (items.ndim - 1), self.n_experts)
        logits = (logits + self.item_logits(items)).expand(*items.shape, self.n_experts)
        return self._log_softmax(logits, items)

    def all(self, contexts: Tensor) -> Tensor:
        """log p of every item [B, A, N]."""
        logits = self.user_logits(contexts)[:, None] + self.item_logits()
        return self._log_softmax(logits.expand(len(contexts), self.n_items, self.n_experts), None)

    def user_logits(self, contexts: Tensor) -> Tensor:
        """u(x) [B, N]."""
        zero = self.bias.expand(len(contexts), -1)
        return contexts @ self.contexts + zero if self.of_contexts else zero

    def item_logits(self, items: Tensor | None = None) -> Tensor:
        """v of items [..., N], by default of every item [A, N]; 0 where the gate has none."""
        if self.kind == "features":
            features = self.item_features if items is None else self.item_features[items]
            values: Tensor = self.outer(self.inner(features).relu())
            return values
        if hasattr(self, "items"):
            return self.items if items is None else F.embedding(items, self.items)
        return self.bias.new_zeros((self.n_items, self.n_experts) if items is None else (1,))

    def item_weights(self) -> Tensor:
        """p_n(a) of every item [A, N], for a gate that does not depend on contexts."""
        if self.of_contexts:
            raise ConfigError(f'gate: "{self.kind}" has no weights without a context; use distil')
        return self._log_softmax((self.item_logits() + self.bias).expand(self.n_items, -1), None).exp()

    @torch.no_grad()
    def centred(self) -> Self:
        """The same gate, with v centred over nominators and over items, and G over nominators.

        p does not change when a constant is added over the nominators, or moved from v_n to u_n.
        """
        made = type(self).build(self.settings(), self.state_dict())
        if made.of_contexts:
            made.contexts.sub_(made.contexts.mean(1, keepdim=True))
        if hasattr(made, "items"):
            made.items.sub_(made.items.mean(1, keepdim=True))
            moved = made.items.mean(0)
            made.items.sub_(moved)
            made.bias.add_(moved)
        made.bias.sub_(made.bias.mean())
        return made

    def kept(self, at: Tensor) -> Self:
        """A copy for these experts alone, whose weights add up to 1 again."""
        if self.hard:
            raise ConfigError("gate: hard pools need all of their nominators; prune before pools are made")
        narrow = {"bias": 0, "contexts": 1, "items": 1, "outer.weight": 0, "outer.bias": 0}
        stored = {
            name: one.index_select(narrow[name], at) if name in narrow else one
            for name, one in self.state_dict().items()
        }
        return type(self).build({**self.settings(), "n_experts": len(at)}, stored)

    def settings(self) -> dict[str, Any]:
        """The plain values that `build` needs beside the weights."""
        names = ("kind", "n_experts", "n_items", "n_features", "hidden", "hard")
        width = self.item_features.shape[1] if self.kind == "features" else 0
        return {name: getattr(self, name) for name in names} | {"item_width": width}

    @classmethod
    def build(cls, settings: Mapping[str, Any], weights: Mapping[str, Tensor] | None = None) -> Self:
        """The gate of `settings()`, with these weights."""
        values = dict(settings)
        hard, width = values.pop("hard"), values.pop("item_width")
        size = (values["n_items"], values["n_experts"])
        made = cls(
            **values,
            item_features=torch.zeros(values["n_items"], width) if width else None,
            pools=torch.ones(size, dtype=torch.bool) if hard else None,
        )
        if weights is not None:
            made.to(weights["bias"]).load_state_dict(dict(weights))
        return made

    def _log_softmax(self, logits: Tensor, items: Tensor | None) -> Tensor:
        if self.hard:
            pools = self.pools if items is None else self.pools[items]
            logits = logits.masked_fill(~pools, -torch.inf)
        return logits.log_softmax(-1)


def _check(kind: str, n_experts: int, n_items: int, item_features: Tensor | None) -> None:
    if kind not in KINDS:
        raise ConfigError(f"gate: expected {', '.join(KINDS)}, got {kind!r}{did_you_mean(kind, KINDS)}")
    if n_experts < 1 or n_items < 1:
        raise ConfigError(
            f"gate: expected at least one nominator and one item, got {n_experts} and {n_items}"
        )
    if (kind == "features") != (item_features is not None):
        raise ConfigError('gate: item features are needed by the kind "features", and by no other')
    if item_features is None:
        return
    if item_features.ndim != 2 or len(item_features) != n_items or not item_features.shape[1]:
        raise DataError(f"gate: expected features of {n_items} items, got {list(item_features.shape)}")
    if not item_features.is_meta and not bool(item_features.isfinite().all()):
        row = int((~item_features.isfinite().all(1)).nonzero()[0])
        raise DataError(f"gate: the features of item {row} are not all finite numbers; fill or remove them")


def _check_pools(pools: Tensor | None, n_experts: int, n_items: int) -> None:
    if pools is None:
        return
    if tuple(pools.shape) != (n_items, n_experts):
        raise ConfigError(
            f"gate: expected pools of items by nominators {[n_items, n_experts]}, got {list(pools.shape)}"
        )
    if not pools.is_meta and not bool(pools.any(1).all()):
        raise ConfigError(
            f"gate: item {int((~pools.any(1)).nonzero()[0])} is in no pool; every item needs one"
        )

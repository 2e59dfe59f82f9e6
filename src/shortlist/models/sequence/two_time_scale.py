"""Two-time-scale users: active users have a vector of their own, all others a common start; every event moves both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.artifact.tensor_checks import check_whole
from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import padding_last
from shortlist.models.state_model import Promotion, RecurrentWeights, StateModel
from shortlist.settings import setting

ANCHOR = 0.3  # first share of the personal vector beside a transferred recurrence
GRU = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")  # in the order of RecurrentWeights
KEEP = 50.0  # bias of the update gate with which a state stays as it is
READOUTS = ("plain", "plus", "anchored")


@dataclass(frozen=True)
class TwoTimeScaleConfig(ModelConfig):
    """Sizes, and how a user vector is read from a state."""

    max_history: int = 10_000
    n_users: int = setting(0, "Number of users of the training data.", least=0, derived=True)
    n_active: int = setting(0, "Number of users with a vector of their own.", least=0, derived=True)
    all_own: bool = setting(False, "Whether unknown users have the last own vector.", derived=True)
    threshold: int = setting(
        -1, "Users with more training events are active; -1: none is, or all are.", least=-1, derived=True
    )
    last: int = setting(20, "Last events that are not in the base of active users.", least=0, derived=True)
    prior: float = setting(
        1.0, "Weight of the squared distance of user vectors from their mean.", derived=True
    )
    first_epochs: int = setting(0, "Epochs of the first stage.", least=0, derived=True)
    new_epochs: int = setting(0, "Epochs of the recurrence of new users.", least=0, derived=True)
    active_epochs: int = setting(0, "Epochs of the recurrence of active users.", least=0, derived=True)
    width: int = setting(
        64, "Width of item vectors, user vectors and states, without features.", least=1, most=8192
    )
    feature_width: int = setting(
        0, "Width of the part of an item vector that comes from features.", derived=True
    )
    readout: str = setting(
        "anchored",
        "plain: the state is the user vector; plus: a matrix of the state and of the last item; anchored: for active "
        "users, their own vector plus a matrix of the state.",
        choices=READOUTS,
    )
    dropout: float = setting(
        0.2, "Dropout probability of inputs and of user vectors, in training.", least=0, most=0.95
    )
    gate_bias: float = setting(
        3.0,
        "First bias of the update gate of active users in the readouts plain and plus: how slowly they move at first.",
        least=-20,
        most=20,
    )


class TwoTimeScale(StateModel):
    """User vectors from two recurrences over the item vectors of a collaborative model (Chen et al., 2020).

    A user with more training events than the threshold begins with a vector of his own, which is `personal`; every
    other one begins with the learned `start`. Item vectors and personal vectors are those of the first stage.
    """

    Config = TwoTimeScaleConfig
    config: TwoTimeScaleConfig
    items: Tensor  # [N, D]
    own: Tensor  # [A, D] vectors of the active users
    own_row: Tensor  # [n_users] row in `own`, -1 = not active
    base: Tensor  # [A] events that are in `own`
    mean: Tensor  # [D] of the vectors of users, the centre of their prior

    def __init__(self, config: TwoTimeScaleConfig) -> None:
        super().__init__(config)
        width = config.width + config.feature_width
        self.register_buffer("items", torch.zeros(config.n_items, width))
        self.register_buffer("own", torch.zeros(config.n_active, width))
        self.register_buffer("own_row", torch.full((config.n_users,), -1))
        self.register_buffer("base", torch.zeros(config.n_active, dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(width))
        self.start = nn.Parameter(torch.zeros(width))
        self.new_users = nn.GRU(width, width, batch_first=True)
        anchored = config.readout == "anchored"
        self.active_users = nn.GRU(2 * width if anchored else width, width, batch_first=True)
        if anchored:
            self.anchor = nn.Parameter(torch.ones(()))
            self.output = nn.Linear(width, width, bias=False)
            nn.init.zeros_(self.output.weight)
            self.active_start = nn.Parameter(torch.zeros(width))
        else:
            with torch.no_grad():
                self.gate_bias()[:] = config.gate_bias
        if config.readout == "plus":
            self.no_item = nn.Parameter(torch.zeros(width))
            self.mix = nn.ModuleDict(
                {name: nn.Linear(2 * width, width, bias=False) for name in ("new", "active")}
            )
            for mix in self.mix.values():
                assert isinstance(mix, nn.Linear)
                nn.init.zeros_(mix.weight)
                with torch.no_grad():
                    mix.weight[:, :width].fill_diagonal_(1.0)  # at first the state itself

    @classmethod
    def build(cls, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Self:
        model = super().build(settings, weights)
        check_whole("own_row", model.own_row, -1, model.config.n_active)
        check_whole("base", model.base, 0, 2**31)
        return model

    @torch.no_grad()
    def transfer(self) -> None:
        """Let the recurrence of active users begin as that of new users: personal vectors as inputs count for nothing.

        An anchored user vector begins as the state plus a share of the personal vector. Where the state is the user
        vector, the bias of the update gate is higher by `gate_bias`.
        """
        for name, weight in self.active_users.named_parameters():
            weight.zero_()
            given = self.new_users.get_parameter(name)
            weight[..., : given.shape[-1]].copy_(given)
        if self.config.readout == "anchored":
            nn.init.eye_(self.output.weight)
            self.anchor.fill_(ANCHOR)
            self.active_start.copy_(self.start)
        else:
            self.gate_bias()[:] += self.config.gate_bias

    @torch.no_grad()
    def keep_active(self) -> None:
        """Let the states of active users stay where they begin, whatever they interact with."""
        for weight in self.active_users.parameters():
            weight.zero_()
        self.gate_bias()[:] = KEEP

    def gate_bias(self) -> Tensor:
        """The bias of the update gate of active users [D], a view of the weights."""
        width = self.state_width
        return self.active_users.get_parameter("bias_hh_l0")[width : 2 * width]

    @property
    def state_width(self) -> int:
        return self.config.width + self.config.feature_width

    def own_rows(self, users: Tensor) -> Tensor:
        """Rows of users [U] in `own`, -1 = not active."""
        unknown = self.config.n_active - 1 if self.config.all_own else -1
        if not self.config.n_users or not self.config.n_active:
            return torch.full_like(users, unknown)
        known = (users >= 0) & (users < self.config.n_users)
        return self.own_row[users.masked_fill(~known, 0)].masked_fill(~known, unknown)

    def active(self, users: Tensor) -> Tensor:
        return self.own_rows(users) >= 0

    def base_events(self, users: Tensor) -> Tensor:
        rows = self.own_rows(users)
        if not self.config.n_active:
            return torch.zeros_like(rows)
        return self.base[rows.clamp(min=0)].masked_fill(rows < 0, 0)

    def personal(self, users: Tensor) -> Tensor:
        rows = self.own_rows(users)
        if not self.config.n_active:
            return self.items.new_zeros(*users.shape, self.state_width)
        return torch.where((rows >= 0)[..., None], self.own[rows.clamp(min=0)], 0.0)

    def starts_of(self, active: Tensor, personal: Tensor) -> Tensor:
        own = self.active_start if self.config.readout == "anchored" else personal
        return torch.where(active[:, None], own, self.start)

    def inputs(self) -> Tensor:
        return self.items

    def vectors(self) -> Tensor:
        return self.items

    def recurrence(self, active: bool) -> RecurrentWeights:
        gru = self.active_users if active else self.new_users
        return RecurrentWeights(*(gru.get_parameter(name) for name in GRU))

    def promotion(self) -> Promotion | None:
        config = self.config
        if config.threshold < 0 or config.all_own or not config.n_active or config.prior <= 0:
            return None
        return Promotion(config.threshold, config.last, config.prior, self.mean)

    def readout_of(self, states: Tensor, last_items: Tensor, active: Tensor, personal: Tensor) -> Tensor:
        active = active[..., None]
        if self.config.readout == "anchored":
            return torch.where(active, self.anchor * personal + self.output(states), states)
        if self.config.readout == "plain":
            return states
        last = self.last_vectors(last_items)
        both = torch.cat([states, last], dim=-1)
        return torch.where(active, self.mix["active"](both), self.mix["new"](both))

    def last_vectors(self, last_items: Tensor) -> Tensor:
        """The vectors of items of any shape [...], the learned one of no item for -1 [..., D]."""
        known = (last_items >= 0)[..., None]
        if not self.config.n_items:
            return self.no_item.expand(*last_items.shape, -1)
        return torch.where(known, self.items[last_items.clamp(min=0)], self.no_item)

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """User vectors after the events of histories [U, K], -1 = padding.

        Of an active user the events after the base are replayed. A history that is shorter than the base is not that
        user's, so it is read from the common start.
        """
        user = torch.full((len(history),), -1, device=history.device) if user is None else user
        states, last, user = self.replayed(self.read(history), user)
        return self.readout(states, last, user)

    def replayed(self, history: Tensor, user: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States [U, D], last items [U], and users [U], -1 for those who are read as new ones."""
        count, base = (history >= 0).sum(1), self.base_events(user)
        user = user.masked_fill(base > count, -1)
        base = base.masked_fill(base > count, 0)
        place = torch.arange(history.shape[1], device=history.device) - (history.shape[1] - count)[:, None]
        later = padding_last(history.masked_fill(place < base[:, None], -1))  # [U, K] after the base
        length = (later >= 0).sum(1)
        states = self.starts(user)
        active = self.active(user)
        after = states.clone()
        for group in (False, True):
            rows = ((active == group) & (length > 0)).nonzero()[:, 0]
            if len(rows):
                own = later[rows, : int(length[rows].max())]
                path = self.states(own, states[rows], group, self.personal(user[rows]))
                after[rows] = path[torch.arange(len(rows), device=rows.device), length[rows] - 1]
        last = history[:, -1] if history.shape[1] else torch.full_like(user, -1)
        return after, last, user

    def states(self, items: Tensor, start: Tensor, active: bool, personal: Tensor | None = None) -> Tensor:
        """States after each event of sequences [U, L], padding last, from start states [U, D] -> [U, L, D]."""
        vectors = F.dropout(self.items[items.clamp(min=0)], self.config.dropout, self.training)
        gru = self.active_users if active else self.new_users
        if gru.input_size > vectors.shape[-1]:
            assert personal is not None
            vectors = torch.cat([vectors, personal[:, None].expand_as(vectors)], dim=-1)
        with torch.autocast(vectors.device.type, enabled=False):  # the fused GRU does not support bfloat16
            path: Tensor = gru(vectors.float(), start.float()[None].contiguous())[0]
        return path

"""Settings: a parameter with its default, range and meaning is written once, on the field that holds it.

    @dataclass(frozen=True)
    class Diverse(Selector):
        strength: float = setting(0.3, "Weight of diversity against the score.", least=0, most=1)

TOML checks, `shortlist settings`, trainers and the tables of the docs read these fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from shortlist.errors import ConfigError, did_you_mean

RENAMED: Mapping[str, str] = {
    "batch": "batch_size",
    "cap": "instances_per_item",
    "cases": "validation_users",
    "correct": "logq_correction",
    "decay": "weight_decay",
    "drawn": "n_negatives",
    "fade": "lr_schedule (trees) or history_decay (co-visit)",
    "forget": "history_dropout",
    "fresh": "exclude_seen",
    "gaps": "mask_share",
    "heat": "temperature",
    "hops": "layers",
    "improve": "swaps",
    "judged_by": "early_stop_metric",
    "least": "min_leaf_size",
    "memory": "max_history",
    "own": "user_embeddings",
    "rate": "learning_rate",
    "rehearse": "out_of_fold",
    "round_rate": "round_learning_rate",
    "spare": "spare_leaves",
    "sticky": "stay_bonus",
    "tail": "mask_last_share",
    "taught_beam": "train_beam",
    "validation_cases": "validation_users",
    "vectors": "embedding_init",
    "wants": "positives_per_request",
}
"""Keys of recipes before version 0.2.0, and what they are called now."""


@dataclass(frozen=True)
class Setting:
    """One parameter of a stage, a model or a trainer."""

    name: str
    type: Any
    default: Any  # MISSING where it must be given
    meaning: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    derived: bool = False  # set from the data or from other settings, never by a user

    @property
    def type_name(self) -> str:
        """The type in plain English."""
        return type_in_words(self.type)

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def range(self) -> str:
        """The allowed values, empty where any value of the type is allowed."""
        if self.choices:
            return ", ".join(self.choices)
        if self.least is None and self.most is None:
            return ""
        if self.most is None:
            return f"at least {self.least:g}"
        return f"{self.least:g} to {self.most:g}" if self.least is not None else f"at most {self.most:g}"

    def check(self, value: Any, where: str) -> None:
        """Refuse a value of another type, outside the range or not among the choices."""
        if not fits(value, self.type):
            raise ConfigError(f"{where}: {self.name} must be {self.type_name}, got {value!r}")
        for element in value if isinstance(value, list | tuple) else (value,):
            self._check_element(element, where)

    def _check_element(self, value: Any, where: str) -> None:
        if isinstance(value, str):
            if self.choices and value not in self.choices:
                raise ConfigError(
                    f"{where}: {self.name} must be one of {', '.join(self.choices)}, got {value!r}"
                )
        elif isinstance(value, int | float) and not isinstance(value, bool) and not self._inside(value):
            between = self.least is not None and self.most is not None
            limits = f"lie between {self.least:g} and {self.most:g}" if between else f"be {self.range}"
            raise ConfigError(f"{where}: {self.name} must {limits}, got {value!r}")

    def _inside(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def setting(
    default: Any = MISSING,
    meaning: str = "",
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Sequence[str] = (),
    derived: bool = False,
) -> Any:
    """A dataclass field that carries its meaning and its range.

    A `derived` field is set from the data or from other settings: it is checked, but TOML cannot set it.
    """
    facts = {"meaning": meaning, "least": least, "most": most, "choices": tuple(choices), "derived": derived}
    return field(default=default, metadata={"setting": facts})


def settings_of(kind: type[Any]) -> tuple[Setting, ...]:
    """The parameters of a dataclass that TOML can set; a subclass that changes a default keeps meaning and range."""
    return tuple(parameter for parameter in _parameters(kind) if not parameter.derived)


def check_fields(instance: Any, where: str) -> None:
    """Refuse field values of a dataclass instance that are outside their ranges; None means "not given"."""
    for parameter in _parameters(type(instance)):
        value = getattr(instance, parameter.name)
        if value is not None:
            parameter.check(value, where)


def check_settings(
    values: Mapping[str, Any], allowed: Sequence[Setting], where: str, elsewhere: str = ""
) -> None:
    """Refuse keys that do not exist and values that do not fit; a renamed key is named with its new name.

    `elsewhere` ends the message about an unknown key without a similar one: where other keys belong.
    """
    known = {one.name: one for one in allowed}
    for name, value in values.items():
        if name not in known:
            renamed = f"; {name} was renamed to {RENAMED[name]} in 0.2.0" if name in RENAMED else ""
            expected = ", ".join(sorted(known)) or "none"
            hint = did_you_mean(name, known) or elsewhere
            raise ConfigError(f"{where}: unknown key {name!r}{renamed}; expected one of {expected}{hint}")
        known[name].check(value, where)


def _parameters(kind: type[Any]) -> tuple[Setting, ...]:
    """The plain parameters of a dataclass, derived ones too; read once per class."""
    if kind not in _KNOWN:
        hints = get_type_hints(kind)
        _KNOWN[kind] = tuple(
            Setting(one.name, hints[one.name], one.default, **_facts(kind, one.name))
            for one in fields(kind)
            if one.init and is_plain(hints[one.name])
        )
    return _KNOWN[kind]


_KNOWN: dict[type[Any], tuple[Setting, ...]] = {}


def _facts(kind: type[Any], name: str) -> dict[str, Any]:
    for base in kind.__mro__:
        own = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if own is not None and "setting" in own.metadata:
            return dict(own.metadata["setting"])
    return {}


def is_plain(hint: Any) -> bool:
    """Whether TOML can hold a value of this type."""
    if get_origin(hint) in (tuple, list, UnionType, Union):
        return all(is_plain(one) for one in get_args(hint) if one is not Ellipsis)
    return hint in (str, int, float, bool, NoneType)


def fits(value: object, hint: Any) -> bool:
    """Whether a value from TOML has this type."""
    if get_origin(hint) in (tuple, list):
        return isinstance(value, list | tuple) and all(fits(one, get_args(hint)[0]) for one in value)
    if get_origin(hint) in (UnionType, Union):
        return any(fits(value, one) for one in get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def type_in_words(hint: Any) -> str:
    """A type in plain English."""
    if get_origin(hint) in (tuple, list):
        return f"a list of {type_in_words(get_args(hint)[0])}"
    if get_origin(hint) in (UnionType, Union):
        return " or ".join(type_in_words(one) for one in get_args(hint) if one is not NoneType)
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}.get(hint, str(hint))

"""What can be chosen of every kind of approximate index, and what is chosen where nothing is said.

A 0 is a choice left to the size of the catalogue.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from shortlist.errors import ConfigError

FEW = 256  # items: fewer are looked at one by one, whatever the kind


@dataclass(frozen=True)
class Choices:
    """Whole numbers, none of them negative."""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ConfigError(f"index: {name} must be a whole number from 0, got {value!r}")

    @classmethod
    def of(cls, kind: str, settings: dict[str, Any]) -> Self:
        """The choices with some of them made."""
        known = [one.name for one in fields(cls)]
        wrong = [name for name in settings if name not in known]
        if wrong:
            raise ConfigError(
                f'index "{kind}" knows no {", ".join(wrong)}; expected {", ".join(known) or "no settings"}'
            )
        return cls(**settings)

    def given(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def fitted(self, n_items: int, width: int) -> Self:
        """The same with every 0 replaced by what suits so many vectors of this width."""
        return self


@dataclass(frozen=True)
class HnswChoices(Choices):
    """A graph of neighbours by inner product."""

    m: int = 32  # neighbours of an item
    ef_construction: int = 100  # how many are weighed when an item is linked
    ef: int = 128  # how many are kept in sight in a search

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m < 2 or self.ef_construction < 1 or self.ef < 1:
            raise ConfigError(
                f'index "hnsw" needs m from 2, ef_construction and ef from 1, got {self.m}, '
                f"{self.ef_construction} and {self.ef}"
            )


@dataclass(frozen=True)
class IvfChoices(Choices):
    """A partition into lists, of which some are read."""

    each: ClassVar[int] = (
        39  # items of a list at least, of lists whose number is not said: fewer teach k-means little
    )

    nlist: int = 0  # lists: twice the root of the number of items
    nprobe: int = 0  # lists that are read: an eighth of them

    def fitted(self, n_items: int, width: int) -> Self:
        if self.nlist > n_items:
            raise ConfigError(
                f"index: nlist must be at most the number of items, {n_items}, got {self.nlist}; "
                "say less, or 0 to have it chosen"
            )
        nlist = self.nlist or max(1, min(round(2 * n_items**0.5), n_items // self.each))
        return replace(self, nlist=nlist, nprobe=min(self.nprobe or max(1, nlist // 8), nlist))


@dataclass(frozen=True)
class IvfPqChoices(IvfChoices):
    """The same, vectors written as m codes of some bits; the best of `refine` times k are weighed exactly."""

    m: int = 0  # codes of a vector: one for every two floats where that divides the width
    bits: int = 8
    refine: int = 4  # 0: codes alone, and vectors are not kept

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= 8:
            raise ConfigError(f"index: bits must lie between 1 and 8, got {self.bits}")

    def fitted(self, n_items: int, width: int) -> Self:
        if self.m and width % self.m:
            raise ConfigError(
                f'index "ivf-pq": m must divide the width {width}, got {self.m}; say 0 to have it chosen'
            )
        most = max(1, width // 2)
        m = self.m or max(part for part in range(1, most + 1) if width % part == 0)
        return replace(super().fitted(n_items, width), m=m)


@dataclass(frozen=True)
class ResidualChoices(IvfChoices):
    """Vectors as m codes, each of what the ones before it left over; nlist 1 is no partition."""

    m: int = 8
    bits: int = 6
    refine: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m < 1 or not 1 <= self.bits <= 8:
            raise ConfigError(
                f'index "residual" needs m from 1 and bits between 1 and 8, got {self.m} and {self.bits}'
            )


@dataclass(frozen=True)
class ScannChoices(IvfChoices):
    """A partition into leaves of codes made for inner products; the best of `refine` times k are weighed exactly."""

    each: ClassVar[int] = 100

    refine: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.refine < 1:
            raise ConfigError(f'index "scann" needs refine from 1, got {self.refine}')

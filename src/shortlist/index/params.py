"""Build and search parameters of the approximate indexes.

The value 0 means: choose from the number of items or the width of the vectors.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

from shortlist.errors import ConfigError
from shortlist.settings import check_settings, setting, settings_of

MIN_ITEMS = 256  # smaller catalogues are searched by brute force, whatever the kind


@dataclass(frozen=True)
class IndexParams:
    """Parameters of an index without any."""

    kind: ClassVar[str] = "flat"

    def __post_init__(self) -> None:
        check_settings(self.as_dict(), settings_of(type(self)), f'index "{self.kind}"')

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Self:
        """Parameters from a mapping; unknown names are refused."""
        check_settings(settings, settings_of(cls), f'index "{cls.kind}"')
        return cls(**settings)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def resolved(self, n_items: int, width: int) -> Self:
        """The same parameters, every 0 replaced by a value for N items of this width."""
        return self


@dataclass(frozen=True)
class HnswParams(IndexParams):
    """A navigable graph of neighbours by inner product."""

    kind: ClassVar[str] = "hnsw"

    m: int = setting(32, "Neighbours per item in the graph.", least=2)
    ef_construction: int = setting(100, "Candidate list size while the graph is built.", least=1)
    ef: int = setting(128, "Candidate list size of a search.", least=1)


@dataclass(frozen=True)
class IvfParams(IndexParams):
    """Inverted lists around k-means centroids."""

    kind: ClassVar[str] = "ivf"
    min_list_size: ClassVar[int] = (
        39  # items per list when nlist is 0: k-means needs this many points per centroid
    )

    nlist: int = setting(0, "Number of lists; 0: 2 * sqrt(items).", least=0)
    nprobe: int = setting(0, "Lists read per query; 0: an eighth of them.", least=0)

    def resolved(self, n_items: int, width: int) -> Self:
        if self.nlist > n_items:
            raise ConfigError(
                f'index "{self.kind}": nlist must be at most the number of items, {n_items}, got {self.nlist}; '
                "lower it, or set 0 to choose it automatically"
            )
        nlist = self.nlist or max(1, min(round(2 * n_items**0.5), n_items // self.min_list_size))
        return replace(self, nlist=nlist, nprobe=min(self.nprobe or max(1, nlist // 8), nlist))


@dataclass(frozen=True)
class CodedParams(IvfParams):
    """Inverted lists of codes; the best `refine` * k are rescored exactly."""

    bits: int = setting(8, "Bits per code.", least=1, most=8)
    refine: int = setting(4, "Rescore this many times k exactly; 0: codes only, no vectors stored.", least=0)


@dataclass(frozen=True)
class IvfPqParams(CodedParams):
    """Inverted lists of product-quantized vectors; the best `refine` * k are rescored exactly."""

    kind: ClassVar[str] = "ivf-pq"

    m: int = setting(0, "Codes per vector; 0: one per two floats where that divides the width.", least=0)

    def resolved(self, n_items: int, width: int) -> Self:
        if self.m and width % self.m:
            raise ConfigError(
                f'index "ivf-pq": m must divide the width {width}, got {self.m}; set 0 to choose it automatically'
            )
        most = max(1, width // 2)
        m = self.m or max(part for part in range(1, most + 1) if width % part == 0)
        return replace(super().resolved(n_items, width), m=m)


@dataclass(frozen=True)
class ResidualParams(CodedParams):
    """Residual quantization: m codes, each of the residual of the previous ones; nlist 1 means no partition."""

    kind: ClassVar[str] = "residual"

    m: int = setting(8, "Codes per vector.", least=1)
    bits: int = 6


@dataclass(frozen=True)
class ScannParams(IvfParams):
    """Partitioned anisotropic quantization; the best `refine` * k are rescored exactly."""

    kind: ClassVar[str] = "scann"
    min_list_size: ClassVar[int] = 100

    refine: int = setting(CodedParams.refine, "Rescore this many times k exactly.", least=1)

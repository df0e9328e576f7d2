"""The plan: what to record and where, as one frozen object.

The capture file holds it printed to one string, from which it can be parsed. Only
what differs from the defaults is printed behind the first three:

    regions=auto;buffer=auto;slots=0
    regions=load+dot;buffer=global;slots=256;metric=clock64;granularity=cta;ctas=0-7+0-:100
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from kperfir.errors import PlanError
from kperfir.records import AccessKind
from kperfir.windows import ALL, Window, Windows

RULES = ("kernel", "load", "store", "dot", "reduce", "wait", "barrier", "loop")
AUTO = ("kernel", "load", "store", "dot", "reduce", "wait")
ACCESSES = get_args(AccessKind)
MAX_SLOTS = 1 << 20
WARP_GROUP = 4

Buffer = Literal["auto", "shared", "global"]
Metric = Literal["clock32", "clock64", "time"]
Strategy = Literal["circular", "flush", "aggregate"]
Version = Literal["none", "iteration"]
_ALWAYS_PRINTED = ("regions", "buffer", "slots")
_WINDOWS = ("launches", "ctas", "sms", "warps", "iterations")
_OF_TIMES = ("metric", "strategy", "version", "iterations")  # knobs that a trace of addresses has not
_GRANULARITIES = {"warp": 1, "warp-group": WARP_GROUP, "cta": 0}


@dataclass(frozen=True)
class Plan:
    """What to record.

    Attributes:
        regions: rules that place records without source edits, from `RULES`, or
            ("auto",): the whole kernel plus the other kinds of `AUTO` in loops,
            everywhere where the kernel has no loop. Scopes written in a kernel
            are recorded whatever this says.
        buffer: memory for the rings; "auto" takes shared memory where it fits
            and occupancy stays as it was, else global memory.
        slots: records a warp keeps, a power of two from 2; 0 leaves it to kperfir.
        metric: what a record holds: the low 32 bits of the SM's clock, all 64, or
            the device's global time in nanoseconds, which goes in steps (32 ns on an H200).
        strategy: "circular" keeps each warp's newest records; "flush" sends each record to
            global memory at once and overwrites none, so that all are kept where slots are
            enough; "aggregate" keeps none, and adds up in the kernel: count, sum, least
            and greatest of each region.
        version: "iteration": each record in a counted loop carries the number of the
            loop's turn, from 0; it then has 16 bytes, and a 64-bit clock.
        granularity: "warp": each warp records; a number n: the first warp of each n;
            "warp-group": of each four; "cta": the first of the CTA alone.
        kernels: patterns of kernel names, as in a shell; "!pattern" leaves kernels out.
            Empty, or without a pattern that takes kernels in: all but those left out.
        launches: launches of each kernel binary, counted from 0.
        ctas, sms, warps: which of them write records, by linear id of the CTA, id of
            the SM, and number of the warp in its CTA.
        iterations: turns of the innermost counted loop in which its records are written;
            those outside of loops always are.
        addresses: kinds of access to global memory, of `ACCESSES`, whose addresses are traced, lane by lane,
            in the place of times: the first `slots` of each warp. A load that Triton pipelines
            is an "async-copy".

    Raises:
        PlanError: a value is unknown or makes no sense.
    """

    regions: tuple[str, ...] = ()
    buffer: Buffer = "auto"
    slots: int = 0
    metric: Metric = "clock32"
    strategy: Strategy = "circular"
    version: Version = "none"
    granularity: str = "warp"
    kernels: tuple[str, ...] = ()
    launches: Windows = field(default=Windows((Window(0, 2), Window(0, None, 100))))
    ctas: Windows = ALL
    sms: Windows = ALL
    warps: Windows = ALL
    iterations: Windows = ALL
    addresses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_regions(self.regions)
        _check_addresses(self)
        for name, kind in (("buffer", Buffer), ("metric", Metric), ("strategy", Strategy), ("version", Version)):
            if getattr(self, name) not in get_args(kind):
                what = f"'{getattr(self, name)}' is no {name}."
                raise PlanError(what, f"Use {', '.join(get_args(kind)[:-1])} or {get_args(kind)[-1]}.")
        if self.slots and (self.slots not in range(2, MAX_SLOTS + 1) or self.slots & (self.slots - 1)):
            what = f"A ring of {self.slots} slots cannot be made."
            raise PlanError(what, f"Use a power of two from 2 to {MAX_SLOTS}, or 0.")
        if self.strategy == "flush" and self.buffer == "shared":
            raise PlanError("Records are flushed to global memory, not to shared.", "Leave buffer out.")
        if self.strategy == "aggregate" and self.version != "none":
            raise PlanError("Sums of regions have no version.", "Leave one of the two out.")
        if self.strategy == "aggregate" and self.slots:
            raise PlanError("Sums of regions have no slots.", "Leave slots out.")
        if self.granularity not in _GRANULARITIES and not _is_count(self.granularity):
            what = f"'{self.granularity}' is no granularity."
            raise PlanError(what, f"Use {', '.join(_GRANULARITIES)}, or a number of warps.")
        for pattern in self.kernels:
            if not pattern.lstrip("!") or set(pattern) & set(";,"):
                raise PlanError(f"'{pattern}' is no pattern for names of kernels.", "Use one like 'add*' or '!add*'.")

    @property
    def warps_per_writer(self) -> int:
        """Of so many warps the first records; 0: the first of the CTA."""
        return _GRANULARITIES.get(self.granularity) or (
            0 if self.granularity in _GRANULARITIES else int(self.granularity)
        )

    def wants(self, name: str) -> bool:
        """Whether kernels of this name are recorded at all."""
        taken = [p for p in self.kernels if not p.startswith("!")]
        left_out = [p[1:] for p in self.kernels if p.startswith("!")]
        return (not taken or _matches(name, taken)) and not _matches(name, left_out)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of the knobs that are not as they are by default."""
        default = Plan()
        return tuple(f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name))

    def __str__(self) -> str:
        default = Plan()
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        shown = {n: v for n, v in values.items() if n in _ALWAYS_PRINTED or v != getattr(default, n)}
        return ";".join(f"{name}={_printed(name, value)}" for name, value in shown.items())

    @staticmethod
    def parse(text: str) -> Plan:
        """Read the printed form back; keys may be left out.

        Raises:
            PlanError: a key or a value is unknown.
        """
        known = [f.name for f in fields(Plan)]
        values: dict[str, Any] = {}
        for part in filter(None, (p.strip() for p in text.split(";"))):
            key, equals, value = part.partition("=")
            if not equals or key not in known:
                raise PlanError(f"'{part}' is no part of a plan.", f"Use key=value with {', '.join(known)}.")
            if key in values:
                raise PlanError(f"The plan says {key} twice.", "Say it once.")
            values[key] = value
        return Plan.make(**({"regions": None} | values))

    @staticmethod
    def make(regions: str | Sequence[str] | None, **knobs: Any) -> Plan:
        """Build a plan from what users write: "auto", "load+dot", "load,dot" or a list; other knobs as text or value.

        Raises:
            PlanError: a value is unknown.
        """
        if isinstance(regions, str) and regions != "none":
            regions = regions.replace(",", "+").split("+")
        chosen = () if regions in (None, "none") else regions
        values = dict(knobs, regions=tuple(rule.strip() for rule in chosen or ()))
        if "slots" in values:
            values["slots"] = _number(values["slots"])
        if "granularity" in values:
            values["granularity"] = str(values["granularity"])
        if "kernels" in values:
            values["kernels"] = _listed(values["kernels"])
        if "addresses" in values:
            values["addresses"] = _kinds(values["addresses"])
        if values.get("addresses") and values["regions"] == ("auto",):
            values["regions"] = ()
        for name in _WINDOWS:
            if name in values and not isinstance(values[name], Windows):
                values[name] = Windows.parse(str(values[name]))
        return Plan(**values)


def sampled(first: int, every: int) -> Windows:
    """The first launches and then each whose number is a multiple of `every`; 0 is none.

    Raises:
        PlanError: a number is negative.
    """
    for name, value in (("first", first), ("every", every)):
        if value < 0:
            raise PlanError(f"{name} is {value}, and cannot be negative.", "Use 0 or more.")
    parts = [Window(0, first - 1)] if first else []
    return Windows(tuple(parts + ([Window(0, None, every)] if every else [])))


def _check_regions(regions: tuple[str, ...]) -> None:
    if "auto" in regions and len(regions) > 1:
        what = f"'{'+'.join(regions)}' joins auto with other rules."
        raise PlanError(what, f"Use auto alone, or rules: {', '.join(RULES)}.")
    for rule in regions:
        if rule != "auto" and rule not in RULES:
            raise PlanError(f"'{rule}' is no rule for regions.", f"Use auto, none, or any of {', '.join(RULES)}.")


def _check_addresses(plan: Plan) -> None:
    if not plan.addresses:
        return
    for kind in plan.addresses:
        if kind not in ACCESSES:
            raise PlanError(
                f"'{kind}' is no kind of memory access.", f"Use all, none, or any of {', '.join(ACCESSES)}."
            )
    if plan.regions:
        what = "A trace of addresses times nothing, so no regions can be recorded beside it."
        raise PlanError(what, "Leave regions out, or record twice.")
    if plan.buffer == "shared":
        raise PlanError("Addresses are written to global memory, not to shared.", "Leave buffer out.")
    default = {f.name: f.default for f in fields(Plan)}
    for name in _OF_TIMES:
        if getattr(plan, name) != default[name]:
            raise PlanError(f"A trace of addresses has no {name}.", f"Leave {name} out.")


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= 64 and text == str(int(text))


def _printed(name: str, value: Any) -> str:
    if name in ("regions", "addresses"):
        return "+".join(value) or "none"
    return ",".join(value) if name == "kernels" else str(value)


def _listed(patterns: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(patterns, str):
        return tuple(patterns)
    return tuple(part.strip() for part in patterns.split(",")) if patterns else ()


def _kinds(kinds: str | Sequence[str]) -> tuple[str, ...]:
    chosen = kinds.replace(",", "+").split("+") if isinstance(kinds, str) else kinds
    named = tuple(dict.fromkeys(kind.strip() for kind in chosen))
    if named == ("all",):
        return ACCESSES
    return () if named in ((), ("",), ("none",)) else named


def _number(slots: Any) -> int:
    try:
        return int(slots)
    except (TypeError, ValueError):
        raise PlanError(f"'{slots}' is no number of slots.", "Use a power of two, or 0.") from None

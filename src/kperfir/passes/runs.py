"""From operations that belong to scopes and rules to the spans that are recorded.

An operation's *path* is the chain of keys it belongs to, outermost first. In one
block, a maximal sequence of anchors with the same key and role is a run; it is
broken by an anchor of another key, by an anchor of the same key with another
role, and by a loop or branch that does not carry the key. Anchors that belong to
nothing are passed over. Runs nest because paths do.

Runs of one scope and role between two loops are pieces of one instance, unless
the scope's operations come round again: a peeled prologue holds several
iterations one behind the other. How often an operation occurs in one iteration is
seen in the loop's body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from kperfir.ir.foreign import ForeignOp
from kperfir.records import Role


class Key(NamedTuple):
    """One link of a path: a scope or a rule, told from other copies of itself.

    Attributes:
        kind: "scope" or "rule".
        name: the scope's number or the rule's name.
        copy: unrolled copy and calls that led to it; for a rule, its source position.
    """

    kind: Literal["scope", "rule"]
    name: str
    copy: str = ""


Path = tuple[Key, ...]


def path_of_tags(tags: tuple[str, ...]) -> Path:
    """`kperf.scope:<n>.<copy>` and `kperf.call:<n>`, outermost first -> keys."""
    keys: list[Key] = []
    way = ""
    for tag in tags:
        kind, _, rest = tag.partition(":")
        way += f"/{rest}"
        if kind == "kperf.scope":
            keys.append(Key("scope", rest.partition(".")[0], way))
    return tuple(keys)


class Member(NamedTuple):
    """An operation that matters for runs.

    Attributes:
        strength: "anchor" opens and extends runs and breaks others; "result"
            extends its own; "structure" is a loop or branch, "barrier" a record that
            is already there, and both break runs.
        identity: the same for the copies of one source operation.
    """

    op: ForeignOp
    path: Path
    role: Role
    strength: Literal["anchor", "result", "structure", "barrier"]
    identity: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Span:
    """Operations `first` to `last` of one block, in region `path` with `role`."""

    first: ForeignOp
    last: ForeignOp
    path: Path
    role: Role
    piece: int
    operations: tuple[str, ...]


@dataclass
class _Instance:
    piece: int = -1
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass
class _Run:
    key: Key
    role: Role
    members: list[Member]


Repeats = Callable[[Path, tuple[str, str]], int]


def spans_of(members: list[Member], repeats: Repeats, opened: frozenset[Key] = frozenset()) -> list[Span]:
    """All spans of one block, an outer one before those inside it.

    Args:
        members: the block's operations that matter, in order.
        repeats: how often an operation occurs in one instance of a path; 0 if unknown.
        opened: keys of the regions that are open around the block.
    """
    block = _Block([_trim(m, opened) for m in members], repeats)
    block.level(block.members, 0)
    return block.spans


def _trim(member: Member, opened: frozenset[Key]) -> Member:
    path = tuple(k for k in member.path if k not in opened)
    return member if path == member.path else member._replace(path=path)


class _Block:
    def __init__(self, members: list[Member], repeats: Repeats) -> None:
        self.members = members
        self.repeats = repeats
        self.spans: list[Span] = []
        self.instances: dict[tuple[Path, Role, int], _Instance] = {}
        self.segments: dict[ForeignOp, int] = {}
        segment = 0
        for member in members:
            self.segments[member.op] = segment
            segment += member.strength == "structure"

    def level(self, members: list[Member], depth: int) -> None:
        """Group by the key at `depth` of the paths, then go into each group."""
        whole = {m.path[depth] for m in members if m.strength == "structure" and len(m.path) > depth}
        run: _Run | None = None
        for member in members:
            key = member.path[depth] if len(member.path) > depth else None
            role: Role = "sync" if key in whole else member.role
            if member.strength == "result":
                if run and key == run.key:
                    run.members.append(member)
                continue
            if run and (key, role) == (run.key, run.role) and not self.comes_round(run, member, depth):
                run.members.append(member)
                continue
            if key is None and depth == 0 and member.strength == "anchor":
                continue
            self.close(run, depth)
            run = _Run(key, role, [member]) if key is not None else None
        self.close(run, depth)

    def comes_round(self, run: _Run, member: Member, depth: int) -> bool:
        """Whether the member is an operation of the run in a later iteration."""
        limit = self.repeats(member.path[: depth + 1], member.identity)
        return limit > 0 and sum(m.identity == member.identity for m in run.members) >= limit

    def close(self, run: _Run | None, depth: int) -> None:
        """Write the run down, and the runs inside it."""
        if run is None:
            return
        first, last = run.members[0], run.members[-1]
        path = first.path[: depth + 1]
        names = tuple(dict.fromkeys(m.op.opname for m in run.members))
        self.spans.append(Span(first.op, last.op, path, run.role, self.piece(path, run), names))
        self.level(run.members, depth + 1)

    def piece(self, path: Path, run: _Run) -> int:
        """Number of this run within its instance."""
        if run.key.kind == "rule":
            return 0
        segment = self.segments[run.members[0].op]
        instance = self.instances.setdefault((path, run.role, segment), _Instance())
        fresh = Counter(m.identity for m in run.members if m.strength == "anchor")
        if any(0 < self.repeats(path, i) < instance.seen[i] + n for i, n in fresh.items()):
            instance.piece, instance.seen = -1, Counter()
        instance.seen += fresh
        instance.piece += 1
        return instance.piece

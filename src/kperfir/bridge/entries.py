"""Kernels of Triton's cache: the IR, options and binary that it keeps of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kperfir.errors import BridgeError
from kperfir.ir.attributes import get_integer

_METADATA = "kperf"  # marks a kernel that was compiled with records


@dataclass(frozen=True)
class Entry:
    """One kernel.

    Attributes:
        ir: TTIR, or TTGIR where it began as that. target: such as "cuda:90".
        metadata: what Triton wrote of it, with the warps that were asked for.
        binary: its cubin, or None.
    """

    name: str
    ir: Path
    target: str
    metadata: dict[str, Any]
    binary: Path | None


def entries_in(folder: Path) -> list[Entry]:
    """The plain kernels in a cache, or in one entry of it.

    Raises:
        BridgeError: there is none.
    """
    found = [entry for path in sorted(folder.rglob("*.json")) if (entry := entry_of(_beside(path)))]
    if not found:
        raise BridgeError(
            f"{folder} holds no kernel of Triton's cache.",
            "Give an entry of the cache, with its .json and .ttir or .ttgir, or the whole cache.",
        )
    return found


def entry_of(files: Mapping[str, Path]) -> Entry | None:
    """A kernel by its files' suffixes; None for files that are no plain kernel with IR.

    Raises:
        BridgeError: its metadata cannot be read.
    """
    source = files.get("ttir") or files.get("ttgir")
    if "json" not in files or source is None:
        return None
    try:
        metadata = json.loads(files["json"].read_text())
        target = metadata["target"]
        named = f"{target['backend']}:{target['arch']}"
        if _METADATA in metadata:
            return None
        scheduled = files["ttgir"].read_text() if "ttgir" in files else ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{files['json']} is no metadata of Triton's ({type(error).__name__}: {error})."
        raise BridgeError(what, "Give an entry of Triton's cache.") from None
    if warps := get_integer(scheduled, "ttg.num-warps"):  # specialisation overwrites the number in the metadata
        metadata["num_warps"] = warps
    return Entry(metadata.get("name", source.stem), source, named, metadata, files.get("cubin"))


@contextmanager
def compiled_kernels() -> Iterator[list[Entry]]:
    """The list fills with the kernels that Triton compiles, or finds in its cache, while inside."""
    from triton import knobs

    found: dict[Path, Entry] = {}
    listed: list[Entry] = []
    before = knobs.compilation.listener

    def listen(metadata_group: dict[str, str], **rest: Any) -> None:
        if before is not None:
            before(metadata_group=metadata_group, **rest)
        files = {Path(name).suffix[1:]: Path(path) for name, path in metadata_group.items()}
        if (entry := entry_of(files)) and entry.ir not in found:
            found[entry.ir] = entry
            listed.append(entry)

    knobs.compilation.listener = listen
    try:
        yield listed
    finally:
        if knobs.compilation.listener is listen:
            knobs.compilation.listener = before


def _beside(metadata: Path) -> dict[str, Path]:
    """Files of the kernel that this metadata is of."""
    if metadata.name.startswith("__grp__"):
        return {}
    return {
        suffix: p
        for suffix in ("json", "ttir", "ttgir", "cubin")
        if (p := metadata.with_suffix(f".{suffix}")).is_file()
    }

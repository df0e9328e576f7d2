"""Captures made by hand: scratch blocks packed word by word, as a kernel would write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from kperfir.capture.schema import End, Kernel, Launch, Message, Problem, Session, Tally
from kperfir.capture.writer import CaptureWriter
from kperfir.records import Layout, Region, Site, Table

Words = Sequence[tuple[int, int]]  # (site, clock) in the order of writing

LAYOUT = Layout(warps=2, slots=8, place="global")
TABLE = Table(
    (
        Region(0, "kernel", origin="kernel", file="k.py", line=1),
        Region(1, "load", origin="scope", parent=0, file="k.py", line=2),
        Region(2, "here", origin="mark", parent=1, file="k.py", line=3),
    ),
    (Site(0, 0, "start"), Site(1, 0, "end"), Site(2, 1, "start"), Site(3, 1, "end"), Site(4, 2, "mark")),
)
KERNEL_START, KERNEL_END, LOAD_START, LOAD_END, HERE = range(5)


def block(
    layout: Layout,
    cta: int = 0,
    sm: int = 0,
    clocks: tuple[int, int] = (1000, 2000),
    times_ns: tuple[int, int] = (5000, 5500),
    warps: Sequence[Words] = (),
    state: int = 2,
    hanging: Sequence[int] = (),
) -> bytes:
    """One CTA's block; the ring of each warp is filled modulo its slots, or up to them. Hanging warps have no count."""
    data = bytearray(layout.cta_bytes)
    struct.pack_into("<IIIIQQQQ", data, 0, 0x4B504631, cta, sm, state, clocks[0], times_ns[0], clocks[1], times_ns[1])
    for warp, words in enumerate(warps):
        struct.pack_into("<I", data, 64 + 4 * warp, 0 if warp in hanging else len(words))
        for n, (site, clock) in enumerate(words if layout.wraps else words[: layout.slots]):
            at = layout.ring_offset_bytes(warp) + (n % layout.slots) * layout.record_bytes
            if layout.record_bytes == 8:
                struct.pack_into("<II", data, at, site, clock % (1 << 32))
            else:
                struct.pack_into("<QQ", data, at, site, clock)  # the version is above the site
    return bytes(data)


def span(start: int, end: int, load: tuple[int, int] | None = None) -> list[tuple[int, int]]:
    """A kernel region, with a load in it or not."""
    inner = [(LOAD_START, load[0]), (LOAD_END, load[1])] if load else []
    return [(KERNEL_START, start), *inner, (KERNEL_END, end)]


def launch(number: int, ctas: int, kernel: int = 0, **more: int | str) -> Launch:
    """The message of a launch of `ctas` programs in x."""
    return Launch(id=number, kernel=kernel, number=number, grid=(ctas, 1, 1), ctas=ctas, **more)


def write(
    path: Path,
    launches: Sequence[tuple[Launch, bytes]],
    kernel: Kernel | None = None,
    source: str = "gpu",
    last: Sequence[Message] = (End(0),),
    problems: Sequence[Problem] = (),
    tally: dict[str, dict[str, int]] | None = None,
) -> Path:
    """A whole capture of one kernel."""
    kernel = kernel or Kernel(0, "add", "hash", "cuda:90", LAYOUT, TABLE, place_reason="global memory: asked for")
    with CaptureWriter(path) as writer:
        writer.write(Session(source=source, plan="regions=auto", device_name="a GPU"))  # type: ignore[arg-type]
        writer.write(kernel)
        for message, payload in launches:
            writer.write(message, payload)
        for problem in problems:
            writer.write(problem)
        if tally is not None:
            writer.write(Tally(tally))
        for message in last:
            writer.write(message)
    return path

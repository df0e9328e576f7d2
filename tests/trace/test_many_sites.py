"""Ids of sites and regions beyond 16 bits, in records and in IR."""

from __future__ import annotations

from pathlib import Path

import handmade
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from kperfir.capture.schema import Kernel
from kperfir.ir.kperf import KPerf
from kperfir.opened import load
from kperfir.records import Layout, Region, Site, Table

COUNT = 40_000


@pytest.mark.parametrize("record_bytes", [8, 16])
def test_records_of_eighty_thousand_sites(record_bytes: int, tmp_path: Path) -> None:
    regions = tuple(Region(i, f"r{i}", file="k.py", line=i) for i in range(COUNT))
    sites = tuple(Site(i, i // 2, "end" if i % 2 else "start") for i in range(2 * COUNT))
    layout = Layout(1, 8, "global", record_bytes)
    kernel = Kernel(0, "many", "h", "cuda:90", layout, Table(regions, sites))
    last = 2 * COUNT - 2
    words = [(65_534, 1100), (65_535, 1150), (65_536, 1200), (65_537, 1250), (last, 1300), (last + 1, 1400)]
    data = handmade.block(layout, warps=[words])
    trace = load(handmade.write(tmp_path / "a", [(handmade.launch(0, 1), data)], kernel))
    rows = [(row["region"], row["duration_cycles"]) for row in trace.events().to_pylist()]
    assert rows == [("r32767", 50), ("r32768", 50), (f"r{COUNT - 1}", 100)]
    assert trace.problems()[0].code == "unknown-frequency" or trace.problems() == ()


def test_ir_of_a_site_beyond_16_bits() -> None:
    context = Context()
    for dialect in (Builtin, KPerf):
        context.load_dialect(dialect)
    text = 'builtin.module {\n  kperf.record start "x" site 80001 : i32\n}'
    module = Parser(context, text).parse_module()
    module.verify()
    assert str(module) == text

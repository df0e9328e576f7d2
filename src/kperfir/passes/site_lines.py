"""Gives every record a source line of its own, so that line info in the binary tells its clock read.

The line of site n is 1000000 + n of the file `kperfir`; the one before is that of entry and returns.
A file belongs to a scope of debug information, so each location is one within the kernel's own
subprogram, as Triton writes those of other files:

    #kperf_file = #llvm.di_file<"kperfir" in "">
    #kperf_block = #llvm.di_lexical_block_file<scope = #di_subprogram, file = #kperf_file, discriminator = 0>
    #lockperf_site0 = loc(fused<#kperf_block>["kperfir":1000000:1])

Only what kperfir adds is given one: the lines of all other instructions stay what they were.
"""

from __future__ import annotations

import re

from kperfir.fidelity import FIRST_SITE_LINE, FRAME_LINE, SITE_FILE
from kperfir.ir.chunks import ChunkedKernel, location_of
from kperfir.ir.kperf import Record

_ALIAS = re.compile(r"loc\((#loc\w*)\)")
_SUBPROGRAM = re.compile(r"fused<(#di_subprogram\w*)>")


def give_lines(kernel: ChunkedKernel) -> bool:
    """Set the locations of records; whether the kernel has line info at all.

    Args:
        kernel: its `carriers`, `frame_location` and `after` are changed in place.
    """
    scope = _subprogram(kernel)
    if not scope:
        return False
    aliases = [
        f'#kperf_file = #llvm.di_file<"{SITE_FILE}" in "">',
        f"#kperf_block = #llvm.di_lexical_block_file<scope = {scope}, file = #kperf_file, discriminator = 0>",
    ]
    for op, (value, _, version) in list(kernel.carriers.items()):
        assert isinstance(op, Record)
        site = op.site.value.data
        alias = f"#lockperf_site{site}"
        kernel.carriers[op] = (value, f"loc({alias})", version)
        aliases.append(f"{alias} = {_location(FIRST_SITE_LINE + site)}")
    aliases.append(f"#lockperf_frame = {_location(FRAME_LINE)}")
    kernel.frame_location = "loc(#lockperf_frame)"
    end = len(kernel.after) - (kernel.after[-1] == "")
    kernel.after[end:end] = dict.fromkeys(aliases)
    return True


def _location(line: int) -> str:
    return f'loc(fused<#kperf_block>["{SITE_FILE}":{line}:1])'


def _subprogram(kernel: ChunkedKernel) -> str:
    """The alias of the kernel's debug scope: its closing line is `}) ... loc(#locN)`, and #locN names it."""
    found = _ALIAS.fullmatch(location_of(kernel.after[0]))
    if found is None:
        return ""
    start = f"{found.group(1)} = "
    text = next((line for line in (*kernel.after, *kernel.before) if line.startswith(start)), "")
    scope = _SUBPROGRAM.search(text)
    return scope.group(1) if scope else ""

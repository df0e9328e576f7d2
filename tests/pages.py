"""Pages of the docs whose code the tests run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType


def module_of(page: Path, folder: Path) -> ModuleType:
    """All of a page's code as one module, written into `folder`, because Triton reads the source of kernels."""
    path = folder / f"{page.stem.replace('-', '_')}_page.py"
    path.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

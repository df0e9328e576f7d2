"""What kernels call. `import kperfir.language as kl`, then in a kernel

    with kl.scope("load"):
        a = tl.load(pointers)

Without a recording these words leave nothing behind: the compiled kernel is the
same as without them.
"""

from kperfir.language.words import active, begin, emitting, end, enter, exit, mark, scope, value

__all__ = ["active", "begin", "emitting", "end", "enter", "exit", "mark", "scope", "value"]

"""The program as data: Triton's modules as xDSL operations, and kperfir's own dialects."""

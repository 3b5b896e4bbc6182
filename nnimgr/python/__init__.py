"""Python API of nnimgr: define, start and follow experiments, and read their results.

The names that users import are exported by ``nnimgr`` itself, and loaded at their first use.
"""

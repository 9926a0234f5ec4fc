"""Everything that leans on private interfaces of Numba, llvmlite, NumPy and Python.

What is relied on, and what happens without it: docs/private.md.
"""

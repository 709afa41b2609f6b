"""Strategy kinds, one file each. A kind is found by its name through the entry point group
`tfdist.strategies`.

To add one, copy `mirrored.py`, and register its `KIND` under that group in your own package.
"""

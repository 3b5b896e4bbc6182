"""Modules of NNI's command line, for programs that import them.

The command ``nnictl`` itself is in ``nnimgr.cli``.
"""

"""Modules of NNI's command line, for programs that import them. ``nnictl`` itself is ``nnimgr.cli``."""

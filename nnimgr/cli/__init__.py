"""The command ``nnictl``: a face of the REST API, with NNI's verbs and wording.

Every verb is a function ``(args, terminal) -> exit code`` in a module of its own, imported only when it is
asked for, so that ``nnictl --help`` costs next to nothing.
"""

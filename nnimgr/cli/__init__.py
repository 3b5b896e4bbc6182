"""The command ``nnictl``: a client of the REST API, with NNI's verbs and wording.

Every verb is a function ``(args, terminal) -> exit code`` in a module of its own, which is imported only for
that verb, so that ``nnictl --help`` is fast.
"""

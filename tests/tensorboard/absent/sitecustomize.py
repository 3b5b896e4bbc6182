"""Hides TensorBoard from every Python that has this folder on its path, even if it is installed."""

import sys

sys.modules["tensorboard"] = None  # type: ignore[assignment]

"""Copies of checkpoints in a storage that users have named by a URL (``checkpoints.storage``)."""

"""A fake TensorBoard for tests: the part of its interface that nnimgr uses, without a dependency."""

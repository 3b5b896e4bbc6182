"""End to end: the installed product, real processes."""

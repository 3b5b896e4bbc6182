"""Experiments that were stored by earlier versions, and that this version has to open."""

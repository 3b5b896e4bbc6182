"""Tests of TensorBoards. The folder ``fake`` holds a TensorBoard without dependencies."""

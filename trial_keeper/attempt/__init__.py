"""The files and processes of an attempt, as its keeper and its shim share them."""

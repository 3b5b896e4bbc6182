"""Files and processes of an attempt that its keeper and its shim share."""

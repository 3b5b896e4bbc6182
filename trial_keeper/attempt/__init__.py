"""Files and processes of an attempt, for the code of the keeper and for that of the attempt's shim."""

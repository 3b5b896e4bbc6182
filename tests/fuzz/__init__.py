"""A fuzzer of the REST API: requests made from its own description, with real ids and hostile values."""

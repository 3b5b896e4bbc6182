"""Actions of a keeper on its host, which carry out the decisions of the keeper's core."""

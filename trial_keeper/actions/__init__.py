"""What a keeper does on its host to carry out the decisions of its core."""

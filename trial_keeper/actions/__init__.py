"""What a keeper does on its host: these modules carry out the decisions of the keeper's core."""

"""The same things done by other products, each in a virtual environment of its own."""

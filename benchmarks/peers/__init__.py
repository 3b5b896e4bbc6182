"""The same measurements with other products, each in a virtual environment of its own."""

"""Run the same measurements with other products, each in its own virtual environment."""

"""Training services on platforms that run shell scripts as named jobs, such as batch systems and clouds."""

"""Training services on platforms that run shell scripts as jobs with names, such as batch systems and
clouds.
"""

"""Analysis of all trials of an experiment: a separate process answers the server's questions from numpy
arrays.
"""

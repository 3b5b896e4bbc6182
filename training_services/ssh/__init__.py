"""SSH connections to machines. All experiments share one connection per machine, which runs an attendant
there.
"""

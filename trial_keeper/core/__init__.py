"""The keeper's decisions, without any I/O: a state machine that takes inputs and returns orders
("effects").
"""

"""What the agent reads from the machine: processes, control groups, GPUs, changes of files, and capacity."""

"""What the agent asks of the machine: its processes, control groups, GPUs, changes of files, and capacity."""

"""TensorBoard over the files of trials: its processes, and copies of files from other machines."""

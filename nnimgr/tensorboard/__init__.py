"""TensorBoards that show files of trials: their processes, and copies of files from other machines."""

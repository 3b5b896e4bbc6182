"""Sinks: processes that write what happens in an experiment to files, TensorBoard, MLflow or W&B."""

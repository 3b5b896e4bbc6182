"""Import of trials that other programs have run: CSV files, NNI, Optuna, Ray Tune, and Weights & Biases."""

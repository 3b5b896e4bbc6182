"""A run in a real JupyterLab, in Debian's Chromium."""

"""Built-in assessors. Each file has one public class."""

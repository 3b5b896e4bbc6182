"""The built-in assessors. Each file has one public class."""

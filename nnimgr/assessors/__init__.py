"""The built-in assessors: one file and one public class each."""

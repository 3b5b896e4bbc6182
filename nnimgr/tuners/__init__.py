"""The built-in tuners. Each file has one public class."""

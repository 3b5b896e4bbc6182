"""Built-in tuners. Each file has one public class."""

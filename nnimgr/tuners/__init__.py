"""The built-in tuners: one file and one public class each."""

"""Built-in schedulers: one file and one public class for each."""

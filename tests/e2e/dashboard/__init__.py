"""The dashboard in Debian's Chromium, before a real server with real experiments."""

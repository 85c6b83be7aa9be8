"""The Codex command line. Not built: the door is ``factory.FACTORY``, which refuses before any effect."""

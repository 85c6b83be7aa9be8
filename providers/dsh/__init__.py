"""The headless DeepSeek Harness. Not built: the door is ``factory.FACTORY``, which refuses before any effect."""

"""The Copilot SDK. Not built: the door is ``factory.FACTORY``, which refuses before any effect."""

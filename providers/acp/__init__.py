"""Agents behind the Agent Client Protocol. Not built: the door is ``factory.FACTORY``, which refuses before any effect."""

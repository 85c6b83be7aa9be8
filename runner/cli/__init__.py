"""What a person sees: commands, a live view, results, and what to do next.

Owned invariants
- It reaches everything through the factory, admission and the contract; it decides nothing about a Delivery.
- Results go to stdout (with ``--json`` exactly one document), progress and messages to stderr.
- Nothing that a user can type yields a traceback; every failure has a code, a message, and what to do.
- ``runner --help`` imports nothing heavy: command files import what they need inside their functions.
- Text from agents, repositories and stored files is shown with its control characters escaped.
"""

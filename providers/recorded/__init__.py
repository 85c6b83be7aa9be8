"""The ``recorded`` provider: answers from recordings (``runner.contract.recording``), and only from them.

Door: ``factory.RecordedFactory``. A binding names a directory of recordings as its model: ``recorded:DIR``.

Owned invariants
- Never opens a socket, starts a process, writes a file or reads a credential.
- An answer is given only for the very request that was recorded for this step and turn; anything else is a loud miss that
  names the nearest recording and shows the difference.
- Recordings are hostile: everything read is bounded and checked before it is used.
"""

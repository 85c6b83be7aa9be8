"""The ``openai`` provider: any OpenAI-compatible endpoint over Chat Completions, through langchain-openai.

Door: ``factory.OpenAiFactory``.

Owned invariants
- One turn is at most one HTTP request. Attempts, tools and the loop around them belong to the caller.
- A request is announced before it leaves, and a turn that fails leaves the session as it was.
- Nothing ambient: the URL, the key and the headers are those of the config, whatever the environment says; a redirect is a
  failure; nothing is traced.
- The secret is leased for one call and stands in no event.
- A stream that broke off, ran into a limit or was refused is a failure, never a short answer.
"""

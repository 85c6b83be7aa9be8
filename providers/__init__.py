"""Providers: how one provider speaks, each behind the adapter protocol of ``runner.contract.provider``.

Door: ``catalogue.factories``, every provider this Runner knows.

Owned invariants
- A factory is pure and cheap until ``open_realm``: importing one imports no SDK.
- ``chat`` alone decides what a model sees, so that what one provider sent, another can compare.
- What is not built is a known key that refuses, before any effect.
"""

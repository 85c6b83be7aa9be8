"""Settings that every room's tests share."""

from hypothesis import settings

# No deadline: a slow machine is not a wrong program. A failing example is printed, so that it can be pinned as a test.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")

"""What holds for all tests of the package."""

from hypothesis import settings

# A property tells what is right, not how fast: a busy machine must not fail it.
settings.register_profile("behaviour", deadline=None)
settings.load_profile("behaviour")

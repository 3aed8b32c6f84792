"""What holds for all tests of the package."""

import os

from hypothesis import HealthCheck, settings

# A property tells what is right, not how fast: a busy machine must not fail it. CI tries the same examples each time,
# so that it judges the change and not the dice; everybody else's runs look for new ones.
settings.register_profile(
    "behaviour", deadline=None, derandomize=bool(os.environ.get("CI")), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("behaviour")

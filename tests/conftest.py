"""What tests in several rooms share."""

import hypothesis
import pytest

from analysis.crew import Crew
from analysis.spark import start_session

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("castbed", deadline=None)
hypothesis.settings.load_profile("castbed")


@pytest.fixture(scope="session")
def spark():
    session = start_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def crew(spark):
    return Crew(session=spark)

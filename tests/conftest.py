"""What tests in several rooms share."""

import pytest

from analysis.spark import start_session


@pytest.fixture(scope="session")
def spark():
    session = start_session("local[2]")
    yield session
    session.stop()

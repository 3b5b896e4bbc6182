"""Tests that every training service must pass: inherit ``TrainingServiceContract``.

::

    class TestMine(TrainingServiceContract):
        @pytest.fixture
        async def platform(self, tmp_path):
            yield MyPlatform(tmp_path)

The tests are coroutines (pytest-asyncio in auto mode). ``CoreDouble`` replaces the core: it commits the
events that it gets, and can be cut off before it commits.
"""

from training_services.testing.contract import TrainingServiceContract
from training_services.testing.core_double import CoreDouble
from training_services.testing.platform import Behaviour, ContractPlatform

__all__ = ["Behaviour", "ContractPlatform", "CoreDouble", "TrainingServiceContract"]

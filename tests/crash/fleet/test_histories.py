"""Whatever is killed, paused, cut off or restarted while many work on one store, its history breaks no rule.

SANDBUR_TEST_HISTORY_S is how many seconds each store is harmed, SANDBUR_TEST_HISTORY_SEED the seed.
"""

import os
from pathlib import Path

import pytest
from support.history.chaos import History
from support.history.databases import open_database
from support.network.tls_servers import only_with
from support.stores.databases import ON_MYSQL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

FAULTS = {"sqlite": 6, "mysql": 7, "postgresql": 14}
SECONDS = float(os.environ.get("SANDBUR_TEST_HISTORY_S", "0"))
SEED = int(os.environ.get("SANDBUR_TEST_HISTORY_SEED", "1"))


@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("mysql", marks=ON_MYSQL),
        pytest.param("postgresql", marks=only_with("postgresql")),
    ],
)
def test_a_history_of_many_processes_under_faults_breaks_no_rule(tmp_path: Path, kind: str) -> None:
    with open_database(kind, tmp_path) as database:
        history = History(database, tmp_path, SEED)
        assert history.run(FAULTS[kind], SECONDS) == [], history.describe()
        print(history.describe())

"""No alert is without a test that types its cure on a dev cluster."""

from raftka.monitoring.alerts import ALERTS
from tests.process.alert_cures import CURED

# Importing them fills the table.
from tests.process.cli import test_alert_cures, test_alert_cures_by_load

MODULES = (test_alert_cures, test_alert_cures_by_load)


def test_the_cure_of_every_alert_is_typed_by_a_test() -> None:
    assert sorted(CURED) == sorted(alert.name for alert in ALERTS)
    assert all(any(hasattr(module, test) for module in MODULES) for test in CURED.values())


def test_every_alert_has_a_command() -> None:
    assert [alert.name for alert in ALERTS if not alert.commands] == []

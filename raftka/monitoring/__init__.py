"""What a broker measures, what an operator is alerted to, and how both are drawn (RFC 0017).

* `catalogue`       the one table of metric families: the names that a broker may expose.
* `alerts`          the table of alerts: expression, cause and cure of each; `alert_rules` writes them for Prometheus.
* `dashboard`       the Grafana dashboard.
* `reference_pages` docs/metrics.md and docs/operations/alerts.md.

Nothing here imports a package of the broker: the command line uses all of it.
"""

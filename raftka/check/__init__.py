"""Judges histories of any Kafka-compatible cluster, and of registers: what was promised, and was it kept.

A history is what clients have written down, one JSON object per line (docs/history-format.md). Nothing here talks to a
broker. numpy computes; it belongs to the extra `check`.

* `errors`            why a history cannot be judged.
* `operations`        the lines of a history; `history_file` reads them, `places` names them.
* `levels`            the consistency levels.
* `verdict`           Verdict, Finding, Anomaly; `explain` what each anomaly means, `render` a verdict as text,
                      `printable` what may reach a terminal.

`log` judges a partition as a log. Beside it lie what its parts share: `value_numbers`, `sessions` (which polls follow
each other), `slots`, `sorting` and `running`. `transactions` judges what such a history says of transactions.

The register, with and without compare-and-set:

* `register_history`  RegisterHistory: what each operation does to which key.
* `register_model`    just-in-time linearization: `check_register`.
* `register_pieces`   a history taken apart by lines and by keys.

`lists` judges transactions that append to keys and read them.
"""

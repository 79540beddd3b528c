"""Judges histories of any Kafka-compatible cluster, and of registers: what was promised, and was it kept.

A history is what clients have written down, one JSON object per line (docs/history-format.md). Nothing here talks to a
broker. numpy computes; it belongs to the extra `check`.

* `errors`            why a history cannot be judged.
* `operations`        the lines of a history; `history_file` reads them, `places` names them.
* `levels`            the consistency levels.
* `verdict`           Verdict, Finding, Anomaly; `explain` what each anomaly means, `render` a verdict as text,
                      `printable` what may reach a terminal.

The partition as a log:

* `log_columns`       LogHistory: a history as numpy columns; `log_lines` the way back.
* `log_builder`       makes one: LogHistoryBuilder, read_log_history; `value_numbers` numbers the values.
* `log_contradictions` what no history may say.
* `log_ends`          where each log ends by its final reads; `log_wholeness` whether these are enough to judge by.
* `log_index`         what the checks share; `sessions` which polls follow each other; `slots`, `sorting`, `running`.
* `log_values`        what was read: phantoms, aborted and future reads, moved and changed values.
* `log_losses`        what is missing; `log_deletions` what should be.
* `log_sessions`      what one process saw, poll after poll.
* `log_realtime`      order of time against order of offsets.
* `log_epochs`        order of epochs.
* `log_overclaims`    answers beyond what the log could have held.
* `log_measures`      figures.
* `log_model`         all of them: `check_log`.
* `log_pieces`        a history taken apart by lines and by partitions.
* `log_blocks`        a partition in blocks of offsets; `log_spine` what holds them together.

The register, with and without compare-and-set:

* `register_history`  RegisterHistory: what each operation does to which key.
* `register_model`    just-in-time linearization: `check_register`.
* `register_pieces`   a history taken apart by lines and by keys.
"""

"""Bytes of strangers and of broken disks, against everything that reads bytes: a value or a named error.

* `targets`       what is fed: plain functions of bytes, with the errors each may raise.
* `link_targets`  those of them that read what nodes send each other; `pieces` cuts a stream as it may come.
* `checksums`     puts right checksums into damaged bytes, so that what lies behind them is reached.
* `samples`       valid inputs of every target: where damage begins; `link_samples` those of `link_targets`.
* `damage`        edits of bytes: flips, cuts, splices, lengths at their extremes.
* `corpus_files`  inputs worth keeping, in `corpus/TARGET/`, replayed by `make test`.
* `loops`         many executions of one target, guided by coverage (atheris) or not.
* `guided`        the process in which atheris runs; `searched` names the packages that it watches.
* `findings`      what was found, with the test that keeps it repaired.
* `runs`          what the last run of each target came to, and the page that says so.
"""

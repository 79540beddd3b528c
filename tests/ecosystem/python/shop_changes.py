"""Changes the rows of a table of PostgreSQL in transactions, or prints the rows.

    python shop_changes.py {create|write|read} HOST PORT USER DATABASE

`write` goes on until its standard input ends, and prints each transaction once it is committed. A few rows are changed
often, and deleted and inserted again. Each transaction also inserts a row that stays, or is deleted once much later.
"""

import json
import random
import sys
import threading
import time
from itertools import count
from typing import Any

import pg8000.native

_OFTEN_CHANGED = 40
_FIRST_ROWS = 5
_CHANGES = 4
# Of the rows that are inserted once.
_FIRST_ID = 1_000
# So many transactions later a segment has ended, so that the insertion and the deletion are in two.
_DELETED_AFTER = 200
_DELETED_EACH = 3
_PAUSE_SECONDS = 0.02


def _say(**report: Any) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


def _create(database: pg8000.native.Connection) -> None:
    database.run("CREATE TABLE orders (id integer PRIMARY KEY, amount integer NOT NULL)")
    for number in range(_FIRST_ROWS):
        database.run("INSERT INTO orders VALUES (:id, 0)", id=number)
    _say(rows=_FIRST_ROWS)


def _write(database: pg8000.native.Connection) -> None:
    is_over = threading.Event()

    def wait_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_end, daemon=True).start()
    chance = random.Random(1)
    for number in count(1):
        if is_over.is_set():
            return
        _change(database, number, chance)
        # The rate of the load, and no wait for anything.
        time.sleep(_PAUSE_SECONDS)


def _change(database: pg8000.native.Connection, number: int, chance: random.Random) -> None:
    database.run("BEGIN")
    changes = _CHANGES + 1
    for each in chance.sample(range(_OFTEN_CHANGED), _CHANGES):
        if not database.run("SELECT 1 FROM orders WHERE id = :id", id=each):
            database.run("INSERT INTO orders VALUES (:id, :amount)", id=each, amount=number)
        elif chance.random() < 1 / 3:
            database.run("DELETE FROM orders WHERE id = :id", id=each)
        else:
            database.run("UPDATE orders SET amount = :amount WHERE id = :id", id=each, amount=number)
    database.run("INSERT INTO orders VALUES (:id, :amount)", id=_FIRST_ID + number, amount=number)
    if number > _DELETED_AFTER and number % _DELETED_EACH == 0:
        database.run("DELETE FROM orders WHERE id = :id", id=_FIRST_ID + number - _DELETED_AFTER)
        changes += 1
    ((transaction,),) = database.run("SELECT txid_current()")
    database.run("COMMIT")
    _say(transaction=transaction, changes=changes)


def _read(database: pg8000.native.Connection) -> None:
    for number, amount in database.run("SELECT id, amount FROM orders"):
        _say(id=number, amount=amount)


if __name__ == "__main__":
    _task, _host, _port, _user, _name = sys.argv[1:]
    _connection = pg8000.native.Connection(_user, host=_host, port=int(_port), database=_name)
    {"create": _create, "write": _write, "read": _read}[_task](_connection)
    _connection.close()

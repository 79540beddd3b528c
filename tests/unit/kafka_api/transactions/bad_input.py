"""What a client of transactions may get wrong: rows of requests, by the state of the producer that asks.

Each row has a name, what sends its request, and the code that answers it. None of them changes anything.
"""

from transaction_calls import ADDING_PRODUCE, PLAIN_PRODUCE, QUICK, Producer, found

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from tests.unit.kafka_api.groups.group_calls import Groups
from tests.unit.kafka_api.wire_client import produce_request
from tests.unit.model.record_batches import CONTROL, TRANSACTIONAL

# The longest string of the protocol.
LONG_ID = "x" * 32_767
MAX = QUICK.max_timeout_ms
# Codes that the issue names: 42, 47, 48, 49, 90.
WRONG, OLD_EPOCH = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_PRODUCER_EPOCH
NOT_NOW, FOREIGN = ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING
FENCED = ErrorCode.PRODUCER_FENCED


def code_of(answer):
    return ErrorCode(answer.error_code)


async def init(producer, **fields):
    return code_of(await producer.init_once(**fields))


async def end(producer, **fields):
    return code_of(await producer.end_once(**fields))


async def produce(producer, *, version=ADDING_PRODUCE, name="sink", acks=-1, partition=0, others=(), **fields):
    """Return the code of Produce with one batch in a partition, and the batches `others` behind it."""
    batches = (producer.batch(partition=partition, **fields), *others)
    request = produce_request("t", *batches, partition=partition, transactional_id=name, acks=acks)
    results = (await producer.client.call(ApiKey.PRODUCE, version, request)).responses[0].partition_responses
    (code,) = {each.error_code for each in results}
    return ErrorCode(code)


async def commit_offsets(producer, *, version=5, name="sink", producer_id=None, epoch=None):
    """Return the code of TxnOffsetCommit for group "g"."""
    return await Groups(producer.client).txn_commit(
        5,
        version=version,
        name=name,
        producer=producer.producer_id if producer_id is None else producer_id,
        epoch=producer.epoch if epoch is None else epoch,
    )


async def describe_nameless(producer):
    """FindCoordinator names whoever keeps the empty name, as in Kafka; that one refuses it."""
    return code_of(await (await found(Producer(producer.client, name=""))).describe())


# What asks in the name of an id, a producer and an epoch; and from which version on PRODUCER_FENCED is known.
ASKERS = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (lambda p, **who: p.add(0, **who), range(6), 2),
    ApiKey.ADD_OFFSETS_TO_TXN: (lambda p, **who: p.add_offsets(**who), range(5), 2),
    ApiKey.END_TXN: (end, range(6), 2),
    ApiKey.TXN_OFFSET_COMMIT: (commit_offsets, range(6), 99),
    ApiKey.PRODUCE: (
        lambda p, epoch=None, **who: produce(p, **who, **({} if epoch is None else {"producer_epoch": epoch})),
        range(9, 13),
        99,
    ),
}


def of_each_asker():
    """A foreign producer, another epoch, and ids of 0 and 32,767 bytes, at each key and version."""
    rows = {}
    for key, (ask, versions, knows_fenced) in ASKERS.items():
        for version in versions:
            where = f"{key.name} {version}"
            old = FENCED if version >= knows_fenced else OLD_EPOCH
            rows |= {
                f"{where}: a foreign producer": (
                    _asks(ask, version, lambda p: {"producer_id": p.producer_id + 1}),
                    FOREIGN,
                ),
                f"{where}: an old epoch": (_asks(ask, version, lambda p: {"epoch": p.epoch - 1}), old),
                f"{where}: a later epoch": (_asks(ask, version, lambda p: {"epoch": p.epoch + 1}), old),
                f"{where}: an id of 0 bytes": (_asks(ask, version, lambda p: {"name": ""}), WRONG),
                f"{where}: an id that is not there": (_asks(ask, version, lambda p: {"name": LONG_ID}), FOREIGN),
            }
    return rows


def _asks(ask, version, fields):
    return lambda p: ask(p, version=version, **fields(p))


# Of a producer that was given its epoch, and has nothing open.
IDLE = {
    "a time-out of 0": (lambda p: init(p, timeout_ms=0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    "a time-out below 0": (lambda p: init(p, timeout_ms=-1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    "a time-out that is too long": (lambda p: init(p, timeout_ms=MAX + 1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    "an epoch without an id": (lambda p: init(p, known=(-1, 0)), WRONG),
    "an id without an epoch": (lambda p: init(p, known=(7, -1)), WRONG),
    "an old epoch at InitProducerId 3": (
        lambda p: init(p, version=3, known=(p.producer_id, p.epoch - 1)),
        OLD_EPOCH,
    ),
    "an old epoch at InitProducerId 4": (lambda p: init(p, version=4, known=(p.producer_id, p.epoch - 1)), FENCED),
    "a later epoch at InitProducerId 4": (lambda p: init(p, version=4, known=(p.producer_id, p.epoch + 1)), FENCED),
    "a foreign producer at InitProducerId 3": (lambda p: init(p, version=3, known=(p.producer_id + 1, 0)), OLD_EPOCH),
    "a foreign producer at InitProducerId 5": (lambda p: init(p, known=(p.producer_id + 1, 0)), FENCED),
    **{
        f"InitProducerId {version}: an id of 0 bytes": (lambda p, at=version: init(p, version=at, name=""), WRONG)
        for version in range(6)
    },
    **of_each_asker(),
    "FindCoordinator and DescribeTransactions: an id of 0 bytes": (describe_nameless, WRONG),
    "10,001 partitions": (lambda p: p.add(*range(10_001)), WRONG),
    "10,001 partitions, as brokers add them": (lambda p: p.add(*range(10_001), version=5), WRONG),
    "a partition that is not in the transaction, version 4": (
        lambda p: p.add(0, version=4, verify_only=True),
        NOT_NOW,
    ),
    "a partition that is not in the transaction, version 5": (
        lambda p: p.add(0, version=5, verify_only=True),
        ErrorCode.TRANSACTION_ABORTABLE,
    ),
    "a batch in a partition that was not added, Produce 10": (lambda p: produce(p, version=10), NOT_NOW),
    "a batch in a partition that was not added, Produce 11": (
        lambda p: produce(p, version=11),
        ErrorCode.TRANSACTION_ABORTABLE,
    ),
    "offsets that were not added, TxnOffsetCommit 3": (lambda p: commit_offsets(p, version=3), NOT_NOW),
    "offsets that were not added, TxnOffsetCommit 4": (
        lambda p: commit_offsets(p, version=4),
        ErrorCode.TRANSACTION_ABORTABLE,
    ),
    **{
        f"{'a commit' if is_commit else 'an abort'} with nothing begun, EndTxn {version}": (
            lambda p, at=version, how=is_commit: end(p, version=at, is_commit=how),
            NOT_NOW,
        )
        for version in range(6)
        for is_commit in (True, False)
        # It is an end, and raises the epoch.
        if (version, is_commit) != (5, False)
    },
    "an abort of a transaction that is not there": (
        lambda p: p.write_marker("t", 0, producer_id=p.producer_id, producer_epoch=p.epoch),
        NOT_NOW,
    ),
    "an abort of a transaction that is not there, version 1": (
        lambda p: p.write_marker("t", 0, version=1, producer_id=p.producer_id, producer_epoch=p.epoch),
        NOT_NOW,
    ),
    "an abort without a producer": (
        lambda p: p.write_marker("t", 0, producer_id=-1, producer_epoch=-1),
        OLD_EPOCH,
    ),
}

# Of a producer with a transaction in partition 0, which is open there.
OPEN = {
    **{
        f"{name}, Produce {version}": (lambda p, at=version, given=fields: produce(p, version=at, **given), code)
        for version in (PLAIN_PRODUCE, ADDING_PRODUCE)
        for name, fields, code in (
            ("acks=1", {"acks": 1}, ErrorCode.INVALID_REQUIRED_ACKS),
            ("a client's marker", {"attributes": TRANSACTIONAL | CONTROL}, ErrorCode.INVALID_RECORD),
            ("a client's marker without an id", {"attributes": CONTROL, "name": None}, ErrorCode.INVALID_RECORD),
            ("a plain batch inside the transaction", {"attributes": 0}, NOT_NOW),
            ("a plain batch inside it without an id", {"attributes": 0, "name": None}, NOT_NOW),
            ("no sequence", {"base_sequence": -1}, ErrorCode.INVALID_RECORD),
            ("no producer", {"producer_id": -1}, ErrorCode.INVALID_RECORD),
            ("no epoch", {"producer_epoch": -1}, ErrorCode.INVALID_RECORD),
            ("no id", {"name": None}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            ("an id of 0 bytes", {"name": ""}, WRONG),
            ("an old epoch", {"producer_epoch": 0}, OLD_EPOCH),
        )
    },
    "batches of two producers": (lambda p: produce(p, others=(p.batch(producer_id=p.producer_id + 1),)), FOREIGN),
    "a marker in another epoch": (
        lambda p: p.write_marker("t", 0, producer_id=p.producer_id, producer_epoch=p.epoch + 1),
        OLD_EPOCH,
    ),
    "an abort where the transaction is not": (
        lambda p: p.write_marker("t", 1, producer_id=p.producer_id, producer_epoch=p.epoch),
        NOT_NOW,
    ),
}

# Of a producer that another one of its id has replaced.
REPLACED = {
    **{
        f"{key.name} {version} of a fenced producer": (
            _asks(ask, version, lambda _: {}),
            FENCED if version >= knows_fenced else OLD_EPOCH,
        )
        for key, (ask, versions, knows_fenced) in ASKERS.items()
        for version in versions
    },
    **{
        f"an abort of a fenced producer, EndTxn {version}": (
            lambda p, at=version: end(p, version=at, is_commit=False),
            FENCED if version >= 2 else OLD_EPOCH,
        )
        for version in range(6)
    },
    "InitProducerId 3 of a fenced producer": (
        lambda p: init(p, version=3, known=(p.producer_id, p.epoch)),
        OLD_EPOCH,
    ),
    "InitProducerId 5 of a fenced producer": (lambda p: init(p, known=(p.producer_id, p.epoch)), FENCED),
}

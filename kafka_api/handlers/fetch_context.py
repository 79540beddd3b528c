"""What one Fetch is about: the partitions of the request, or those of its session, and what the answer says of them."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby

from kafka_api.fetch_sessions import NO_SESSION, AskedPartition, FetchSession, FetchSessions, PartitionKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest, FetchResponse

_Result = FetchResponse.PartitionData

# Epochs of requests that name all their partitions: to begin a session, and to end one or have none.
_BEGIN, _END = 0, -1


class FetchSessionError(Exception):
    """The request does not fit its session; carries the code for the client, which begins anew."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchContext:
    """A Fetch that names all its partitions, and may want a session that remembers them."""

    def __init__(self, request: FetchRequest, sessions: FetchSessions, *, by_id: bool) -> None:
        self._sessions = sessions
        self._by_id = by_id
        self._wants_session = request.session_epoch == _BEGIN
        self._asked = list(_named(request))

    def asked(self) -> Sequence[AskedPartition]:
        """Return the partitions to read, in the order in which they share the answer's bytes."""
        return self._asked

    def respond(self, results: Sequence[tuple[AskedPartition, _Result]]) -> FetchResponse:
        """Return the answer: all results, and the session if one was wanted and there is room."""
        session = None
        if self._wants_session:
            for asked, result in results:
                _note_told(asked, result)
            session = self._sessions.create(self._asked, asyncio.get_running_loop().time(), by_id=self._by_id)
        return _response(NO_SESSION if session is None else session.session_id, results)


class SessionFetchContext:
    """A Fetch that names what has changed in its session."""

    def __init__(self, session: FetchSession) -> None:
        self._session = session
        self._epoch = session.epoch

    def asked(self) -> Sequence[AskedPartition]:
        """Return the partitions of the session, in the order in which they share the answer's bytes."""
        return self._session.partitions()

    def respond(self, results: Sequence[tuple[AskedPartition, _Result]]) -> FetchResponse:
        """Return what is new: records, positions, errors."""
        session = self._session
        if session.epoch != self._epoch:
            # Another request of the session has come meanwhile: which of the two the client believes is unknown.
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.session_id, responses=[]
            )
        told = [(asked, result) for asked, result in results if _note_told(asked, result)]
        for asked, result in told:
            if result.records:
                session.move_to_end(asked)
        return _response(session.session_id, told)


def begin_fetch(request: FetchRequest, sessions: FetchSessions, *, by_id: bool) -> FetchContext | SessionFetchContext:
    """Return what the request is about; its session, if it has one, takes in what it says.

    Raises:
        FetchSessionError: There is no such session, or the request is not its next one.
    """
    session = sessions.get(request.session_id)
    if request.session_epoch in (_BEGIN, _END):
        if session is not None:
            sessions.remove(session)
        return FetchContext(request, sessions, by_id=by_id)
    if session is None:
        raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if request.session_epoch != session.epoch:
        raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    if session.by_id != by_id:
        raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    now = asyncio.get_running_loop().time()
    if not sessions.update(session, _named(request), _forgotten(request, by_id=by_id), now):
        raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if not session:
        # Nothing is left to fetch: as in Kafka, the session ends with an empty answer.
        sessions.remove(session)
        return FetchContext(FetchRequest(session_epoch=_END, topics=[]), sessions, by_id=by_id)
    session.advance()
    return SessionFetchContext(session)


def _named(request: FetchRequest) -> Iterator[AskedPartition]:
    for topic in request.topics:
        for fields in topic.partitions:
            yield AskedPartition(topic.topic, topic.topic_id, fields)


def _forgotten(request: FetchRequest, *, by_id: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for number in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic), number


def _note_told(asked: AskedPartition, result: _Result) -> bool:
    """Remember what the client is told of a partition; return whether there is anything new in it.

    With an error the positions are -1, so that they are told again when it is over.
    """
    told = (asked.told_high_watermark, asked.told_start_offset)
    asked.told_high_watermark, asked.told_start_offset = result.high_watermark, result.log_start_offset
    has_moved = told != (result.high_watermark, result.log_start_offset)
    return has_moved or bool(result.records or result.error_code or result.diverging_epoch)


def _response(session_id: int, results: Sequence[tuple[AskedPartition, _Result]]) -> FetchResponse:
    return FetchResponse(
        session_id=session_id,
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic, topic_id=topic_id, partitions=[result for _, result in group]
            )
            for (topic, topic_id), group in groupby(results, key=lambda each: (each[0].topic, each[0].topic_id))
        ],
    )

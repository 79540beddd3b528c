"""What is not built or not in use says so in every version: ACLs, quotas, SCRAM, SASL, transactions, reassignments."""

import pytest
from wire_client import with_client

from kafka_api.handlers.registry import SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ListPartitionReassignmentsRequest,
    ListTransactionsRequest,
    SaslHandshakeRequest,
)
from tests.feature_levels import LIVING


async def in_every_version(client, key, request):
    served = SERVED[key]
    return [
        await client.call(key, version, request) for version in range(served.first_version, served.last_version + 1)
    ]


def test_acls_are_disabled(tmp_path):
    acl = {"resource_type": 2, "resource_name": "t", "host": "*", "operation": 3, "permission_type": 3}
    creation = CreateAclsRequest.AclCreation(principal="User:a", **acl)
    everything = {"resource_type_filter": 1, "resource_name_filter": None, "principal_filter": None}
    everything |= {"host_filter": None, "operation": 1, "permission_type": 1}

    async def test(_, client):
        for answer in await in_every_version(client, ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(**everything)):
            assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
            assert "no authorizer" in answer.error_message
        for answer in await in_every_version(client, ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[creation] * 2)):
            assert [each.error_code for each in answer.results] == [ErrorCode.SECURITY_DISABLED] * 2
        request = DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**everything)])
        for answer in await in_every_version(client, ApiKey.DELETE_ACLS, request):
            assert [each.error_code for each in answer.filter_results] == [ErrorCode.SECURITY_DISABLED]

    with_client(tmp_path, test)


def test_there_are_no_quotas_and_none_can_be_set(tmp_path):
    component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=2, match=None)
    entity = AlterClientQuotasRequest.EntityData(entity_type="client-id", entity_name=None)
    change = AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1024.0, remove=False)

    async def test(_, client):
        request = DescribeClientQuotasRequest(components=[component], strict=False)
        for answer in await in_every_version(client, ApiKey.DESCRIBE_CLIENT_QUOTAS, request):
            assert (answer.error_code, answer.entries) == (0, [])
        request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=[entity], ops=[change])])
        for answer in await in_every_version(client, ApiKey.ALTER_CLIENT_QUOTAS, request):
            (refused,) = answer.entries
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [(each.entity_type, each.entity_name) for each in refused.entity] == [("client-id", None)]

    with_client(tmp_path, test)


def test_nobody_has_scram_credentials_and_nobody_is_given_any(tmp_path):
    name = DescribeUserScramCredentialsRequest.UserName
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion

    async def test(_, client):
        for users, told in (
            (None, []),
            ([name(name="a"), name(name="b"), name(name="a")], ["a", "b"]),
        ):
            request = DescribeUserScramCredentialsRequest(users=users)
            (answer,) = await in_every_version(client, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
            found = [(each.user, each.error_code, each.credential_infos) for each in answer.results]
            assert (answer.error_code, found) == (0, [(user, ErrorCode.RESOURCE_NOT_FOUND, []) for user in told])
        request = AlterUserScramCredentialsRequest(
            deletions=[deletion(name="a", mechanism=1), deletion(name="b", mechanism=2)],
            upsertions=[upsertion(name="b", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")],
        )
        (answer,) = await in_every_version(client, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
        assert [(each.user, each.error_code) for each in answer.results] == [
            ("a", ErrorCode.RESOURCE_NOT_FOUND),
            ("b", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ]

    with_client(tmp_path, test)


def test_a_client_that_wants_to_authenticate_is_told_that_it_cannot(tmp_path):
    async def test(_, client):
        for answer in await in_every_version(client, ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN")):
            assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])

    with_client(tmp_path, test)


def test_there_are_no_transactions_where_the_cluster_uses_none(tmp_path):
    async def test(_, client):
        request = DescribeTransactionsRequest(transactional_ids=["x", ""])
        (answer,) = await in_every_version(client, ApiKey.DESCRIBE_TRANSACTIONS, request)
        assert [(each.transactional_id, each.error_code) for each in answer.transaction_states] == [
            ("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            ("", ErrorCode.INVALID_REQUEST),
        ]
        request = ListTransactionsRequest(
            state_filters=["Ongoing", "Lost", "Lost"], producer_id_filters=[7], transactional_id_pattern="x.*"
        )
        for answer in await in_every_version(client, ApiKey.LIST_TRANSACTIONS, request):
            told = (answer.error_code, answer.unknown_state_filters, answer.transaction_states)
            assert told == (0, ["Lost"], [])

    with_client(tmp_path, test, founded=LIVING)


@pytest.mark.parametrize("names", [None, ["t", "unknown"]])
def test_no_replica_is_moving(tmp_path, names):
    topics = None
    if names is not None:
        asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        topics = [asked(name=name, partition_indexes=[0]) for name in names]

    async def test(_, client):
        await client.create_topic("t")
        request = ListPartitionReassignmentsRequest(topics=topics)
        (answer,) = await in_every_version(client, ApiKey.LIST_PARTITION_REASSIGNMENTS, request)
        assert (answer.error_code, answer.topics) == (0, [])

    with_client(tmp_path, test)

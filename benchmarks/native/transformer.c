/* Consumes one partition, writes each record to another one, and commits both in a transaction, again and again.
 *
 *   transformer brokers=HOST:PORT topic=NAME group=NAME id=TRANSACTIONAL_ID count=RECORDS [from=0] [to=1] [interval=0.1]
 *               [seconds=60] [samples=FILE] [conf.NAME=VALUE ...]
 *
 * A transaction is committed `interval` seconds after it began, with the offset that was reached. The clock runs from
 * the first transaction's begin to the end of the one that holds the last of `count` records, or to the first that ends
 * after `seconds`. Prints `began`, `ended` and one line of JSON; `samples` gets a double (seconds) for each transaction:
 * from the end of its records to the answer to its commit. The settings are those of the producer; the consumer has
 * librdkafka's defaults and reads at read_committed.
 */
#include "client.h"

#define BATCH 1000
#define SAMPLES_MAX 1000000
#define REQUEST_MS 30000

static rd_kafka_t *producer, *consumer;
static rd_kafka_message_t *batch[BATCH];
static _Atomic int64_t failed;

static void on_delivery(rd_kafka_t *_, const rd_kafka_message_t *message, void *opaque) {
    (void)_, (void)opaque;
    failed += message->err != 0;
}

/* An outcome that is not known yet is asked for again, as librdkafka wants it; everything else ends the program. */
#define UNTIL_KNOWN(what, call)                                                                                        \
    for (rd_kafka_error_t *error; (error = (call));) {                                                                 \
        if (!rd_kafka_error_is_retriable(error)) die("%s: %s", what, rd_kafka_error_string(error));                    \
        rd_kafka_error_destroy(error);                                                                                 \
    }

static void send_copy(const char *topic, int32_t partition, const rd_kafka_message_t *message) {
    rd_kafka_resp_err_t refused;
    while ((refused = rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
                                        RD_KAFKA_V_VALUE(message->payload, message->len),
                                        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END))) {
        if (refused != RD_KAFKA_RESP_ERR__QUEUE_FULL) die("produce: %s", rd_kafka_err2str(refused));
        rd_kafka_poll(producer, 10);
    }
}

/* Hands the records of one transaction over; returns how many, at most `wanted`. */
static int64_t transform(const char *topic, int32_t to, int64_t ends, int64_t wanted, int64_t *offset) {
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);
    int64_t records = 0, left;
    while (records < wanted && (left = (ends - now_ns()) / 1000000) > 0) {
        int64_t room = wanted - records < BATCH ? wanted - records : BATCH;
        ssize_t got = rd_kafka_consume_batch_queue(queue, (int)left, batch, (size_t)room);
        for (ssize_t i = 0; i < got; i++) {
            if (batch[i]->err) die("reading: %s", rd_kafka_message_errstr(batch[i]));
            send_copy(topic, to, batch[i]);
            *offset = batch[i]->offset + 1;
            rd_kafka_message_destroy(batch[i]);
        }
        if (got > 0) records += got;
        rd_kafka_poll(producer, 0);
    }
    rd_kafka_queue_destroy(queue);
    return records;
}

static void commit(const char *topic, int32_t from, int64_t offset) {
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(offsets, topic, from)->offset = offset;
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(consumer);
    UNTIL_KNOWN("offsets", rd_kafka_send_offsets_to_transaction(producer, offsets, group, REQUEST_MS));
    UNTIL_KNOWN("commit", rd_kafka_commit_transaction(producer, REQUEST_MS));
    rd_kafka_consumer_group_metadata_destroy(group);
    rd_kafka_topic_partition_list_destroy(offsets);
}

static void save(const char *path, const double *samples, int64_t length) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(samples, sizeof *samples, (size_t)length, file) != (size_t)length || fclose(file))
        die("%s: %s", path, strerror(errno));
}

static rd_kafka_t *new_consumer(int count, char **arguments, const char *topic, int32_t from) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    configure(conf, "bootstrap.servers", option(count, arguments, "brokers", NULL));
    configure(conf, "group.id", option(count, arguments, "group", NULL));
    configure(conf, "enable.auto.commit", "false");
    configure(conf, "isolation.level", "read_committed");
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(client);
    rd_kafka_topic_partition_list_t *assignment = rd_kafka_topic_partition_list_new(1);
    int64_t low, high;
    /* Also opens the connection to the leader. */
    rd_kafka_resp_err_t refused = rd_kafka_query_watermark_offsets(client, topic, from, &low, &high, REQUEST_MS);
    if (refused) die("offsets of partition %d: %s", from, rd_kafka_err2str(refused));
    rd_kafka_topic_partition_list_add(assignment, topic, from)->offset = low;
    if (rd_kafka_assign(client, assignment)) die("the partition could not be assigned");
    return client;
}

int main(int count, char **arguments) {
    const char *topic = option(count, arguments, "topic", NULL), *path = option(count, arguments, "samples", "");
    int32_t from = (int32_t)number(count, arguments, "from", "0"), to = (int32_t)number(count, arguments, "to", "1");
    int64_t wanted = (int64_t)number(count, arguments, "count", NULL), records = 0, offset = -1;
    int64_t interval = (int64_t)(number(count, arguments, "interval", "0.1") * NANOSECONDS);
    int64_t seconds = (int64_t)(number(count, arguments, "seconds", "60") * NANOSECONDS);
    double *samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (!samples) die("no memory");

    rd_kafka_conf_t *conf = new_conf(count, arguments);
    configure(conf, "transactional.id", option(count, arguments, "id", NULL));
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    producer = new_client(RD_KAFKA_PRODUCER, conf);
    UNTIL_KNOWN("init", rd_kafka_init_transactions(producer, REQUEST_MS));
    consumer = new_consumer(count, arguments, topic, from);

    announce("began");
    double cpu = cpu_seconds();
    int64_t began = now_ns(), now = began;
    int length = 0;
    while (records < wanted && now - began < seconds && length < SAMPLES_MAX) {
        UNTIL_KNOWN("begin", rd_kafka_begin_transaction(producer));
        int64_t got = transform(topic, to, now + interval, wanted - records, &offset);
        int64_t written = now_ns();
        if (offset >= 0) commit(topic, from, offset);
        else UNTIL_KNOWN("abort", rd_kafka_abort_transaction(producer, REQUEST_MS));
        now = now_ns();
        records += got;
        if (got) samples[length++] = (double)(now - written) / NANOSECONDS;
    }
    double used = cpu_seconds() - cpu;
    announce("ended");
    if (*path) save(path, samples, length);
    printf("{\"records\": %lld, \"transactions\": %d, \"seconds\": %.6f, \"errors\": %lld, "
           "\"client_cpu_seconds\": %.3f, \"librdkafka\": \"%s\"}\n",
           (long long)records, length, (double)(now - began) / NANOSECONDS, (long long)failed, used,
           rd_kafka_version_str());
    fflush(stdout);
    /* Everything is told; closing in good order would only take time. */
    _Exit(0);
}

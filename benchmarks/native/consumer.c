/* Reads a topic from given offsets to its present end and tells how long that took.
 *
 *   consumer brokers=HOST:PORT topic=NAME partitions=N [first=0] [seconds=60] [conf.NAME=VALUE ...]
 *
 * The clock runs from the assignment, with the leaders' connections already open, to the last record. Prints `began`,
 * `ended` and one line of JSON.
 */
#include "client.h"

#define BATCH 10000
#define PARTITIONS_MAX 1024
#define REQUEST_MS 10000

int main(int count, char **arguments) {
    const char *topic = option(count, arguments, "topic", NULL);
    int partitions = (int)number(count, arguments, "partitions", "1");
    int begin = (int)number(count, arguments, "first", "0");
    double seconds = number(count, arguments, "seconds", "60");
    if (partitions < 1 || partitions > PARTITIONS_MAX) die("partitions: 1 to %d", PARTITIONS_MAX);

    rd_kafka_conf_t *conf = new_conf(count, arguments);
    configure(conf, "group.id", "benchmark");
    configure(conf, "enable.auto.commit", "false");
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(client);
    rd_kafka_topic_partition_list_t *assignment = rd_kafka_topic_partition_list_new(partitions);
    int64_t wanted = 0;
    for (int i = begin; i < begin + partitions; i++) {
        int64_t low, high;
        /* Also opens the connection to the leader. */
        rd_kafka_resp_err_t refused = rd_kafka_query_watermark_offsets(client, topic, i, &low, &high, REQUEST_MS);
        if (refused) die("offsets of partition %d: %s", i, rd_kafka_err2str(refused));
        rd_kafka_topic_partition_list_add(assignment, topic, i)->offset = low;
        wanted += high - low;
    }

    rd_kafka_message_t **batch = calloc(BATCH, sizeof *batch);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    int64_t records = 0, bytes = 0, first = 0;
    announce("began");
    double cpu = cpu_seconds();
    int64_t began = now_ns(), last = began, deadline = began + (int64_t)(seconds * NANOSECONDS);
    if (rd_kafka_assign(client, assignment)) die("the partitions could not be assigned");
    while (records < wanted && now_ns() < deadline) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 100, batch, BATCH);
        for (ssize_t i = 0; i < got; i++) {
            if (batch[i]->err) die("reading: %s", rd_kafka_message_errstr(batch[i]));
            bytes += (int64_t)batch[i]->len;
            rd_kafka_message_destroy(batch[i]);
        }
        if (got <= 0) continue;
        last = now_ns();
        if (!records) first = last;
        records += got;
    }
    double used = cpu_seconds() - cpu;
    announce("ended");
    printf("{\"records\": %lld, \"wanted\": %lld, \"bytes\": %lld, \"seconds\": %.6f, \"first_record_seconds\": %.6f, "
           "\"client_cpu_seconds\": %.3f, \"librdkafka\": \"%s\"}\n",
           (long long)records, (long long)wanted, (long long)bytes, (double)(last - began) / NANOSECONDS,
           (double)(first - began) / NANOSECONDS, used, rd_kafka_version_str());
    fflush(stdout);
    /* Everything is told; closing in good order would only take time. */
    _Exit(0);
}

/* One member of a consumer group that reads what is being written.
 *
 *   group_consumer brokers=HOST:PORT topic=NAME group=NAME [partitions=1] [quiet=3] [seconds=600] [warm_up=0]
 *                  [is_stamped=0] [samples=FILE] [conf.NAME=VALUE ...]
 *
 * Prints `began` when it has the topic's partitions and stands at their ends: records may be written now. It ends when
 * none has come for `quiet` seconds after the first, prints `ended` and one line of JSON. With is_stamped=1 `samples`
 * gets a double (seconds) for each record from `warm_up` seconds after the first one on: from the stamp of a producer
 * with mode=stamped until the program has the record. Commits every second, as consumers do.
 */
#include "client.h"

#define BATCH 10000
#define SAMPLES_MAX 50000000
#define POLL_MS 100

static rd_kafka_topic_partition_list_t *ends_of(rd_kafka_t *client, const char *topic, int partitions) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++) {
        int64_t low, high;
        rd_kafka_resp_err_t refused = rd_kafka_query_watermark_offsets(client, topic, i, &low, &high, 10000);
        if (refused) die("offsets of partition %d: %s", i, rd_kafka_err2str(refused));
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = high;
    }
    return list;
}

static void join_group(rd_kafka_t *client, const char *topic, int partitions) {
    rd_kafka_topic_partition_list_t *wanted = rd_kafka_topic_partition_list_new(1), *owned = NULL, *ends;
    rd_kafka_topic_partition_list_add(wanted, topic, RD_KAFKA_PARTITION_UA);
    if (rd_kafka_subscribe(client, wanted)) die("could not subscribe");
    int64_t deadline = now_ns() + 60 * NANOSECONDS;
    do {
        if (owned) rd_kafka_topic_partition_list_destroy(owned);
        if (now_ns() > deadline) die("no partitions within a minute");
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, POLL_MS);
        if (message) rd_kafka_message_destroy(message);
        if (rd_kafka_assignment(client, &owned)) die("no assignment");
    } while (owned->cnt < partitions);
    /* What stands there was written by a run before; where to begin is known once and for all. */
    ends = ends_of(client, topic, partitions);
    rd_kafka_error_t *refused = rd_kafka_seek_partitions(client, ends, 10000);
    if (refused) die("seeking: %s", rd_kafka_error_string(refused));
}

int main(int count, char **arguments) {
    const char *topic = option(count, arguments, "topic", NULL), *path = option(count, arguments, "samples", "");
    int partitions = (int)number(count, arguments, "partitions", "1");
    int is_stamped = (int)number(count, arguments, "is_stamped", "0");
    int64_t quiet = (int64_t)(number(count, arguments, "quiet", "3") * NANOSECONDS);
    int64_t warm_up = (int64_t)(number(count, arguments, "warm_up", "0") * NANOSECONDS);
    double seconds = number(count, arguments, "seconds", "600");
    rd_kafka_conf_t *conf = new_conf(count, arguments);
    configure(conf, "group.id", option(count, arguments, "group", NULL));
    configure(conf, "auto.commit.interval.ms", "1000");
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(client);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    rd_kafka_message_t **batch = calloc(BATCH, sizeof *batch);
    double *samples = is_stamped ? malloc(SAMPLES_MAX * sizeof *samples) : NULL;
    if (!batch || (is_stamped && !samples)) die("no memory");
    join_group(client, topic, partitions);

    int64_t records = 0, bytes = 0, first = 0, last = 0, taken = 0;
    announce("began");
    double cpu = cpu_seconds();
    int64_t deadline = now_ns() + (int64_t)(seconds * NANOSECONDS);
    while (now_ns() < deadline && !(records && now_ns() - last > quiet)) {
        /* A batch is waited for until it is full or the time is up: right for bytes, wrong for latencies. */
        ssize_t got = is_stamped ? (batch[0] = rd_kafka_consumer_poll(client, POLL_MS)) != NULL
                                 : rd_kafka_consume_batch_queue(queue, POLL_MS, batch, BATCH);
        int64_t now = now_ns();
        for (ssize_t i = 0; i < got; i++) {
            if (batch[i]->err) die("reading: %s", rd_kafka_message_errstr(batch[i]));
            if (!records++) first = now;
            last = now;
            bytes += (int64_t)batch[i]->len;
            int64_t due;
            if (is_stamped && now - first >= warm_up && taken < SAMPLES_MAX && batch[i]->len >= sizeof due) {
                memcpy(&due, batch[i]->payload, sizeof due);
                samples[taken++] = (double)(now - due) / NANOSECONDS;
            }
            rd_kafka_message_destroy(batch[i]);
        }
    }
    double used = cpu_seconds() - cpu;
    announce("ended");
    if (*path && is_stamped) {
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(samples, sizeof *samples, (size_t)taken, file) != (size_t)taken || fclose(file))
            die("%s: %s", path, strerror(errno));
    }
    printf("{\"records\": %lld, \"bytes\": %lld, \"seconds\": %.6f, \"client_cpu_seconds\": %.3f, "
           "\"librdkafka\": \"%s\"}\n",
           (long long)records, (long long)bytes, (double)(last - first) / NANOSECONDS, used, rd_kafka_version_str());
    fflush(stdout);
    /* Leaves the group: the next run of it need not wait for this member's session. */
    rd_kafka_consumer_close(client);
    _Exit(0);
}

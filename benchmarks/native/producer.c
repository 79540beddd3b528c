/* One producer with librdkafka's defaults: what it gets through, or how long each record takes.
 *
 *   producer mode=flood|single|open|end_to_end|stamped brokers=HOST:PORT topic=NAME size=BYTES acks=all|1|0 seconds=S
 *            [warm_up=S] [count=RECORDS] [partition=N] [rate=RECORDS_PER_SECOND] [keys=N] [samples=FILE]
 *            [conf.NAME=VALUE ...]
 *
 *   flood       as fast as the queue takes records, to the partitions that librdkafka chooses, or to `partition`; or
 *               `count` records
 *   single      one record in flight, partition 0: time from produce() to the delivery report
 *   open        record i is due at i / rate whatever happened to those before it, partition 0: time from that moment
 *               to the delivery report
 *   end_to_end  as open, but to the moment when a consumer in this process has the record
 *   stamped     as open, and each value begins with the moment it was due (CLOCK_MONOTONIC, ns, in the machine's byte
 *               order) for consumers in other processes; without samples of its own
 *
 * Prints `began` and `ended` around the measured window and one line of JSON. `samples` gets a double (seconds) for
 * each record that was sent in the window; a record without an answer is NaN. Values are random: no codec and no disk
 * can make them smaller.
 *
 * With `keys` each record has a key of 16 digits, one of so many in pseudo-random order, the same in every run.
 */
#include "client.h"

#include <math.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/random.h>

#define POOL_BYTES (16 << 20)
#define BURST 500
#define ANSWER_SECONDS 60
#define SECONDS_MAX 3600
#define SAMPLES_MAX 50000000
#define KEY_BYTES 16

typedef struct {
    const char *mode, *topic_name;
    size_t size;
    double rate, warm_up, seconds;
    int64_t count;
    uint64_t keys; /* 0: records have none */
    int32_t partition;
} Plan;

static Plan plan;
static rd_kafka_t *client;
static rd_kafka_topic_t *topic;
static char *pool;
static size_t pool_at;
static double *samples;
static int64_t samples_length, skipped_length;
static int64_t due_from; /* when record 0 was due */
static _Atomic int64_t acked, failed, seen;
static _Atomic int is_over;
static char first_error[256];

static void *next_value(void) {
    pool_at = (pool_at + 4099) % (POOL_BYTES - plan.size);
    return pool + pool_at;
}

/* Writes the next key and returns its length; 0: records have none. */
static size_t next_key(char *key) {
    static uint64_t state = 0x9e3779b97f4a7c15;
    if (!plan.keys) return 0;
    /* xorshift64: its upper half is random enough, and costs next to nothing. */
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    uint64_t left = (state >> 32) % plan.keys;
    for (int at = KEY_BYTES; at--; left /= 10) key[at] = (char)('0' + left % 10);
    return KEY_BYTES;
}

static int64_t due_at(int64_t record) { return due_from + (int64_t)((double)record * NANOSECONDS / plan.rate); }

static void note_sample(int64_t record, int64_t since) {
    int64_t at = record - skipped_length;
    if (at >= 0 && at < samples_length) samples[at] = (double)(now_ns() - since) / NANOSECONDS;
}

/* Serves delivery reports. For open loops the opaque is the number of the record, plus one. */
static void on_delivery(rd_kafka_t *_, const rd_kafka_message_t *message, void *opaque) {
    (void)_, (void)opaque;
    if (message->err) {
        if (!failed++) snprintf(first_error, sizeof first_error, "%s", rd_kafka_err2name(message->err));
        return;
    }
    acked++;
    int64_t number = (intptr_t)message->_private;
    if (number && !strcmp(plan.mode, "open")) note_sample(number - 1, due_at(number - 1));
}

/* Hands a record over; waits while the queue is full. */
static void send_record(int32_t partition, int flags, void *value, intptr_t number) {
    char key[KEY_BYTES];
    size_t length = next_key(key); /* librdkafka copies it */
    while (rd_kafka_produce(topic, partition, flags, value, plan.size, length ? key : NULL, length, (void *)number)) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(client, 10);
    }
}

static void flush_all(void) {
    rd_kafka_flush(client, ANSWER_SECONDS * 1000);
    if (rd_kafka_outq_len(client)) die("%d records were never answered", rd_kafka_outq_len(client));
}

/* Prints what a window gave; `each` are the records acknowledged in each of its whole seconds. */
static void report(double seconds, int64_t records, double cpu, const int64_t *each, int length) {
    printf("{\"seconds\": %.6f, \"records\": %lld, \"size\": %zu, \"errors\": %lld, \"first_error\": \"%s\", "
           "\"client_cpu_seconds\": %.3f, \"librdkafka\": \"%s\", \"records_each_second\": [",
           seconds, (long long)records, plan.size, (long long)failed, first_error, cpu, rd_kafka_version_str());
    for (int i = 0; i < length; i++) printf("%s%lld", i ? ", " : "", (long long)each[i]);
    puts("]}");
    fflush(stdout);
}

static void flood(void) {
    static int64_t each[SECONDS_MAX];
    int64_t start = now_ns(), began = start + (int64_t)(plan.warm_up * NANOSECONDS);
    int64_t ends = began + (int64_t)(plan.seconds * NANOSECONDS), sent = 0, before = 0, last = 0;
    int length = 0, is_measured = 0;
    double cpu = 0;
    for (int64_t at = start;; at = now_ns()) {
        if (!is_measured && at >= began) {
            announce("began");
            is_measured = 1, cpu = cpu_seconds(), began = at, before = last = acked;
        }
        if (is_measured && length < SECONDS_MAX && at - began >= (length + 1) * NANOSECONDS) {
            each[length++] = acked - last;
            last = acked;
        }
        if (at >= ends || (plan.count && sent >= plan.count)) break;
        for (int i = 0; i < BURST && (!plan.count || sent < plan.count); i++, sent++)
            send_record(plan.partition, 0, next_value(), 0);
        rd_kafka_poll(client, 0);
    }
    /* A given number of records is measured to its last answer, a given time to its end. */
    if (plan.count) flush_all();
    double seconds = (double)(now_ns() - began) / NANOSECONDS, used = cpu_seconds() - cpu;
    int64_t records = acked - before;
    announce("ended");
    flush_all();
    report(seconds, records, used, each, length);
}

static void single(void) {
    int64_t start = now_ns(), began = start + (int64_t)(plan.warm_up * NANOSECONDS);
    int64_t ends = began + (int64_t)(plan.seconds * NANOSECONDS), limit = SAMPLES_MAX;
    int is_measured = 0;
    double cpu = 0;
    samples_length = 0;
    for (int64_t at = start; at < ends && samples_length < limit; at = now_ns()) {
        if (!is_measured && at >= began) {
            announce("began");
            is_measured = 1, cpu = cpu_seconds(), began = at;
        }
        int64_t before = acked + failed, sent_at = now_ns();
        send_record(0, 0, next_value(), 0);
        while (acked + failed == before) {
            rd_kafka_poll(client, 1000);
            if (now_ns() - sent_at > ANSWER_SECONDS * NANOSECONDS) die("a record was not answered");
        }
        if (is_measured) samples[samples_length++] = (double)(now_ns() - sent_at) / NANOSECONDS;
    }
    double used = cpu_seconds() - cpu;
    announce("ended");
    report((double)(now_ns() - began) / NANOSECONDS, samples_length, used, NULL, 0);
}

static void *serve_reports(void *_) {
    (void)_;
    while (!is_over) rd_kafka_poll(client, 50);
    return NULL;
}

/* The consumer of an end-to-end run: the first bytes of each value are the number of the record. */
static void *consume(void *opaque) {
    rd_kafka_t *consumer = opaque;
    while (!is_over) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 50);
        if (!message) continue;
        if (message->err) die("reading: %s", rd_kafka_message_errstr(message));
        int64_t number;
        memcpy(&number, message->payload, sizeof number);
        note_sample(number, due_at(number));
        seen++;
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static rd_kafka_t *new_consumer(int count, char **arguments) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    configure(conf, "bootstrap.servers", option(count, arguments, "brokers", NULL));
    configure(conf, "group.id", "benchmark");
    configure(conf, "enable.auto.commit", "false");
    rd_kafka_t *consumer = new_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(consumer);
    int64_t low, high;
    if (rd_kafka_query_watermark_offsets(consumer, plan.topic_name, 0, &low, &high, ANSWER_SECONDS * 1000))
        die("no offsets of %s", plan.topic_name);
    rd_kafka_topic_partition_list_t *assignment = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(assignment, plan.topic_name, 0)->offset = high;
    if (rd_kafka_assign(consumer, assignment)) die("the partition could not be assigned");
    return consumer;
}

static void open_loop(int count, char **arguments) {
    int is_end_to_end = !strcmp(plan.mode, "end_to_end"), is_stamped = !strcmp(plan.mode, "stamped");
    skipped_length = (int64_t)(plan.warm_up * plan.rate);
    samples_length = (int64_t)(plan.seconds * plan.rate);
    if (samples_length > SAMPLES_MAX) die("more than %d samples", SAMPLES_MAX);
    for (int64_t i = 0; i < samples_length; i++) samples[i] = NAN;
    prctl(PR_SET_TIMERSLACK, 1000); /* ns: the default of 50 us would be part of every sample */
    pthread_t poller, reader;
    rd_kafka_t *consumer = is_end_to_end ? new_consumer(count, arguments) : NULL;
    due_from = now_ns() + NANOSECONDS / 10;
    if (pthread_create(&poller, NULL, serve_reports, NULL)) die("no thread");
    if (consumer && pthread_create(&reader, NULL, consume, consumer)) die("no thread");

    int64_t began = 0, latest = 0, total = skipped_length + samples_length;
    double cpu = 0;
    for (int64_t i = 0; i < total; i++) {
        int64_t due = due_at(i);
        struct timespec until = {due / NANOSECONDS, due % NANOSECONDS};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
        if (i == skipped_length) {
            announce("began");
            began = now_ns(), cpu = cpu_seconds();
        }
        int64_t late = now_ns() - due;
        if (i >= skipped_length && late > latest) latest = late;
        char *value = next_value();
        /* librdkafka copies the value, so the pool may be written to. */
        if (is_end_to_end || is_stamped) memcpy(value, is_stamped ? &due : &i, sizeof i);
        send_record(0, is_end_to_end || is_stamped ? RD_KAFKA_MSG_F_COPY : 0, value, (intptr_t)i + 1);
    }
    double seconds = (double)(now_ns() - began) / NANOSECONDS, used = cpu_seconds() - cpu;
    announce("ended");
    flush_all();
    for (int64_t deadline = now_ns() + 10 * NANOSECONDS; is_end_to_end && seen < total && now_ns() < deadline;)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    is_over = 1;
    pthread_join(poller, NULL);
    if (consumer) pthread_join(reader, NULL);
    fprintf(stderr, "latest send: %.3f ms after it was due\n", (double)latest / 1e6);
    report(seconds, samples_length, used, NULL, 0);
}

static void save_samples(const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(samples, sizeof *samples, (size_t)samples_length, file) != (size_t)samples_length || fclose(file))
        die("%s: %s", path, strerror(errno));
}

int main(int count, char **arguments) {
    plan = (Plan){
        .mode = option(count, arguments, "mode", NULL),
        .topic_name = option(count, arguments, "topic", NULL),
        .size = (size_t)number(count, arguments, "size", "1024"),
        .rate = number(count, arguments, "rate", "1000"),
        .warm_up = number(count, arguments, "warm_up", "0"),
        .seconds = number(count, arguments, "seconds", "15"),
        .count = (int64_t)number(count, arguments, "count", "0"),
        .keys = (uint64_t)number(count, arguments, "keys", "0"),
        .partition = (int32_t)number(count, arguments, "partition", "-1"), /* RD_KAFKA_PARTITION_UA */
    };
    int is_flood = !strcmp(plan.mode, "flood");
    if (plan.size < sizeof(int64_t) || plan.size > POOL_BYTES / 2) die("size: 8 to %d bytes", POOL_BYTES / 2);
    if (plan.rate <= 0 || plan.seconds <= 0 || plan.seconds > SECONDS_MAX) die("rate or seconds out of range");
    pool = malloc(POOL_BYTES);
    samples = is_flood ? NULL : malloc(SAMPLES_MAX * sizeof *samples);
    if (!pool || (!is_flood && !samples)) die("no memory");
    for (size_t at = 0; at < POOL_BYTES;) {
        ssize_t got = getrandom(pool + at, POOL_BYTES - at, 0);
        if (got < 0) die("getrandom: %s", strerror(errno));
        at += (size_t)got;
    }
    rd_kafka_conf_t *conf = new_conf(count, arguments);
    configure(conf, "acks", option(count, arguments, "acks", "all"));
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    client = new_client(RD_KAFKA_PRODUCER, conf);
    topic = rd_kafka_topic_new(client, plan.topic_name, NULL);
    const struct rd_kafka_metadata *metadata;
    if (rd_kafka_metadata(client, 0, topic, &metadata, ANSWER_SECONDS * 1000)) die("no metadata of %s", plan.topic_name);
    rd_kafka_metadata_destroy(metadata);

    if (is_flood) flood();
    else if (!strcmp(plan.mode, "single")) single();
    else if (strcmp(plan.mode, "open") && strcmp(plan.mode, "end_to_end") && strcmp(plan.mode, "stamped"))
        die("mode: %s", plan.mode);
    else open_loop(count, arguments);
    const char *path = option(count, arguments, "samples", "");
    if (*path && samples) save_samples(path);
    /* Everything is answered and told; destroying the client in good order would only take time. */
    _Exit(0);
}

/* What the measuring clients share: the clock, options as NAME=VALUE, librdkafka's configuration, the JSON line. */
#ifndef RAFTKA_BENCHMARKS_CLIENT_H
#define RAFTKA_BENCHMARKS_CLIENT_H

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define NANOSECONDS 1000000000LL

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * NANOSECONDS + at.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* Tell the harness where the measured window begins and ends: it reads the brokers' CPU time at these moments. */
static void announce(const char *what) {
    puts(what);
    fflush(stdout);
}

/* The value of the argument NAME=VALUE, or `otherwise`. */
static const char *option(int count, char **arguments, const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (int i = 1; i < count; i++)
        if (!strncmp(arguments[i], name, length) && arguments[i][length] == '=') return arguments[i] + length + 1;
    if (!otherwise) die("%s=... is missing", name);
    return otherwise;
}

static double number(int count, char **arguments, const char *name, const char *otherwise) {
    return strtod(option(count, arguments, name, otherwise), NULL);
}

static void configure(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char reason[512];
    if (rd_kafka_conf_set(conf, name, value, reason, sizeof reason) != RD_KAFKA_CONF_OK) die("%s", reason);
}

/* librdkafka's defaults, and every argument `conf.NAME=VALUE` over them. */
static rd_kafka_conf_t *new_conf(int count, char **arguments) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    configure(conf, "bootstrap.servers", option(count, arguments, "brokers", NULL));
    for (int i = 1; i < count; i++) {
        if (strncmp(arguments[i], "conf.", 5)) continue;
        char *name = strdup(arguments[i] + 5), *equals = strchr(name, '=');
        if (!equals) die("%s: want conf.NAME=VALUE", arguments[i]);
        *equals = 0;
        configure(conf, name, equals + 1);
        free(name);
    }
    return conf;
}

static rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char reason[512];
    rd_kafka_t *client = rd_kafka_new(type, conf, reason, sizeof reason);
    if (!client) die("%s", reason);
    return client;
}

#endif

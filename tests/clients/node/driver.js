// KafkaJS as a program of lines: a JSON object in, a JSON object out; ../line_client.py has the words.
"use strict";

const { randomUUID } = require("node:crypto");
const readline = require("node:readline");
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");
const snappy = require("kafkajs-snappy");

CompressionCodecs[CompressionTypes.Snappy] = snappy;

const DEADLINE_MS = 60_000;
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };
const ACKS = { 0: 0, 1: 1, all: -1 };

const kafka = new Kafka({
  clientId: "raftka-tests",
  brokers: process.argv[2].split(","),
  logLevel: logLevel.ERROR,
  logCreator: () => (entry) => process.stderr.write(JSON.stringify(entry) + "\n"),
  // It gives up after five tries by default; a leader is dead for longer.
  retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 60 },
});

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const text = (value) => (value === null || value === undefined ? null : value.toString());

/** A promise that is made once, for whoever needs it. */
function once(make) {
  let made;
  return () => (made ??= make());
}

const admin = once(async () => {
  const connected = kafka.admin();
  await connected.connect();
  return connected;
});

const producers = new Map();

function producer({ codec, acks, idempotent }) {
  const kind = [codec, acks, idempotent].join();
  if (!producers.has(kind)) {
    producers.set(
      kind,
      once(async () => {
        const connected = kafka.producer({ idempotent, maxInFlightRequests: 1, allowAutoTopicCreation: false });
        await connected.connect();
        return connected;
      }),
    );
  }
  return producers.get(kind)();
}

/** Headers are an object here: a name that comes twice has a list. */
function headersToSend(pairs) {
  const headers = {};
  for (const [name, value] of pairs) {
    headers[name] = name in headers ? [headers[name], value].flat() : value;
  }
  return headers;
}

function told(partition, message) {
  const headers = Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
    (Array.isArray(values) ? values : [values]).map((value) => [name, text(value)]),
  );
  return {
    partition,
    offset: Number(message.offset),
    key: text(message.key),
    value: text(message.value),
    headers,
    timestamp: Number(message.timestamp),
  };
}

async function produce({ topic, records, ...kind }) {
  const messages = records.map((record) => ({
    partition: 0,
    key: record.key,
    value: record.value,
    headers: headersToSend(record.headers),
    ...(record.timestamp === null ? {} : { timestamp: String(record.timestamp) }),
  }));
  const sender = await producer(kind);
  const answers = await sender.send({ topic, messages, acks: ACKS[kind.acks], compression: CODECS[kind.codec] });
  const base = kind.acks === "0" ? -1 : Number(answers[0].baseOffset);
  return { offsets: messages.map((_, number) => (base < 0 ? -1 : base + number)) };
}

/** A consumer in a group: it has no other way to read. */
class Member {
  constructor(group, topic) {
    this.group = group;
    this.topic = topic;
    this.owned = [];
    this.records = [];
    this.next = new Map();
    this.isMember = false;
    this.consumer = kafka.consumer({
      groupId: group,
      sessionTimeout: 10_000,
      heartbeatInterval: 500,
      maxWaitTimeInMs: 200,
      allowAutoTopicCreation: false,
    });
  }

  async start() {
    const { GROUP_JOIN, REBALANCING, CRASH } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      this.owned = payload.memberAssignment[this.topic] ?? [];
      this.isMember = true;
    });
    this.consumer.on(REBALANCING, () => this.lose());
    this.consumer.on(CRASH, () => this.lose());
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true });
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        this.records.push(told(partition, message));
        this.next.set(partition, String(BigInt(message.offset) + 1n));
      },
    });
  }

  lose() {
    this.owned = [];
    this.isMember = false;
  }

  look() {
    return { owned: this.owned, records: this.records.splice(0) };
  }

  async commit() {
    const deadline = Date.now() + DEADLINE_MS;
    let refusal = new Error("not in the group");
    while (Date.now() < deadline) {
      // Where the group is about to be shared out anew, no commit is taken.
      if (this.isMember) {
        try {
          await this.commitOwned();
          return {};
        } catch (error) {
          refusal = error;
        }
      }
      await pause(100);
    }
    throw refusal;
  }

  async commitOwned() {
    const read = [...this.next].filter(([partition]) => this.owned.includes(partition));
    if (read.length === 0) {
      return;
    }
    const { group, topic } = this;
    await this.consumer.commitOffsets(read.map(([partition, offset]) => ({ topic, partition, offset })));
    // A consumer that has crashed, and has yet to say so, commits nothing and reports no error.
    const [{ partitions }] = await (await admin()).fetchOffsets({ groupId: group, topics: [topic] });
    const kept = new Map(partitions.map(({ partition, offset }) => [partition, offset]));
    const lost = read.filter(([partition, offset]) => kept.get(partition) !== offset);
    if (lost.length > 0) {
      throw new Error(`not committed: ${JSON.stringify(lost)}`);
    }
  }

  async leave() {
    await this.consumer.disconnect();
    return {};
  }
}

const members = new Map();

/** Reads by a seek, in a group that nobody else knows. */
async function fetch({ topic, offset, count }) {
  const groupId = `read-${randomUUID()}`;
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200, allowAutoTopicCreation: false });
  const records = [];
  let next = offset;
  await consumer.connect();
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        // A compacted log has gaps.
        if (partition === 0 && Number(message.offset) >= next && records.length < count) {
          records.push(told(partition, message));
          next = Number(message.offset) + 1;
        }
      },
    });
    consumer.seek({ topic, partition: 0, offset: String(offset) });
    const deadline = Date.now() + DEADLINE_MS;
    while (records.length < count) {
      if (Date.now() > deadline) {
        throw new Error(`${records.length} of ${count} records`);
      }
      await pause(20);
    }
  } finally {
    await consumer.disconnect();
  }
  return { records };
}

async function offsetAt({ topic, timestamp }) {
  const [{ offset }] = await (await admin()).fetchTopicOffsetsByTimestamp(topic, timestamp);
  const [{ high }] = await (await admin()).fetchTopicOffsets(topic);
  // Where there is no such record it answers the end.
  return { offset: offset === high ? -1 : Number(offset) };
}

const resource = (topic, words) => ({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, ...words }] });

const commands = {
  version: async () => ({ version: require("kafkajs/package.json").version }),
  create_topic: async ({ topic, partitions, configs }) => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
    const wanted = { topic, numPartitions: partitions, replicationFactor: 3, configEntries };
    await (await admin()).createTopics({ topics: [wanted], timeout: 30_000 });
  },
  topics: async () => {
    const { topics } = await (await admin()).fetchTopicMetadata();
    return { topics: Object.fromEntries(topics.map(({ name, partitions }) => [name, partitions.length])) };
  },
  add_partitions: async ({ topic, total }) => {
    await (await admin()).createPartitions({ topicPartitions: [{ topic, count: total }] });
  },
  set_config: async ({ topic, key, value }) => {
    const wanted = resource(topic, { configEntries: [{ name: key, value }] });
    await (await admin()).alterConfigs({ validateOnly: false, ...wanted });
  },
  config: async ({ topic, key }) => {
    const wanted = resource(topic, { configNames: [key] });
    const described = await (await admin()).describeConfigs({ includeSynonyms: false, ...wanted });
    return { value: described.resources[0].configEntries.find((entry) => entry.configName === key).configValue };
  },
  delete_topic: async ({ topic }) => {
    await (await admin()).deleteTopics({ topics: [topic] });
  },
  produce,
  fetch,
  offset_at: offsetAt,
  join: async ({ member, group, topic }) => {
    members.set(member, new Member(group, topic));
    await members.get(member).start();
  },
  look: async ({ member }) => members.get(member).look(),
  commit: async ({ member }) => members.get(member).commit(),
  leave: async ({ member }) => members.get(member).leave(),
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let answer;
    try {
      answer = (await commands[command.do](command)) ?? {};
    } catch (error) {
      process.stderr.write(`${error.stack}\n`);
      answer = { error: String(error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

main();

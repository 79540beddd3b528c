import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The Java client as a program of lines: a JSON object in, a JSON object out; ../line_client.py has the words. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long DEADLINE_MS = 60_000;

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, Member> members = new HashMap<>();
    private final Map<String, KafkaProducer<String, String>> transactors = new HashMap<>();
    private Admin admin;

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // Whatever a library says is no answer.
        Driver driver = new Driver(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = commands.readLine()) != null; ) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                driver.answer(JSON.readTree(line), answer);
            } catch (Exception error) {
                error.printStackTrace();
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
        System.exit(0);
    }

    private void answer(JsonNode command, ObjectNode answer) throws Exception {
        String topic = command.path("topic").asText();
        String member = command.path("member").asText();
        switch (command.get("do").asText()) {
            case "version" -> answer.put("version", AppInfoParser.getVersion());
            case "create_topic" -> {
                Map<String, String> configs = new HashMap<>();
                for (Map.Entry<String, JsonNode> each : command.get("configs").properties()) {
                    configs.put(each.getKey(), each.getValue().asText());
                }
                NewTopic wanted = new NewTopic(topic, command.get("partitions").asInt(), (short) 3).configs(configs);
                wait(admin().createTopics(List.of(wanted)).all());
            }
            case "topics" -> {
                Set<String> names = wait(admin().listTopics().names());
                ObjectNode topics = answer.putObject("topics");
                for (TopicDescription each : wait(admin().describeTopics(names).allTopicNames()).values()) {
                    topics.put(each.name(), each.partitions().size());
                }
            }
            case "add_partitions" -> {
                NewPartitions wanted = NewPartitions.increaseTo(command.get("total").asInt());
                wait(admin().createPartitions(Map.of(topic, wanted)).all());
            }
            case "set_config" -> {
                ConfigEntry entry = new ConfigEntry(command.get("key").asText(), command.get("value").asText());
                AlterConfigOp set = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
                wait(admin().incrementalAlterConfigs(Map.of(resource(topic), List.of(set))).all());
            }
            case "config" -> {
                var described = wait(admin().describeConfigs(List.of(resource(topic))).all());
                answer.put("value", described.get(resource(topic)).get(command.get("key").asText()).value());
            }
            case "delete_topic" -> wait(admin().deleteTopics(List.of(topic)).all());
            case "produce" -> produce(topic, command, answer.putArray("offsets"));
            case "fetch" -> fetch(topic, command, answer.putArray("records"));
            case "offset_at" -> answer.put("offset", offsetAt(topic, command.get("timestamp").asLong()));
            case "join" -> {
                Properties settings = settings();
                settings.put("isolation.level", isolation(command.path("committed").asBoolean()));
                members.put(member, new Member(settings, command.get("group").asText(), topic));
            }
            case "look" -> members.get(member).look(answer);
            case "commit" -> members.get(member).commit();
            case "leave" -> members.remove(member).leave();
            default -> transact(command, topic);
        }
    }

    private static String isolation(boolean committed) {
        return committed ? "read_committed" : "read_uncommitted";
    }

    private void transact(JsonNode command, String topic) throws Exception {
        String name = command.path("transactor").asText();
        KafkaProducer<String, String> producer = transactors.get(name);
        switch (command.get("do").asText()) {
            case "txn_open" -> {
                Properties settings = settings();
                settings.put("transactional.id", command.get("transactional_id").asText());
                producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                transactors.put(name, producer);
                producer.initTransactions();
            }
            case "txn_begin" -> producer.beginTransaction();
            case "txn_send" -> {
                List<String> values = new ArrayList<>();
                command.get("values").forEach(each -> values.add(each.asText()));
                send(producer, topic, values);
            }
            case "txn_end" -> end(producer, command.get("commit").asBoolean());
            case "txn_transform" -> transform(producer, topic, command);
            case "txn_close" -> transactors.remove(name).close(Duration.ZERO);
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, List<String> values)
            throws Exception {
        List<Future<RecordMetadata>> sends = new ArrayList<>();
        for (String value : values) {
            sends.add(producer.send(new ProducerRecord<>(topic, 0, null, value)));
        }
        for (Future<RecordMetadata> send : sends) {
            wait(send);
        }
    }

    private static void end(KafkaProducer<String, String> producer, boolean commit) {
        if (commit) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    private void transform(KafkaProducer<String, String> producer, String source, JsonNode command) throws Exception {
        Properties settings = settings();
        settings.put("group.id", command.get("group").asText());
        settings.put("isolation.level", isolation(true));
        settings.put("max.poll.records", "1");
        int count = command.get("count").asInt();
        List<String> values = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        try (KafkaConsumer<String, String> consumer = consumer(settings)) {
            consumer.subscribe(List.of(source));
            while (values.size() < count) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException(values.size() + " of " + count + " records");
                }
                var records = consumer.poll(Duration.ofMillis(500));
                records.forEach(each -> values.add(each.value().toUpperCase()));
                ends.putAll(records.nextOffsets());
            }
            producer.beginTransaction();
            send(producer, command.get("target").asText(), values);
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            end(producer, command.get("commit").asBoolean());
        }
    }

    private static <T> T wait(Future<T> future) throws Exception {
        return future.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
    }

    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("metadata.max.age.ms", "2000");
        return settings;
    }

    private Admin admin() {
        if (admin == null) {
            admin = Admin.create(settings());
        }
        return admin;
    }

    private void produce(String topic, JsonNode command, ArrayNode offsets) throws Exception {
        KafkaProducer<String, String> producer = producers.computeIfAbsent(
                command.get("codec").asText() + command.get("acks").asText() + command.get("idempotent").asText(),
                kind -> {
                    Properties settings = settings();
                    settings.put("compression.type", command.get("codec").asText());
                    settings.put("acks", command.get("acks").asText());
                    settings.put("enable.idempotence", command.get("idempotent").asText());
                    settings.put("linger.ms", "2");
                    settings.put("batch.size", "4096");
                    return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                });
        List<Future<RecordMetadata>> sends = new ArrayList<>();
        for (JsonNode record : command.get("records")) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : record.get("headers")) {
                String value = text(header.get(1));
                byte[] bytes = value == null ? null : value.getBytes(StandardCharsets.UTF_8);
                headers.add(new RecordHeader(header.get(0).asText(), bytes));
            }
            Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
            String key = text(record.get("key"));
            String value = text(record.get("value"));
            sends.add(producer.send(new ProducerRecord<>(topic, 0, timestamp, key, value, headers)));
        }
        for (Future<RecordMetadata> send : sends) {
            RecordMetadata done = wait(send);
            offsets.add(done.hasOffset() ? done.offset() : -1);
        }
    }

    private KafkaConsumer<String, String> consumer(Properties settings) {
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private void fetch(String topic, JsonNode command, ArrayNode records) {
        int count = command.get("count").asInt();
        TopicPartition partition = new TopicPartition(topic, 0);
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        try (KafkaConsumer<String, String> consumer = consumer(settings())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, command.get("offset").asLong());
            while (records.size() < count) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException(records.size() + " of " + count + " records");
                }
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(500))) {
                    if (records.size() < count) {
                        records.add(told(each));
                    }
                }
            }
        }
    }

    private long offsetAt(String topic, long timestamp) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(settings())) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            return found == null ? -1 : found.offset();
        }
    }

    private static String text(JsonNode value) {
        return value.isNull() ? null : value.asText();
    }

    private static ObjectNode told(ConsumerRecord<String, String> record) {
        ObjectNode told = JSON.createObjectNode();
        told.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        told.put("key", record.key()).put("value", record.value());
        ArrayNode headers = told.putArray("headers");
        for (Header header : record.headers()) {
            String value = header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8);
            headers.addArray().add(header.key()).add(value);
        }
        return told;
    }

    /** A consumer in a group, in a thread that alone touches it. */
    private final class Member {
        private final List<ObjectNode> records = new ArrayList<>();
        private final List<CountDownLatch> wishes = new ArrayList<>();
        private final Thread thread;
        private Set<Integer> owned = new HashSet<>();
        private Exception failure;
        private volatile boolean isOver;

        Member(Properties settings, String group, String topic) {
            settings.put("group.id", group);
            settings.put("session.timeout.ms", "10000");
            settings.put("heartbeat.interval.ms", "500");
            thread = new Thread(() -> run(settings, topic), "member of " + group);
            thread.setDaemon(true);
            thread.start();
        }

        private void run(Properties settings, String topic) {
            try (KafkaConsumer<String, String> consumer = consumer(settings)) {
                consumer.subscribe(List.of(topic));
                while (!isOver) {
                    step(consumer);
                }
            } catch (WakeupException over) {
                // Nobody wakes it up but the end.
            } catch (Exception error) {
                error.printStackTrace();
                synchronized (this) {
                    failure = error;
                }
            }
        }

        private void step(KafkaConsumer<String, String> consumer) {
            List<ObjectNode> found = new ArrayList<>();
            consumer.poll(Duration.ofMillis(50)).forEach(record -> found.add(told(record)));
            List<CountDownLatch> wanted;
            synchronized (this) {
                records.addAll(found);
                owned = new HashSet<>();
                consumer.assignment().forEach(partition -> owned.add(partition.partition()));
                wanted = new ArrayList<>(wishes);
            }
            if (wanted.isEmpty()) {
                return;
            }
            try {
                consumer.commitSync();
            } catch (RetriableException | CommitFailedException again) {
                return; // Where the group is about to be shared out anew, it takes polls before a commit is taken.
            }
            synchronized (this) {
                wishes.removeAll(wanted);
            }
            wanted.forEach(CountDownLatch::countDown);
        }

        private synchronized void check() throws Exception {
            if (failure != null) {
                throw failure;
            }
        }

        synchronized void look(ObjectNode answer) throws Exception {
            check();
            ArrayNode partitions = answer.putArray("owned");
            owned.forEach(partitions::add);
            answer.putArray("records").addAll(records);
            records.clear();
        }

        void commit() throws Exception {
            CountDownLatch done = new CountDownLatch(1);
            synchronized (this) {
                wishes.add(done);
            }
            if (!done.await(DEADLINE_MS, TimeUnit.MILLISECONDS)) {
                check();
                throw new IllegalStateException("a commit was not answered");
            }
        }

        void leave() throws Exception {
            isOver = true;
            thread.join(DEADLINE_MS);
            check();
        }
    }
}

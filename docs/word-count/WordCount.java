// Counts the words of the topic `lines` exactly once, and writes each count to the topic `counts`. docs/tour.md runs it.

import static org.apache.kafka.streams.StreamsConfig.*;

import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class WordCount {
    static Topology topology() {
        var text = Serdes.String();
        var builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.ByteArray(), text))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", text, text))
            // The store `totals` has its changes in the compacted topic word-count-totals-changelog.
            .count(Materialized.as("totals"))
            .toStream()
            .mapValues(count -> count.toString())
            .to("counts", Produced.with(text, text));
        return builder.build();
    }

    static Properties options() {
        var options = new Properties();
        options.put(APPLICATION_ID_CONFIG, "word-count");
        options.put(BOOTSTRAP_SERVERS_CONFIG, System.getenv("RAFTKA_BROKERS"));
        options.put(PROCESSING_GUARANTEE_CONFIG, EXACTLY_ONCE_V2);
        options.put(STATE_DIR_CONFIG, "build/word-count");
        // Each count is written, and not only the last one of a transaction.
        options.put(STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        return options;
    }

    public static void main(String[] arguments) throws InterruptedException {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
        var streams = new KafkaStreams(topology(), options());
        var running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            } else if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        running.await();
        System.out.println("counts words; Ctrl-C ends it");
    }
}

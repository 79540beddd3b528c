import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * A Flink job on a mini cluster of its own: it writes the numbers from 0 exactly once, and its tasks fail amid that.
 *
 * <p>Arguments: BROKERS TOPIC COUNT PER_SECOND RESTARTS [TRANSACTION_TIMEOUT_MS]. The topic's name is the prefix of the
 * transactional ids. Without a time-out the sink has its own, an hour. The last lines of stdout are "faults: NAME ...",
 * and one "cause: EXCEPTION" for each cause of the job's end. The program ends with 0 if the job finished, else with 1.
 */
public final class FlinkSink {
    private static final int PARALLELISM = 2;
    private static final int CHECKPOINT_MS = 500;
    private static final Duration RESTART_DELAY = Duration.ofMillis(200);

    /** Where a task fails. Flink tells the operators of a chain about a checkpoint from the last one to the first. */
    enum Fault {
        /** Between two records. */
        RECORD,
        /** The sink has flushed its transaction for a checkpoint, which never completes: it must be aborted. */
        FLUSHED,
        /** The checkpoint is complete, and the sink has not committed its transaction: the next task must commit it. */
        UNCOMMITTED,
        /** The sink has committed its transaction, and the next task does not know that: it commits it again. */
        COMMITTED
    }

    /** Each is raised once, when its share of the numbers has passed. */
    private static final List<Fault> PLAN =
            List.of(Fault.RECORD, Fault.FLUSHED, Fault.UNCOMMITTED, Fault.COMMITTED, Fault.UNCOMMITTED, Fault.RECORD);

    // Tasks of the mini cluster are threads here, so that these outlive a task.
    private static final AtomicLong passed = new AtomicLong();
    private static final AtomicInteger raised = new AtomicInteger();
    private static volatile long share;

    private FlinkSink() {}

    public static void main(String[] arguments) {
        long count = Long.parseLong(arguments[2]);
        share = count / (PLAN.size() + 1);
        int end = 0;
        String causes = "";
        try {
            run(arguments, count);
        } catch (Exception failure) {
            end = 1;
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                causes += "cause: " + cause.toString().replace('\n', ' ') + "\n";
            }
        }
        List<Fault> done = PLAN.subList(0, raised.get());
        System.out.println("faults: " + done.stream().map(Fault::name).collect(Collectors.joining(" ")));
        System.out.print(causes);
        System.out.flush();
        // The mini cluster's threads may live on.
        Runtime.getRuntime().halt(end);
    }

    private static void run(String[] arguments, long count) throws Exception {
        Configuration options = new Configuration();
        options.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        options.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, Integer.parseInt(arguments[4]));
        options.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, RESTART_DELAY);
        options.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(16));
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, options);
        job.enableCheckpointing(CHECKPOINT_MS);
        DataGeneratorSource<Long> numbers =
                new DataGeneratorSource<>(
                        number -> number,
                        count,
                        RateLimiterStrategy.perSecond(Double.parseDouble(arguments[3])),
                        Types.LONG);
        DataStream<String> texts =
                job.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers").map(new BeforeSink());
        // One chain with two ends: this one, which is added first, hears of a checkpoint before the sink does.
        texts.map(new BesideSink()).sinkTo(new DiscardingSink<>());
        texts.sinkTo(kafka(arguments));
        job.execute();
    }

    private static KafkaSink<String> kafka(String[] arguments) {
        KafkaSinkBuilder<String> builder =
                KafkaSink.<String>builder()
                        .setBootstrapServers(arguments[0])
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(arguments[1])
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.<String>builder()
                                        .setTopic(arguments[1])
                                        .setValueSerializationSchema(new SimpleStringSchema())
                                        .build());
        if (arguments.length > 5) {
            builder.setProperty("transaction.timeout.ms", arguments[5]);
        }
        return builder.build();
    }

    private static void failIfDue(Fault here) {
        int next = raised.get();
        boolean isDue = next < PLAN.size() && PLAN.get(next) == here && passed.get() >= (next + 1) * share;
        if (isDue && raised.compareAndSet(next, next + 1)) {
            // Flink tells a whole chain about a checkpoint before an Exception counts; an Error counts at once.
            throw new Error("planned: " + here);
        }
    }

    /** Comes before the sink in its chain. */
    private static final class BeforeSink
            implements MapFunction<Long, String>, CheckpointedFunction, CheckpointListener {
        @Override
        public String map(Long number) {
            passed.incrementAndGet();
            failIfDue(Fault.RECORD);
            return number.toString();
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}

        @Override
        public void snapshotState(FunctionSnapshotContext context) {
            failIfDue(Fault.FLUSHED);
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            failIfDue(Fault.COMMITTED);
        }
    }

    /** Hears of a checkpoint before the sink does. */
    private static final class BesideSink implements MapFunction<String, String>, CheckpointListener {
        @Override
        public String map(String text) {
            return text;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            failIfDue(Fault.UNCOMMITTED);
        }
    }
}

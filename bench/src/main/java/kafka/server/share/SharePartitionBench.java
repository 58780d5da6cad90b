package kafka.server.share;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.SystemTimerReaper;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;

import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Kafka's share partition through the cycles of crates/share-coordinator/benches/share_partition.rs, under the same
 * names. Every cycle begins and ends with nothing in flight; a time is that of one cycle, taken by itself, so that the
 * median does not tell how busy the machine was.
 */
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(value = 1, jvmArgs = {"-Xms2g", "-Xmx4g"})
@Warmup(iterations = 12, time = 1)
@Measurement(iterations = 3, time = 1)
public class SharePartitionBench {
    private static final String MEMBER = "Zk5sQ2d4T3mXr8uVw1aBcA";
    private static final List<Byte> ACCEPT = List.of((byte) 1);

    /** One share partition under the timer that a broker has. */
    @State(Scope.Benchmark)
    public static class One {
        final Harness.LogBatch batchOf500 = new Harness.LogBatch(500);
        final Harness.LogBatch batchOf5 = new Harness.LogBatch(5);
        final List<String> members = new ArrayList<>();
        final List<Byte> mixed = new ArrayList<>();
        Timer timer;
        Harness harness;

        @Setup
        public void start() {
            timer = new SystemTimerReaper("bench", new SystemTimer("bench"));
            harness = new Harness(0, timer, null);
            for (int index = 0; index < 20; index++) {
                members.add(String.format("%02d5sQ2d4T3mXr8uVw1aBcA", index));
            }
            for (int index = 0; index < 500; index++) {
                mixed.add(new byte[] {1, 3, 1, 0, 1}[index % 5]);
            }
        }

        @TearDown
        public void stop() throws Exception {
            timer.close();
        }
    }

    private static ShareAcknowledgementBatch accept(long first, long last) {
        return new ShareAcknowledgementBatch(first, last, ACCEPT);
    }

    @Benchmark
    public void one_range_of_500(One one) {
        Harness harness = one.harness;
        long first = harness.first;
        harness.acquire(MEMBER, one.batchOf500, 500, ShareAcquireMode.BATCH_OPTIMIZED);
        harness.acknowledge(MEMBER, List.of(accept(first, first + 499)));
        harness.endCycle(500);
    }

    @Benchmark
    public void single_offsets_500_in_one_call(One one) {
        Harness harness = one.harness;
        long first = harness.first;
        harness.acquire(MEMBER, one.batchOf500, 500, ShareAcquireMode.BATCH_OPTIMIZED);
        List<ShareAcknowledgementBatch> batches = new ArrayList<>(500);
        for (long offset = first; offset < first + 500; offset++) {
            batches.add(accept(offset, offset));
        }
        harness.acknowledge(MEMBER, batches);
        harness.endCycle(500);
    }

    @Benchmark
    public void single_offsets_in_500_calls(One one) {
        Harness harness = one.harness;
        long first = harness.first;
        harness.acquire(MEMBER, one.batchOf500, 500, ShareAcquireMode.BATCH_OPTIMIZED);
        for (long offset = first; offset < first + 500; offset++) {
            harness.acknowledge(MEMBER, List.of(accept(offset, offset)));
        }
        harness.endCycle(500);
    }

    @Benchmark
    public void types_mixed_per_offset_500(One one) {
        Harness harness = one.harness;
        long first = harness.first;
        harness.acquire(MEMBER, one.batchOf500, 500, ShareAcquireMode.BATCH_OPTIMIZED);
        harness.acknowledge(MEMBER, List.of(new ShareAcknowledgementBatch(first, first + 499, one.mixed)));
        harness.endCycle(500);
    }

    private static void interleaved(One one, Harness.LogBatch batch, ShareAcquireMode mode) {
        Harness harness = one.harness;
        long first = harness.first;
        for (int range = 0; range < 100; range++) {
            harness.acquire(one.members.get(range % 20), batch, 5, mode);
        }
        for (int member = 0; member < 20; member++) {
            List<ShareAcknowledgementBatch> ranges = new ArrayList<>(5);
            for (int index = 0; index < 5; index++) {
                long low = first + 5 * member + 100 * index;
                ranges.add(accept(low, low + 4));
            }
            harness.acknowledge(one.members.get(member), ranges);
        }
        harness.endCycle(500);
    }

    @Benchmark
    public void ranges_of_5_over_20_members(One one) {
        interleaved(one, one.batchOf5, ShareAcquireMode.BATCH_OPTIMIZED);
    }

    @Benchmark
    public void ranges_of_5_over_20_members_split(One one) {
        interleaved(one, one.batchOf500, ShareAcquireMode.RECORD_LIMIT);
    }

    /** Many share partitions under one timer, each with metrics of its own as in a broker. */
    @State(Scope.Benchmark)
    public static class Many {
        final Harness.LogBatch batchOf50 = new Harness.LogBatch(50);
        final List<Harness> harnesses = new ArrayList<>();
        Timer timer;

        @Setup
        public void start() {
            timer = new SystemTimerReaper("bench", new SystemTimer("bench"));
            for (int number = 0; number < 10_000; number++) {
                harnesses.add(new Harness(number, timer, null));
            }
        }

        @TearDown
        public void stop() throws Exception {
            timer.close();
        }
    }

    /** The same without metrics. */
    @State(Scope.Benchmark)
    public static class ManyUncounted {
        final Harness.LogBatch batchOf50 = new Harness.LogBatch(50);
        final List<Harness> harnesses = new ArrayList<>();
        Timer timer;

        @Setup
        public void start() {
            timer = new SystemTimerReaper("bench", new SystemTimer("bench"));
            Harness.NoMetrics metrics = new Harness.NoMetrics();
            for (int number = 0; number < 10_000; number++) {
                harnesses.add(new Harness(number, timer, metrics));
            }
        }

        @TearDown
        public void stop() throws Exception {
            timer.close();
        }
    }

    private static void cycle(List<Harness> harnesses, Harness.LogBatch batch) {
        for (Harness harness : harnesses) {
            harness.acquire(MEMBER, batch, 50, ShareAcquireMode.BATCH_OPTIMIZED);
        }
        for (Harness harness : harnesses) {
            harness.acknowledge(MEMBER, List.of(accept(harness.first, harness.first + 49)));
            harness.endCycle(50);
        }
    }

    @Benchmark
    public void partitions_10000_with_50_records(Many many) {
        cycle(many.harnesses, many.batchOf50);
    }

    @Benchmark
    public void partitions_10000_with_50_records_uncounted(ManyUncounted many) {
        cycle(many.harnesses, many.batchOf50);
    }

    /** Locks that are about to run out; their tasks are run one after another, without the timer's thread. */
    @State(Scope.Thread)
    public static class Expiring {
        final Harness.LogBatch batchOf400 = new Harness.LogBatch(400);
        Harness.ManualTimer timer;

        private Harness fresh() {
            timer = new Harness.ManualTimer();
            return new Harness(0, timer, NO_METRICS);
        }

        void run() {
            for (TimerTask task : timer.tasks) {
                task.run();
            }
        }
    }

    private static final Harness.NoMetrics NO_METRICS = new Harness.NoMetrics();

    /** 400 records under one lock. */
    public static class Together extends Expiring {
        @Setup(Level.Invocation)
        public void lock() {
            super.fresh().acquire(MEMBER, batchOf400, 400, ShareAcquireMode.BATCH_OPTIMIZED);
        }
    }

    /** 400 records under a lock each. */
    public static class Split extends Expiring {
        @Setup(Level.Invocation)
        public void lock() {
            Harness harness = super.fresh();
            for (int record = 0; record < 400; record++) {
                harness.acquire(MEMBER, batchOf400, 1, ShareAcquireMode.RECORD_LIMIT);
            }
        }
    }

    @Benchmark
    public void expiry_of_400_acquired_together(Together locks) {
        locks.run();
    }

    @Benchmark
    public void expiry_of_400_split(Split locks) {
        locks.run();
    }
}

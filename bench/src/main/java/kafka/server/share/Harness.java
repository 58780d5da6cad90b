package kafka.server.share;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.partition.PartitionListener;
import org.apache.kafka.server.share.PartitionMetadataProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.NoOpShareGroupDLQManager;
import org.apache.kafka.server.share.metrics.SharePartitionMetrics;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateResult;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateParameters;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateResult;
import org.apache.kafka.server.share.persister.PartitionAllData;
import org.apache.kafka.server.share.persister.PartitionErrorData;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;

/** One share partition of Kafka's, with what it is driven by. */
final class Harness {
    private static final String GROUP = "g";
    private static final Uuid TOPIC_ID = new Uuid(1, 2);
    private static final AbstractConfig CONFIG = new AbstractConfig(
        Utils.mergeConfigs(List.of(GroupCoordinatorConfig.CONFIG_DEF, ShareGroupConfig.CONFIG_DEF)), Map.of(), false);
    private static final ShareGroupConfigProvider CONFIGS = new ShareGroupConfigProvider(
        new GroupConfigManager(new GroupCoordinatorConfig(CONFIG), new ShareGroupConfig(CONFIG)));

    final SharePartition partition;
    /** The offset at which the next cycle begins. */
    long first;

    Harness(int number, Timer timer, SharePartitionMetrics metrics) {
        TopicIdPartition topicIdPartition = new TopicIdPartition(TOPIC_ID, number, "t");
        SharePartitionMetrics own = metrics == null ? new SharePartitionMetrics(GROUP, "t", number) : metrics;
        partition = new SharePartition(GROUP, topicIdPartition, 0, 2_000, 5, 30_000, timer, Time.SYSTEM,
            new InstantPersister(number), new EmptyLog(), key -> { }, CONFIGS,
            SharePartition.SharePartitionState.EMPTY, null, own, () -> false, new NoOpShareGroupDLQManager());
        partition.maybeInitialize().join();
    }

    /** Acquires from a log whose next record batch is the one of {@code batch}. */
    void acquire(String member, LogBatch batch, int maxRecords, ShareAcquireMode mode) {
        long fetchOffset = partition.nextFetchOffset();
        batch.moveTo(fetchOffset / batch.length * batch.length);
        int count = partition.acquire(member, mode, maxRecords, maxRecords, fetchOffset, batch.data,
            FetchIsolation.HIGH_WATERMARK).count();
        if (count != maxRecords) {
            throw new IllegalStateException("acquired " + count + " of " + maxRecords);
        }
    }

    void acknowledge(String member, List<ShareAcknowledgementBatch> batches) {
        CompletableFuture<Void> outcome = partition.acknowledge(member, batches);
        if (!outcome.isDone() || outcome.isCompletedExceptionally()) {
            throw new IllegalStateException("not acknowledged: " + outcome);
        }
    }

    /** Checks that nothing is in flight. */
    void endCycle(int recordCount) {
        first += recordCount;
        if (partition.startOffset() != first) {
            throw new IllegalStateException("something is left in flight");
        }
    }

    /** A record batch as it was read from the log, which can be moved along it. */
    static final class LogBatch {
        final int length;
        final FetchPartitionData data;
        private final ByteBuffer buffer;

        LogBatch(int length) {
            this.length = length;
            SimpleRecord[] records = new SimpleRecord[length];
            for (int index = 0; index < length; index++) {
                records[index] = new SimpleRecord(0L, new byte[100]);
            }
            MemoryRecords batch = MemoryRecords.withRecords(Compression.NONE, records);
            // Not the buffer's duplicate: the base offset is written through it.
            buffer = batch.buffer();
            data = new FetchPartitionData(Errors.NONE, Long.MAX_VALUE, 0, batch, Optional.empty(),
                OptionalLong.empty(), Optional.empty(), OptionalInt.empty(), false);
        }

        void moveTo(long baseOffset) {
            buffer.putLong(0, baseOffset);
        }
    }

    /** Keeps the locks for a benchmark that lets them run out. */
    static final class ManualTimer implements Timer {
        final List<TimerTask> tasks = new ArrayList<>();

        @Override
        public void add(TimerTask task) {
            tasks.add(task);
        }

        @Override
        public boolean advanceClock(long timeoutMs) {
            return false;
        }

        @Override
        public int size() {
            return tasks.size();
        }

        @Override
        public void close() {
        }
    }

    /** Metrics that all partitions share and that count nothing. */
    static final class NoMetrics extends SharePartitionMetrics {
        NoMetrics() {
            super(GROUP, "none", 0);
        }

        @Override
        public void registerInFlightMessageCount(java.util.function.Supplier<Integer> count) {
        }

        @Override
        public void registerInFlightBatchCount(java.util.function.Supplier<Integer> count) {
        }

        @Override
        public void recordAcquisitionLockTimeoutPerSec(long count) {
        }

        @Override
        public void recordInFlightBatchMessageCount(long count) {
        }

        @Override
        public void recordFetchLockTimeMs(long ms) {
        }

        @Override
        public void recordFetchLockRatio(int ratio) {
        }
    }

    /** A persister whose every answer is there at once. */
    private static final class InstantPersister implements Persister {
        private final CompletableFuture<WriteShareGroupStateResult> written;
        private final CompletableFuture<ReadShareGroupStateResult> read;

        InstantPersister(int number) {
            PartitionErrorData done = PartitionFactory.newPartitionErrorData(number, Errors.NONE.code(), "");
            written = CompletableFuture.completedFuture(new WriteShareGroupStateResult.Builder()
                .setTopicsData(List.of(new TopicData<>(TOPIC_ID, List.of(done)))).build());
            PartitionAllData state =
                PartitionFactory.newPartitionAllData(number, 1, 0, Errors.NONE.code(), "", List.of());
            read = CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder()
                .setTopicsData(List.of(new TopicData<>(TOPIC_ID, List.of(state)))).build());
        }

        @Override
        public CompletableFuture<InitializeShareGroupStateResult> initializeState(
            InitializeShareGroupStateParameters parameters) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters parameters) {
            return read;
        }

        @Override
        public CompletableFuture<WriteShareGroupStateResult> writeState(
            WriteShareGroupStateParameters parameters) {
            return written;
        }

        @Override
        public CompletableFuture<DeleteShareGroupStateResult> deleteState(
            DeleteShareGroupStateParameters parameters) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<ReadShareGroupStateSummaryResult> readSummary(
            ReadShareGroupStateSummaryParameters parameters) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void stop() {
        }
    }

    /** A log that a share partition asks for nothing but its epoch. */
    private static final class EmptyLog implements PartitionMetadataProvider {
        @Override
        public long offsetForEarliestTimestamp(TopicIdPartition partition, int leaderEpoch) {
            return 0;
        }

        @Override
        public long offsetForLatestTimestamp(TopicIdPartition partition, int leaderEpoch) {
            return 0;
        }

        @Override
        public long offsetForTimestamp(TopicIdPartition partition, long timestamp, int leaderEpoch) {
            return 0;
        }

        @Override
        public LogOffsetMetadata endOffsetMetadata(TopicIdPartition partition, FetchIsolation isolation) {
            return new LogOffsetMetadata(0);
        }

        @Override
        public int leaderEpoch(TopicIdPartition partition) {
            return 0;
        }

        @Override
        public boolean addPartitionListener(TopicIdPartition partition, PartitionListener listener) {
            return true;
        }

        @Override
        public void removePartitionListener(TopicIdPartition partition, PartitionListener listener) {
        }
    }
}

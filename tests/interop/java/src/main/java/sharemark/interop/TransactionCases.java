package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.same;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Transactional producers and what readers of both isolation levels see. */
final class TransactionCases {
  private TransactionCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("commit-and-abort", TransactionCases::commitAndAbort);
    cases.put("many-transactions", TransactionCases::many);
    cases.put("several-partitions", TransactionCases::severalPartitions);
    cases.put("fenced-producer", TransactionCases::fenced);
    cases.put("takeover-aborts", TransactionCases::takeover);
    cases.put("last-stable-offset", TransactionCases::lastStableOffset);
    cases.put("empty-transaction", TransactionCases::empty);
  }

  private static KafkaProducer<String, String> transactional(Broker broker, String id) {
    KafkaProducer<String, String> producer = broker.producer("transactional.id", id, "max.block.ms", 20_000);
    producer.initTransactions();
    return producer;
  }

  private static void commitAndAbort(Broker broker) throws Exception {
    String topic = broker.createTopic("txn", 1);
    try (KafkaProducer<String, String> producer = transactional(broker, broker.fresh("id"))) {
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "a"));
      producer.send(new ProducerRecord<>(topic, "b"));
      producer.commitTransaction();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "c"));
      producer.flush();
      producer.abortTransaction();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "d"));
      producer.commitTransaction();
    }
    same(List.of("a", "b", "d"), broker.readValues(topic, 0, "read_committed"), "committed");
    same(List.of("a", "b", "c", "d"), broker.readValues(topic, 0, "read_uncommitted"), "uncommitted");
  }

  private static void many(Broker broker) throws Exception {
    String topic = broker.createTopic("many", 1);
    int committed = 0;
    try (KafkaProducer<String, String> producer = transactional(broker, broker.fresh("id"))) {
      for (int i = 0; i < 60; i++) {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, "v" + i));
        if (i % 3 == 2) {
          producer.flush();
          producer.abortTransaction();
        } else {
          producer.commitTransaction();
          committed++;
        }
      }
    }
    same(committed, broker.readValues(topic, 0, "read_committed").size(), "committed records");
  }

  private static void severalPartitions(Broker broker) throws Exception {
    String topic = broker.createTopic("several", 4);
    try (KafkaProducer<String, String> producer = transactional(broker, broker.fresh("id"))) {
      producer.beginTransaction();
      for (int p = 0; p < 4; p++) {
        producer.send(new ProducerRecord<>(topic, p, null, "v" + p));
      }
      producer.commitTransaction();
    }
    for (int p = 0; p < 4; p++) {
      same(List.of("v" + p), broker.readValues(topic, p, "read_committed"), "partition " + p);
    }
  }

  private static void fenced(Broker broker) throws Exception {
    String topic = broker.createTopic("fenced", 1);
    String id = broker.fresh("id");
    try (KafkaProducer<String, String> old = transactional(broker, id)) {
      old.beginTransaction();
      old.send(new ProducerRecord<>(topic, "old")).get();
      try (KafkaProducer<String, String> young = transactional(broker, id)) {
        Exception refused = fails(RuntimeException.class, () -> {
          try {
            old.commitTransaction();
          } catch (ProducerFencedException | InvalidProducerEpochException expected) {
            throw expected;
          } catch (Exception other) {
            throw new AssertionError("fenced by " + other, other);
          }
          return null;
        });
        Broker.holds(refused != null, "the old producer is fenced");
        young.beginTransaction();
        young.send(new ProducerRecord<>(topic, "young"));
        young.commitTransaction();
      }
      old.close(java.time.Duration.ZERO);
    }
    same(List.of("young"), broker.readValues(topic, 0, "read_committed"), "committed");
  }

  private static void takeover(Broker broker) throws Exception {
    String topic = broker.createTopic("takeover", 1);
    String id = broker.fresh("id");
    KafkaProducer<String, String> lost = transactional(broker, id);
    lost.beginTransaction();
    lost.send(new ProducerRecord<>(topic, "lost")).get();
    try (KafkaProducer<String, String> next = transactional(broker, id)) {
      same(List.of(), broker.readValues(topic, 0, "read_committed"), "committed after the takeover");
    }
    lost.close(java.time.Duration.ZERO);
  }

  private static void lastStableOffset(Broker broker) throws Exception {
    String topic = broker.createTopic("stable", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    try (KafkaProducer<String, String> producer = transactional(broker, broker.fresh("id"));
        KafkaConsumer<byte[], byte[]> committed = new KafkaConsumer<>(
            broker.config("isolation.level", IsolationLevel.READ_COMMITTED.toString()),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        KafkaConsumer<byte[], byte[]> uncommitted = new KafkaConsumer<>(broker.config(),
            new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "open")).get();
      same(0L, committed.endOffsets(List.of(tp)).get(tp), "last stable offset");
      same(1L, uncommitted.endOffsets(List.of(tp)).get(tp), "high watermark");
      producer.commitTransaction();
      long deadline = System.currentTimeMillis() + 5_000;
      while (committed.endOffsets(List.of(tp)).get(tp) != 2L && System.currentTimeMillis() < deadline) {
        Thread.sleep(10);
      }
      same(2L, committed.endOffsets(List.of(tp)).get(tp), "last stable offset after the marker");
    }
  }

  private static void empty(Broker broker) throws Exception {
    try (KafkaProducer<String, String> producer = transactional(broker, broker.fresh("id"))) {
      producer.beginTransaction();
      producer.commitTransaction();
      producer.beginTransaction();
      producer.abortTransaction();
    }
  }
}

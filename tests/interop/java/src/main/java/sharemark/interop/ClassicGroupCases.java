package sharemark.interop;

import static sharemark.interop.Broker.same;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Consumers of the classic protocol, and offsets that are committed in transactions. */
final class ClassicGroupCases {
  private static final Duration POLL = Duration.ofMillis(100);
  private static final long WAIT_MS = 30_000;

  private ClassicGroupCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("classic-subscribe-and-commit", ClassicGroupCases::subscribeAndCommit);
    cases.put("classic-rebalance-of-two", ClassicGroupCases::rebalanceOfTwo);
    cases.put("classic-cooperative", ClassicGroupCases::cooperative);
    cases.put("classic-static-member", ClassicGroupCases::staticMember);
    cases.put("classic-admin", ClassicGroupCases::admin);
    cases.put("standalone-offsets", ClassicGroupCases::standalone);
    cases.put("transactional-offsets", ClassicGroupCases::transactionalOffsets);
  }

  private static KafkaConsumer<String, String> consumer(Broker broker, String group, Object... pairs) {
    Map<String, Object> config = broker.config(pairs);
    config.put("group.id", group);
    config.put("group.protocol", "classic");
    config.put("auto.offset.reset", "earliest");
    config.putIfAbsent("enable.auto.commit", false);
    return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
  }

  private static void send(Broker broker, String topic, int partitions, String... values) throws Exception {
    try (KafkaProducer<String, String> producer = broker.producer()) {
      for (int i = 0; i < values.length; i++) {
        producer.send(new ProducerRecord<>(topic, i % partitions, null, values[i])).get();
      }
    }
  }

  private static List<String> take(KafkaConsumer<String, String> consumer, int count) {
    List<String> values = new ArrayList<>();
    long end = System.currentTimeMillis() + WAIT_MS;
    while (values.size() < count && System.currentTimeMillis() < end) {
      for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
        values.add(record.value());
      }
    }
    return values;
  }

  /** Polls all consumers until each has this many partitions. */
  private static void settle(int partitionsEach, List<KafkaConsumer<String, String>> consumers) {
    long end = System.currentTimeMillis() + WAIT_MS;
    while (consumers.stream().anyMatch(c -> c.assignment().size() != partitionsEach)) {
      if (end < System.currentTimeMillis()) {
        throw new AssertionError("no balance: " + consumers.stream().map(KafkaConsumer::assignment).toList());
      }
      consumers.forEach(consumer -> consumer.poll(POLL));
    }
  }

  private static void subscribeAndCommit(Broker broker) throws Exception {
    String topic = broker.createTopic("classic", 1);
    String group = broker.fresh("group");
    send(broker, topic, 1, "a", "b", "c");
    TopicPartition partition = new TopicPartition(topic, 0);
    try (KafkaConsumer<String, String> consumer = consumer(broker, group)) {
      consumer.subscribe(List.of(topic));
      same(List.of("a", "b", "c"), take(consumer, 3), "records");
      consumer.commitSync(Map.of(partition, new OffsetAndMetadata(2, "here")));
      same("here", consumer.committed(Set.of(partition)).get(partition).metadata(), "text");
    }
    try (KafkaConsumer<String, String> consumer = consumer(broker, group)) {
      consumer.subscribe(List.of(topic));
      same(List.of("c"), take(consumer, 1), "what was not committed");
      consumer.commitSync();
      same(3L, consumer.committed(Set.of(partition)).get(partition).offset(), "committed");
    }
  }

  private static void rebalanceOfTwo(Broker broker) throws Exception {
    String topic = broker.createTopic("two", 4);
    String group = broker.fresh("group");
    send(broker, topic, 4, "a", "b", "c", "d");
    try (KafkaConsumer<String, String> first = consumer(broker, group, "heartbeat.interval.ms", 200)) {
      first.subscribe(List.of(topic));
      same(4, take(first, 4).size(), "records of one member");
      first.commitSync();
      try (KafkaConsumer<String, String> second = consumer(broker, group, "heartbeat.interval.ms", 200)) {
        second.subscribe(List.of(topic));
        settle(2, List.of(first, second));
        Set<TopicPartition> all = new HashSet<>(first.assignment());
        all.addAll(second.assignment());
        same(4, all.size(), "partitions of both");
      }
      settle(4, List.of(first));
    }
  }

  private static void cooperative(Broker broker) throws Exception {
    String topic = broker.createTopic("cooperative", 4);
    String group = broker.fresh("group");
    Object[] config = {
      "heartbeat.interval.ms", 200,
      "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    };
    try (KafkaConsumer<String, String> first = consumer(broker, group, config);
        KafkaConsumer<String, String> second = consumer(broker, group, config)) {
      first.subscribe(List.of(topic));
      settle(4, List.of(first));
      second.subscribe(List.of(topic));
      settle(2, List.of(first, second));
    }
  }

  private static void staticMember(Broker broker) throws Exception {
    String topic = broker.createTopic("static", 2);
    String group = broker.fresh("group");
    Object[] config = {"group.instance.id", "place", "session.timeout.ms", 20_000};
    try (Admin admin = broker.admin()) {
      try (KafkaConsumer<String, String> consumer = consumer(broker, group, config)) {
        consumer.subscribe(List.of(topic));
        settle(2, List.of(consumer));
      }
      // Closed, it keeps its place.
      var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
      same(1, described.members().size(), "members after a close");
      same("place", described.members().iterator().next().groupInstanceId().orElse("none"), "place");
    }
  }

  private static void admin(Broker broker) throws Exception {
    String topic = broker.createTopic("admin", 2);
    String group = broker.fresh("group");
    TopicPartition partition = new TopicPartition(topic, 1);
    try (Admin admin = broker.admin()) {
      try (KafkaConsumer<String, String> consumer = consumer(broker, group)) {
        consumer.subscribe(List.of(topic));
        settle(2, List.of(consumer));
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        same(GroupState.STABLE, described.groupState(), "state");
        same(2, described.members().iterator().next().assignment().topicPartitions().size(), "assigned");
      }
      admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(7))).all().get();
      var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
      same(7L, offsets.get(partition).offset(), "altered offset");
      admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
      same(false, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
          .containsKey(partition), "a deleted offset is there");
      admin.deleteConsumerGroups(List.of(group)).all().get();
      same(false, admin.listGroups().all().get().stream().anyMatch(it -> it.groupId().equals(group)),
          "a deleted group is listed");
    }
  }

  private static void standalone(Broker broker) throws Exception {
    String topic = broker.createTopic("alone", 1);
    String group = broker.fresh("group");
    TopicPartition partition = new TopicPartition(topic, 0);
    try (KafkaConsumer<String, String> consumer = consumer(broker, group)) {
      consumer.assign(List.of(partition));
      consumer.commitSync(Map.of(partition, new OffsetAndMetadata(5)));
      same(5L, consumer.committed(Set.of(partition)).get(partition).offset(), "committed");
    }
  }

  /** Reads, writes and commits in one transaction; what was aborted is read again. */
  private static void transactionalOffsets(Broker broker) throws Exception {
    String input = broker.createTopic("in", 1);
    String output = broker.createTopic("out", 1);
    String group = broker.fresh("group");
    send(broker, input, 1, "a", "b", "c");
    try (KafkaProducer<String, String> producer = broker.producer("transactional.id", broker.fresh("id"))) {
      producer.initTransactions();
      for (boolean commits : List.of(false, true)) {
        try (KafkaConsumer<String, String> consumer =
            consumer(broker, group, "isolation.level", "read_committed")) {
          consumer.subscribe(List.of(input));
          List<String> values = take(consumer, 3);
          same(List.of("a", "b", "c"), values, "records, with a commit next: " + commits);
          producer.beginTransaction();
          for (String value : values) {
            producer.send(new ProducerRecord<>(output, value + "!"));
          }
          producer.sendOffsetsToTransaction(
              Map.of(new TopicPartition(input, 0), new OffsetAndMetadata(3)), consumer.groupMetadata());
          if (commits) {
            producer.commitTransaction();
          } else {
            producer.abortTransaction();
          }
        }
      }
    }
    same(List.of("a!", "b!", "c!"), broker.readValues(output, 0, "read_committed"), "output");
    try (Admin admin = broker.admin()) {
      var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
      same(3L, offsets.get(new TopicPartition(input, 0)).offset(), "committed with the output");
    }
  }
}

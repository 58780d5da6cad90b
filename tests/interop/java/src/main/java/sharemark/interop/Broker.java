package sharemark.interop;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The broker under test, and clients for it. */
final class Broker {
  private static final Duration POLL = Duration.ofMillis(200);
  private static final long WAIT_MS = 20_000;

  final String bootstrap;
  private int names;

  Broker(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  /** Returns a name that no other case uses. */
  synchronized String fresh(String prefix) {
    names++;
    return prefix + "-" + ProcessHandle.current().pid() + "-" + names;
  }

  Map<String, Object> config(Object... pairs) {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", bootstrap);
    for (int i = 0; i < pairs.length; i += 2) {
      config.put((String) pairs[i], pairs[i + 1]);
    }
    return config;
  }

  Admin admin() {
    return Admin.create(config());
  }

  KafkaProducer<String, String> producer(Object... pairs) {
    return new KafkaProducer<>(config(pairs), new StringSerializer(), new StringSerializer());
  }

  KafkaShareConsumer<String, String> shareConsumer(String group, Object... pairs) {
    Map<String, Object> config = config(pairs);
    config.put("group.id", group);
    return new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer());
  }

  /** Creates a topic and waits until a producer would find its leaders. */
  String createTopic(String prefix, int partitions) throws Exception {
    String topic = fresh(prefix);
    try (Admin admin = admin()) {
      admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
      long end = System.currentTimeMillis() + WAIT_MS;
      while (System.currentTimeMillis() < end) {
        try {
          if (admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().stream()
              .allMatch(p -> p.leader() != null && !p.leader().isEmpty())) {
            return topic;
          }
        } catch (java.util.concurrent.ExecutionException notYet) {
          Thread.sleep(20);
        }
      }
    }
    throw new AssertionError("no leaders for " + topic);
  }

  /** Makes a share group that starts at the beginning of its topics. */
  String shareGroup(String... settings) throws Exception {
    String group = fresh("share");
    Stream<String> start = Stream.of("share.auto.offset.reset", "earliest");
    alterGroup(group, Stream.concat(start, Arrays.stream(settings)).toArray(String[]::new));
    return group;
  }

  /** Changes configs of a group, given as names and values. */
  void alterGroup(String group, String... settings) throws Exception {
    List<AlterConfigOp> ops = new ArrayList<>();
    for (int i = 0; i < settings.length; i += 2) {
      ops.add(set(settings[i], settings[i + 1]));
    }
    try (Admin admin = admin()) {
      admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group),
          (Collection<AlterConfigOp>) ops)).all().get();
    }
  }

  static AlterConfigOp set(String name, String value) {
    return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
  }

  /** Reads one partition from its start, by assignment, up to its end as this isolation level sees it. */
  List<ConsumerRecord<byte[], byte[]>> readAll(String topic, int partition, String isolation) {
    TopicPartition tp = new TopicPartition(topic, partition);
    List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
        config("isolation.level", isolation, "enable.auto.commit", false, "auto.offset.reset", "earliest"),
        new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.assign(List.of(tp));
      consumer.seekToBeginning(List.of(tp));
      long end = consumer.endOffsets(List.of(tp)).get(tp);
      long deadline = System.currentTimeMillis() + WAIT_MS;
      while (consumer.position(tp) < end) {
        if (deadline < System.currentTimeMillis()) {
          throw new AssertionError("stuck at " + consumer.position(tp) + " of " + end + " in " + tp);
        }
        consumer.poll(POLL).forEach(records::add);
      }
    }
    return records;
  }

  List<String> readValues(String topic, int partition, String isolation) {
    return readAll(topic, partition, isolation).stream()
        .map(r -> r.value() == null ? null : new String(r.value(), StandardCharsets.UTF_8)).toList();
  }

  /** Polls a share consumer until something came that `enough` accepts. */
  static List<ConsumerRecord<String, String>> pollUntil(KafkaShareConsumer<String, String> consumer,
      Predicate<List<ConsumerRecord<String, String>>> enough) {
    List<ConsumerRecord<String, String>> all = new ArrayList<>();
    long deadline = System.currentTimeMillis() + WAIT_MS;
    while (!enough.test(all)) {
      if (deadline < System.currentTimeMillis()) {
        throw new AssertionError("only " + all.size() + " records came");
      }
      consumer.poll(POLL).forEach(all::add);
    }
    return all;
  }

  static List<ConsumerRecord<String, String>> pollOnce(KafkaShareConsumer<String, String> consumer) {
    return pollUntil(consumer, records -> !records.isEmpty());
  }

  static void same(Object expected, Object actual, String what) {
    if (!expected.equals(actual)) {
      throw new AssertionError(what + ": expected " + expected + ", got " + actual);
    }
  }

  static void holds(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError(what);
    }
  }

  /** Runs a call that must fail with an error of this class. */
  static <E extends Throwable> E fails(Class<E> error, java.util.concurrent.Callable<?> call) {
    try {
      call.call();
    } catch (Throwable thrown) {
      for (Throwable t = thrown; t != null; t = t.getCause()) {
        if (error.isInstance(t)) {
          return error.cast(t);
        }
      }
      throw new AssertionError("expected " + error.getSimpleName(), thrown);
    }
    throw new AssertionError("expected " + error.getSimpleName() + ", but nothing failed");
  }

  static Optional<Short> deliveryCount(ConsumerRecord<?, ?> record) {
    return record.deliveryCount();
  }
}

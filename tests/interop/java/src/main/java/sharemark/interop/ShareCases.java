package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.pollOnce;
import static sharemark.interop.Broker.pollUntil;
import static sharemark.interop.Broker.same;

import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Share consumers: implicit and explicit acknowledgement, redelivery, sharing. */
final class ShareCases {
  private static final Duration POLL = Duration.ofMillis(200);

  private ShareCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("share-implicit", ShareCases::implicit);
    cases.put("share-explicit-types", ShareCases::explicitTypes);
    cases.put("share-explicit-must-acknowledge", ShareCases::mustAcknowledge);
    cases.put("share-renew", ShareCases::renew);
    cases.put("share-close-releases", ShareCases::closeReleases);
    cases.put("share-lock-lapses", ShareCases::lockLapses);
    cases.put("share-delivery-limit", ShareCases::deliveryLimit);
    cases.put("share-two-members", ShareCases::twoMembers);
    cases.put("share-record-limit", ShareCases::recordLimit);
    cases.put("share-read-committed", ShareCases::readCommitted);
    cases.put("share-commit-async", ShareCases::commitAsync);
    cases.put("share-two-topics", ShareCases::twoTopics);
  }

  private static void produce(Broker broker, String topic, int partition, String... values) throws Exception {
    try (KafkaProducer<String, String> producer = broker.producer("linger.ms", 20)) {
      for (String value : values) {
        producer.send(new ProducerRecord<>(topic, partition, null, value));
      }
    }
  }

  private static String[] numbered(int count) {
    return IntStream.range(0, count).mapToObj(i -> "v" + i).toArray(String[]::new);
  }

  private static List<String> values(List<ConsumerRecord<String, String>> records) {
    return records.stream().map(ConsumerRecord::value).toList();
  }

  private static void nothingComes(KafkaShareConsumer<String, String> consumer, int polls) {
    for (int i = 0; i < polls; i++) {
      same(0, consumer.poll(POLL).count(), "records where none should come");
    }
  }

  private static void implicit(Broker broker) throws Exception {
    String topic = broker.createTopic("implicit", 1);
    String group = broker.shareGroup();
    produce(broker, topic, 0, numbered(100));
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
      consumer.subscribe(List.of(topic));
      List<ConsumerRecord<String, String>> records = pollUntil(consumer, all -> all.size() == 100);
      same(List.of(numbered(100)), values(records), "values");
      records.forEach(r -> same((short) 1, r.deliveryCount().orElseThrow(), "delivery count"));
      holds(consumer.commitSync().values().stream().allMatch(java.util.Optional::isEmpty), "the commit succeeds");
    }
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
      consumer.subscribe(List.of(topic));
      nothingComes(consumer, 8);
      produce(broker, topic, 0, "next");
      same(List.of("next"), values(pollOnce(consumer)), "what comes after");
    }
  }

  private static void explicitTypes(Broker broker) throws Exception {
    String topic = broker.createTopic("explicit", 1);
    String group = broker.shareGroup();
    produce(broker, topic, 0, numbered(4));
    try (KafkaShareConsumer<String, String> consumer =
        broker.shareConsumer(group, "share.acknowledgement.mode", "explicit")) {
      consumer.subscribe(List.of(topic));
      List<ConsumerRecord<String, String>> records = pollUntil(consumer, all -> all.size() == 4);
      consumer.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
      consumer.acknowledge(records.get(1), AcknowledgeType.RELEASE);
      consumer.acknowledge(records.get(2), AcknowledgeType.REJECT);
      consumer.acknowledge(records.get(3), AcknowledgeType.RELEASE);
      holds(consumer.commitSync().values().stream().allMatch(java.util.Optional::isEmpty), "the commit succeeds");
      Set<String> again = new HashSet<>();
      while (again.size() < 2) {
        for (ConsumerRecord<String, String> record : pollOnce(consumer)) {
          same((short) 2, record.deliveryCount().orElseThrow(), "delivery count");
          consumer.acknowledge(record, AcknowledgeType.ACCEPT);
          holds(again.add(record.value()), "once more only");
        }
      }
      same(Set.of("v1", "v3"), again, "released records");
      consumer.commitSync();
      nothingComes(consumer, 4);
    }
  }

  private static void mustAcknowledge(Broker broker) throws Exception {
    String topic = broker.createTopic("must", 1);
    String group = broker.shareGroup();
    produce(broker, topic, 0, "a");
    try (KafkaShareConsumer<String, String> consumer =
        broker.shareConsumer(group, "share.acknowledgement.mode", "explicit")) {
      consumer.subscribe(List.of(topic));
      ConsumerRecord<String, String> record = pollOnce(consumer).get(0);
      fails(IllegalStateException.class, () -> consumer.poll(POLL));
      consumer.acknowledge(record);
      consumer.commitSync();
    }
  }

  private static void renew(Broker broker) throws Exception {
    String topic = broker.createTopic("renew", 1);
    String group = broker.shareGroup("share.record.lock.duration.ms", "1500");
    produce(broker, topic, 0, "long-work");
    try (KafkaShareConsumer<String, String> consumer =
        broker.shareConsumer(group, "share.acknowledgement.mode", "explicit")) {
      consumer.subscribe(List.of(topic));
      ConsumerRecord<String, String> record = pollOnce(consumer).get(0);
      same(1500, consumer.acquisitionLockTimeoutMs().orElseThrow(), "lock duration");
      for (int i = 0; i < 3; i++) {
        Thread.sleep(700);
        consumer.acknowledge(record, AcknowledgeType.RENEW);
        holds(consumer.commitSync().values().stream().allMatch(java.util.Optional::isEmpty), "renewal " + i);
        record = pollOnce(consumer).get(0);
        same((short) 1, record.deliveryCount().orElseThrow(), "delivery count after renewal " + i);
      }
      consumer.acknowledge(record, AcknowledgeType.ACCEPT);
      holds(consumer.commitSync().values().stream().allMatch(java.util.Optional::isEmpty), "accepted at last");
    }
  }

  private static void closeReleases(Broker broker) throws Exception {
    String topic = broker.createTopic("close", 1);
    String group = broker.shareGroup();
    produce(broker, topic, 0, "a");
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
      consumer.subscribe(List.of(topic));
      pollOnce(consumer);
    }
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
      consumer.subscribe(List.of(topic));
      ConsumerRecord<String, String> again = pollOnce(consumer).get(0);
      same((short) 2, again.deliveryCount().orElseThrow(), "delivery count after close");
      consumer.commitSync();
    }
  }

  private static void lockLapses(Broker broker) throws Exception {
    String topic = broker.createTopic("lapse", 1);
    String group = broker.shareGroup("share.record.lock.duration.ms", "1000");
    produce(broker, topic, 0, "slow");
    try (KafkaShareConsumer<String, String> slow =
            broker.shareConsumer(group, "share.acknowledgement.mode", "explicit");
        KafkaShareConsumer<String, String> quick = broker.shareConsumer(group)) {
      slow.subscribe(List.of(topic));
      ConsumerRecord<String, String> held = pollOnce(slow).get(0);
      quick.subscribe(List.of(topic));
      ConsumerRecord<String, String> taken = pollOnce(quick).get(0);
      same((short) 2, taken.deliveryCount().orElseThrow(), "delivery count after a lapse");
      slow.acknowledge(held, AcknowledgeType.ACCEPT);
      holds(slow.commitSync().values().stream().allMatch(java.util.Optional::isPresent),
          "an acknowledgement after the lapse fails");
      holds(quick.commitSync().values().stream().allMatch(java.util.Optional::isEmpty), "the new owner's succeeds");
    }
  }

  private static void deliveryLimit(Broker broker) throws Exception {
    String topic = broker.createTopic("limit", 1);
    String group = broker.shareGroup("share.delivery.count.limit", "2");
    produce(broker, topic, 0, "poison");
    try (KafkaShareConsumer<String, String> consumer =
        broker.shareConsumer(group, "share.acknowledgement.mode", "explicit")) {
      consumer.subscribe(List.of(topic));
      for (short delivery = 1; delivery <= 2; delivery++) {
        ConsumerRecord<String, String> record = pollOnce(consumer).get(0);
        same(delivery, record.deliveryCount().orElseThrow(), "delivery count");
        consumer.acknowledge(record, AcknowledgeType.RELEASE);
        consumer.commitSync();
      }
      nothingComes(consumer, 4);
      produce(broker, topic, 0, "good");
      ConsumerRecord<String, String> good = pollOnce(consumer).get(0);
      same("good", good.value(), "value after the poison");
      consumer.acknowledge(good);
    }
  }

  private static void twoMembers(Broker broker) throws Exception {
    String topic = broker.createTopic("two", 2);
    String group = broker.shareGroup();
    Map<String, Integer> deliveries = new HashMap<>();
    try (KafkaShareConsumer<String, String> a = broker.shareConsumer(group, "max.poll.records", 10);
        KafkaShareConsumer<String, String> b = broker.shareConsumer(group, "max.poll.records", 10);
        KafkaProducer<String, String> producer = broker.producer()) {
      a.subscribe(List.of(topic));
      b.subscribe(List.of(topic));
      for (int i = 0; i < 200; i++) {
        producer.send(new ProducerRecord<>(topic, i % 2, null, "v" + i)).get();
      }
      long deadline = System.currentTimeMillis() + 20_000;
      while (deliveries.size() < 200 && System.currentTimeMillis() < deadline) {
        for (KafkaShareConsumer<String, String> consumer : List.of(a, b)) {
          consumer.poll(Duration.ofMillis(100)).forEach(r -> deliveries.merge(r.value(), 1, Integer::sum));
        }
      }
      a.commitSync();
      b.commitSync();
    }
    same(200, deliveries.size(), "records delivered");
    holds(deliveries.values().stream().allMatch(count -> count == 1), "each delivered once");
  }

  private static void recordLimit(Broker broker) throws Exception {
    String topic = broker.createTopic("record-limit", 1);
    String group = broker.shareGroup();
    produce(broker, topic, 0, numbered(10));
    try (KafkaShareConsumer<String, String> consumer =
        broker.shareConsumer(group, "share.acquire.mode", "record_limit", "max.poll.records", 3)) {
      consumer.subscribe(List.of(topic));
      int seen = 0;
      while (seen < 10) {
        int polled = pollOnce(consumer).size();
        holds(polled <= 3, "at most three records at once");
        seen += polled;
      }
      same(10, seen, "records");
    }
  }

  private static void readCommitted(Broker broker) throws Exception {
    String topic = broker.createTopic("committed", 1);
    String group = broker.shareGroup("share.isolation.level", "read_committed");
    try (KafkaProducer<String, String> producer = broker.producer("transactional.id", broker.fresh("id"))) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "aborted"));
      producer.flush();
      producer.abortTransaction();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "committed"));
      producer.commitTransaction();
    }
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
      consumer.subscribe(List.of(topic));
      same(List.of("committed"), values(pollOnce(consumer)), "values");
      consumer.commitSync();
      nothingComes(consumer, 3);
    }
  }

  private static void commitAsync(Broker broker) throws Exception {
    String topic = broker.createTopic("async", 1);
    String group = broker.shareGroup();
    produce(broker, topic, 0, numbered(5));
    Set<Long> acknowledged = new HashSet<>();
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
      consumer.setAcknowledgementCommitCallback((offsets, failure) -> {
        if (failure == null) {
          offsets.values().forEach(acknowledged::addAll);
        }
      });
      consumer.subscribe(List.of(topic));
      pollUntil(consumer, all -> all.size() == 5);
      consumer.commitAsync();
      long deadline = System.currentTimeMillis() + 10_000;
      while (acknowledged.size() < 5 && System.currentTimeMillis() < deadline) {
        consumer.poll(POLL);
      }
    }
    same(Set.of(0L, 1L, 2L, 3L, 4L), acknowledged, "offsets that the callback saw");
  }

  private static void twoTopics(Broker broker) throws Exception {
    String one = broker.createTopic("one", 2);
    String two = broker.createTopic("other", 1);
    String group = broker.shareGroup();
    produce(broker, one, 0, "a");
    produce(broker, one, 1, "b");
    produce(broker, two, 0, "c");
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
      consumer.subscribe(List.of(one, two));
      same(Set.of("a", "b", "c"), new HashSet<>(values(pollUntil(consumer, all -> all.size() == 3))), "values");
    }
  }
}

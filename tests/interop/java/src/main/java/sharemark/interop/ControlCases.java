package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.pollOnce;
import static sharemark.interop.Broker.pollUntil;
import static sharemark.interop.Broker.same;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Renewals as the broker counts them: what Kafka's own tests read in the broker's memory is read as a metric here. */
final class ControlCases {
  private static final String COUNTER = "kafka_server_ShareGroupMetrics_RecordAcknowledgementsPerSec_total";

  private ControlCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("metrics-renew-on-poll", ControlCases::renewOnPoll);
    cases.put("metrics-renew-on-commit", ControlCases::renewOnCommit);
    cases.put("metrics-renew-of-a-settled-record", ControlCases::renewOfSettled);
    cases.put("metrics-renew-while-others-wait", ControlCases::renewWhileOthersWait);
  }

  /** Returns how many records were acknowledged so far with this type. */
  private static long counted(String type) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + System.getenv("CONTROL") + "/metrics")).build();
    HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    same(200, answer.statusCode(), "status of /metrics");
    return answer.body().lines().filter(line -> line.startsWith(COUNTER) && line.contains("ackType=\"" + type + "\""))
        .mapToLong(line -> Long.parseLong(line.substring(line.lastIndexOf(' ') + 1))).sum();
  }

  private static void produce(Broker broker, String topic, int count) {
    try (KafkaProducer<String, String> producer = broker.producer("linger.ms", 20)) {
      for (int i = 0; i < count; i++) {
        producer.send(new ProducerRecord<>(topic, 0, null, "v" + i));
      }
    }
  }

  private static KafkaShareConsumer<String, String> consumer(Broker broker, String topic, String group) {
    KafkaShareConsumer<String, String> consumer =
        broker.shareConsumer(group, "share.acknowledgement.mode", "explicit");
    consumer.subscribe(List.of(topic));
    return consumer;
  }

  /** Counts the records whose acknowledgements the consumer is told to be answered. */
  private static AtomicInteger countTold(KafkaShareConsumer<String, String> consumer) {
    AtomicInteger told = new AtomicInteger();
    consumer.setAcknowledgementCommitCallback(
        (offsets, error) -> offsets.values().forEach(set -> told.addAndGet(set.size())));
    return told;
  }

  /** Accepts every other record and renews the rest. */
  private static void acceptAndRenew(KafkaShareConsumer<String, String> consumer,
      List<ConsumerRecord<String, String>> records) {
    for (int i = 0; i < records.size(); i++) {
      consumer.acknowledge(records.get(i), i % 2 == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW);
    }
  }

  private static void acceptAll(KafkaShareConsumer<String, String> consumer,
      List<ConsumerRecord<String, String>> records) {
    records.forEach(record -> consumer.acknowledge(record, AcknowledgeType.ACCEPT));
    holds(consumer.commitSync().values().stream().allMatch(Optional::isEmpty), "the commit succeeds");
  }

  private static void renewOnPoll(Broker broker) throws Exception {
    String topic = broker.createTopic("renew-poll", 1);
    String group = broker.shareGroup();
    long renewed = counted("Renew");
    long accepted = counted("Accept");
    produce(broker, topic, 10);
    try (KafkaShareConsumer<String, String> consumer = consumer(broker, topic, group)) {
      AtomicInteger told = countTold(consumer);
      acceptAndRenew(consumer, pollUntil(consumer, all -> all.size() == 10));
      // The poll carries the renewals and brings the renewed records again.
      acceptAll(consumer, pollUntil(consumer, all -> all.size() == 5));
      same(15, told.get(), "acknowledgements told to the callback");
    }
    same(5L, counted("Renew") - renewed, "renewals counted");
    same(10L, counted("Accept") - accepted, "acceptances counted");
  }

  private static void renewOnCommit(Broker broker) throws Exception {
    String topic = broker.createTopic("renew-commit", 1);
    String group = broker.shareGroup("share.record.lock.duration.ms", "15000");
    long renewed = counted("Renew");
    produce(broker, topic, 10);
    try (KafkaShareConsumer<String, String> consumer = consumer(broker, topic, group)) {
      List<ConsumerRecord<String, String>> records = pollUntil(consumer, all -> all.size() == 10);
      same(Optional.of(15000), consumer.acquisitionLockTimeoutMs(), "lock duration");
      broker.alterGroup(group, "share.record.lock.duration.ms", "25000");
      acceptAndRenew(consumer, records);
      Map<?, Optional<org.apache.kafka.common.KafkaException>> outcome = consumer.commitSync();
      same(1, outcome.size(), "partitions committed");
      holds(outcome.values().stream().allMatch(Optional::isEmpty), "the commit succeeds");
      same(5L, counted("Renew") - renewed, "renewals counted once committed");
      same(Optional.of(15000), consumer.acquisitionLockTimeoutMs(), "lock duration until the next poll");
      List<ConsumerRecord<String, String>> again = pollUntil(consumer, all -> all.size() == 5);
      same(Optional.of(25000), consumer.acquisitionLockTimeoutMs(), "lock duration of what was renewed");
      acceptAll(consumer, again);
    }
    same(5L, counted("Renew") - renewed, "renewals counted");
  }

  private static void renewOfSettled(Broker broker) throws Exception {
    String topic = broker.createTopic("renew-settled", 1);
    String group = broker.shareGroup();
    long renewed = counted("Renew");
    long rejected = counted("Reject");
    produce(broker, topic, 1);
    try (KafkaShareConsumer<String, String> consumer = consumer(broker, topic, group)) {
      ConsumerRecord<String, String> record = pollOnce(consumer).get(0);
      consumer.acknowledge(record, AcknowledgeType.REJECT);
      consumer.commitSync();
      fails(IllegalStateException.class, () -> {
        consumer.acknowledge(record, AcknowledgeType.RENEW);
        return null;
      });
    }
    same(0L, counted("Renew") - renewed, "renewals counted");
    same(1L, counted("Reject") - rejected, "rejections counted");
  }

  private static void renewWhileOthersWait(Broker broker) throws Exception {
    String topic = broker.createTopic("renew-others", 1);
    String group = broker.shareGroup();
    long renewed = counted("Renew");
    produce(broker, topic, 10);
    try (KafkaShareConsumer<String, String> consumer = consumer(broker, topic, group)) {
      AtomicInteger told = countTold(consumer);
      acceptAndRenew(consumer, pollUntil(consumer, all -> all.size() == 10));
      produce(broker, topic, 5);
      // The poll that carries the renewals brings nothing.
      same(0, consumer.poll(Duration.ofMillis(11500)).count(), "records beside the renewals");
      same(10, told.get(), "acknowledgements told to the callback");
      same(5L, counted("Renew") - renewed, "renewals counted by then");
      // What is renewed comes first, and must be acknowledged before anything new is fetched.
      List<ConsumerRecord<String, String>> again = pollUntil(consumer, all -> !all.isEmpty());
      same(5, again.size(), "renewed records");
      holds(again.stream().allMatch(record -> record.offset() < 10), "nothing new comes beside them");
      fails(IllegalStateException.class, () -> consumer.poll(Duration.ofMillis(100)));
      acceptAll(consumer, again);
      acceptAll(consumer, pollUntil(consumer, all -> all.size() == 5));
      same(20, told.get(), "acknowledgements told to the callback at last");
    }
    same(5L, counted("Renew") - renewed, "renewals counted");
  }
}

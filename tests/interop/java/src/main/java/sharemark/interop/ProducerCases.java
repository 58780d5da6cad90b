package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.same;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Plain and idempotent producers, and a consumer by assignment. */
final class ProducerCases {
  private ProducerCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("plain-producer", b -> roundTrip(b, "enable.idempotence", false, "acks", "1"));
    cases.put("acks-0-producer", ProducerCases::withoutAnswers);
    cases.put("idempotent-producer", b -> roundTrip(b, "enable.idempotence", true));
    for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
      cases.put("compression-" + codec, b -> roundTrip(b, "compression.type", codec, "linger.ms", 50));
    }
    cases.put("offsets-and-keys", ProducerCases::offsetsAndKeys);
    cases.put("too-large", ProducerCases::tooLarge);
    cases.put("consumer-offsets-for-times", ProducerCases::offsetsForTimes);
    cases.put("consumer-waits-for-new-records", ProducerCases::waits);
  }

  private static void roundTrip(Broker broker, Object... config) throws Exception {
    String topic = broker.createTopic("round", 1);
    List<String> sent = IntStream.range(0, 500).mapToObj(i -> "value-" + i).toList();
    try (KafkaProducer<String, String> producer = broker.producer(config)) {
      List<Future<RecordMetadata>> answers = new ArrayList<>();
      for (String value : sent) {
        answers.add(producer.send(new ProducerRecord<>(topic, value)));
      }
      for (int i = 0; i < sent.size(); i++) {
        same((long) i, answers.get(i).get().offset(), "offset");
      }
    }
    same(sent, broker.readValues(topic, 0, "read_uncommitted"), "values");
  }

  private static void withoutAnswers(Broker broker) throws Exception {
    String topic = broker.createTopic("fire", 1);
    try (KafkaProducer<String, String> producer = broker.producer("enable.idempotence", false, "acks", "0")) {
      for (int i = 0; i < 20; i++) {
        producer.send(new ProducerRecord<>(topic, "v" + i));
      }
      producer.flush();
    }
    long deadline = System.currentTimeMillis() + 10_000;
    int seen = 0;
    while (seen < 20 && System.currentTimeMillis() < deadline) {
      seen = broker.readValues(topic, 0, "read_uncommitted").size();
    }
    same(20, seen, "records");
  }

  private static void offsetsAndKeys(Broker broker) throws Exception {
    String topic = broker.createTopic("keys", 3);
    try (KafkaProducer<String, String> producer = broker.producer()) {
      ProducerRecord<String, String> record = new ProducerRecord<>(topic, 2, (Long) 1_700_000_000_000L, "k", (String) null);
      record.headers().add("x", "1".getBytes(StandardCharsets.UTF_8));
      record.headers().add("x", (byte[]) null);
      RecordMetadata metadata = producer.send(record).get();
      same(2, metadata.partition(), "partition");
      same(0L, metadata.offset(), "offset");
      same(1_700_000_000_000L, metadata.timestamp(), "timestamp");
    }
    List<ConsumerRecord<byte[], byte[]>> read = broker.readAll(topic, 2, "read_committed");
    same(1, read.size(), "records");
    ConsumerRecord<byte[], byte[]> record = read.get(0);
    same("k", new String(record.key(), StandardCharsets.UTF_8), "key");
    holds(record.value() == null, "a null value stays null");
    same(2, record.headers().toArray().length, "headers");
    holds(record.headers().toArray()[1].value() == null, "a null header stays null");
    same(1_700_000_000_000L, record.timestamp(), "timestamp");
  }

  private static void tooLarge(Broker broker) throws Exception {
    String topic = broker.createTopic("large", 1);
    try (KafkaProducer<String, String> producer = broker.producer("max.request.size", 4_000_000)) {
      fails(RecordTooLargeException.class,
          () -> producer.send(new ProducerRecord<>(topic, "x".repeat(2_000_000))).get());
      same(0L, producer.send(new ProducerRecord<>(topic, "x")).get().offset(), "offset after a refusal");
    }
  }

  private static void offsetsForTimes(Broker broker) throws Exception {
    String topic = broker.createTopic("times", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    long base = System.currentTimeMillis() - 60_000;
    try (KafkaProducer<String, String> producer = broker.producer()) {
      for (int i = 0; i < 5; i++) {
        producer.send(new ProducerRecord<>(topic, 0, base + i * 1000L, null, "v" + i)).get();
      }
    }
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(broker.config(),
        new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      same(2L, consumer.offsetsForTimes(Map.of(tp, base + 1500)).get(tp).offset(), "offset by time");
      holds(consumer.offsetsForTimes(Map.of(tp, base + 90_000)).get(tp) == null, "nothing is that young");
      same(0L, consumer.beginningOffsets(List.of(tp)).get(tp), "beginning");
      same(5L, consumer.endOffsets(List.of(tp)).get(tp), "end");
    }
  }

  private static void waits(Broker broker) throws Exception {
    String topic = broker.createTopic("waits", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            broker.config("auto.offset.reset", "earliest", "fetch.max.wait.ms", 4_000),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        KafkaProducer<String, String> producer = broker.producer()) {
      consumer.assign(List.of(tp));
      consumer.poll(java.time.Duration.ofMillis(300));
      producer.send(new ProducerRecord<>(topic, "late")).get();
      long start = System.currentTimeMillis();
      int seen = 0;
      while (seen == 0 && System.currentTimeMillis() < start + 8_000) {
        seen = consumer.poll(java.time.Duration.ofMillis(500)).count();
      }
      same(1, seen, "records");
      holds(System.currentTimeMillis() - start < 2_500, "a parked fetch is woken by an append");
    }
  }
}

package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.same;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Sink tasks that share records (KIP-1302): rows C-I1 to C-I5, C-X3 and C-X4 of docs/conformance.md. */
final class SinkCases {
  private static final Duration POLL = Duration.ofMillis(200);
  private static final long WAIT_MS = 40_000;

  private SinkCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("sink-every-record", SinkCases::everyRecord);
    cases.put("sink-scales", SinkCases::scales);
    cases.put("sink-killed", SinkCases::killed);
    cases.put("sink-errors", SinkCases::errors);
    cases.put("sink-beside-a-consumer-group", SinkCases::besideConsumerGroup);
    cases.put("sink-releases-too-often", SinkCases::releasesTooOften);
    cases.put("sink-group-id-is-taken", SinkCases::groupIdIsTaken);
  }

  private static void produce(Broker broker, String topic, int first, int count) {
    try (KafkaProducer<String, String> producer = broker.producer()) {
      for (int i = first; i < first + count; i++) {
        producer.send(new ProducerRecord<>(topic, i % 2, null, "v" + i));
      }
    }
  }

  private static Set<String> values(int count) {
    return IntStream.range(0, count).mapToObj(i -> "v" + i).collect(Collectors.toSet());
  }

  static void waitFor(String what, BooleanSupplier done) throws InterruptedException {
    long deadline = System.currentTimeMillis() + WAIT_MS;
    while (!done.getAsBoolean()) {
      holds(System.currentTimeMillis() < deadline, "in time: " + what);
      Thread.sleep(10);
    }
  }

  private static void closeAll(List<SinkTask> tasks) throws Exception {
    for (SinkTask task : tasks) {
      task.close();
    }
  }

  /** C-I1: two tasks get every record, and without trouble each of them once. */
  private static void everyRecord(Broker broker) throws Exception {
    String topic = broker.createTopic("sink", 2);
    String group = broker.shareGroup();
    Map<String, Integer> put = new ConcurrentHashMap<>();
    SinkTask.Sink sink = records -> records.forEach(record -> put.merge(record.value(), 1, Integer::sum));
    List<SinkTask> tasks = List.of(
        SinkTask.start(broker, topic, group, 20, sink), SinkTask.start(broker, topic, group, 20, sink));
    produce(broker, topic, 0, 500);
    waitFor("every record is put", () -> put.size() == 500);
    closeAll(tasks);
    same(values(500), put.keySet(), "records that were put");
    holds(put.values().stream().allMatch(count -> count == 1), "each is put once");
  }

  /** C-I2: from two tasks to six on two partitions nothing is lost, and more is put in a second. */
  private static void scales(Broker broker) throws Exception {
    String topic = broker.createTopic("sink-scales", 2);
    String group = broker.shareGroup();
    Set<String> put = ConcurrentHashMap.newKeySet();
    Set<Thread> busy = ConcurrentHashMap.newKeySet();
    SinkTask.Sink slow = records -> {
      Thread.sleep(100);
      busy.add(Thread.currentThread());
      records.forEach(record -> put.add(record.value()));
    };
    produce(broker, topic, 0, 1_500);
    List<SinkTask> tasks = new ArrayList<>();
    double few = rateWith(2, tasks, () -> SinkTask.start(broker, topic, group, 5, slow), put, busy);
    double many = rateWith(6, tasks, () -> SinkTask.start(broker, topic, group, 5, slow), put, busy);
    holds(few * 1.3 < many, "more tasks put more: " + few + " and " + many + " records in a second");
    waitFor("every record is put", () -> put.size() == 1_500);
    closeAll(tasks);
    same(values(1_500), put, "records that were put");
  }

  /** Starts tasks until there are so many, and returns how many records in a second they put once all are at work. */
  private static double rateWith(int count, List<SinkTask> tasks, java.util.function.Supplier<SinkTask> start,
      Set<String> put, Set<Thread> busy) throws Exception {
    while (tasks.size() < count) {
      tasks.add(start.get());
    }
    waitFor("all tasks are at work", () -> busy.size() == count);
    int before = put.size();
    long began = System.nanoTime();
    waitFor("they put records", () -> before + 100 <= put.size());
    return (put.size() - before) * 1e9 / (System.nanoTime() - began);
  }

  /** C-I3: a task is killed while it puts; the others get its records within the lock's time. */
  private static void killed(Broker broker) throws Exception {
    int lockMs = 15_000;
    String topic = broker.createTopic("sink-killed", 2);
    String group = broker.shareGroup("share.record.lock.duration.ms", Integer.toString(lockMs));
    produce(broker, topic, 0, 10);
    Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
        "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"),
        SinkTask.class.getName(), broker.bootstrap, topic, group, "5")
        .redirectError(ProcessBuilder.Redirect.DISCARD).start();
    Set<String> held = new HashSet<>();
    try (BufferedReader output = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
      for (String line = output.readLine(); !"putting".equals(line); line = output.readLine()) {
        held.add(line);
      }
    } finally {
      process.destroyForcibly().waitFor();
    }
    long died = System.currentTimeMillis();
    holds(!held.isEmpty() && !held.contains(null), "the task had records: " + held);
    Set<String> again = ConcurrentHashMap.newKeySet();
    Set<String> put = ConcurrentHashMap.newKeySet();
    SinkTask.Sink sink = records -> records.forEach(record -> {
      put.add(record.value());
      if (1 < record.deliveryCount().orElseThrow()) {
        again.add(record.value());
      }
    });
    List<SinkTask> survivors = List.of(
        SinkTask.start(broker, topic, group, 5, sink), SinkTask.start(broker, topic, group, 5, sink));
    waitFor("the survivors put everything", () -> put.equals(values(10)));
    long waitedMs = System.currentTimeMillis() - died;
    closeAll(survivors);
    // It may have acquired more than it was about to put.
    holds(again.containsAll(held), "what it had is delivered once more: " + held + " " + again);
    holds(waitedMs < lockMs + 5_000, "within the lock's time: " + waitedMs + " ms");
  }

  /** C-I4: whatever fails comes again until it is put, but for what fails for good. */
  private static void errors(Broker broker) throws Exception {
    String topic = broker.createTopic("sink-errors", 2);
    String group = broker.shareGroup("share.delivery.count.limit", "10");
    Set<String> put = ConcurrentHashMap.newKeySet();
    Map<String, Integer> tries = new ConcurrentHashMap<>();
    SinkTask.Sink shaky = records -> {
      for (var record : records) {
        int tried = tries.merge(record.value(), 1, Integer::sum);
        if ("v13".equals(record.value())) {
          throw new IllegalArgumentException("this one can never be put");
        }
        if (tried == 1 && record.offset() % 7 == 0) {
          throw new SinkTask.Retriable();
        }
      }
      records.forEach(record -> put.add(record.value()));
    };
    produce(broker, topic, 0, 200);
    // One by one, so that the record that cannot be put takes no other with it.
    List<SinkTask> tasks = List.of(
        SinkTask.start(broker, topic, group, 1, shaky), SinkTask.start(broker, topic, group, 1, shaky));
    waitFor("everything but one is put", () -> put.size() == 199 && tries.containsKey("v13"));
    closeAll(tasks);
    Set<String> expected = values(200);
    expected.remove("v13");
    same(expected, put, "records that were put");
    same(1, tries.get("v13"), "deliveries of what was rejected");
    holds(200 < tries.values().stream().mapToInt(Integer::intValue).sum(), "what was released came again");
  }

  /** C-I5: tasks of both kinds of groups in one cluster, on one topic: each group gets everything. */
  private static void besideConsumerGroup(Broker broker) throws Exception {
    String topic = broker.createTopic("sink-beside", 2);
    String shared = broker.shareGroup();
    String owned = broker.fresh("consumers");
    Set<String> put = ConcurrentHashMap.newKeySet();
    List<SinkTask> tasks = List.of(
        SinkTask.start(broker, topic, shared, 20, records -> records.forEach(record -> put.add(record.value()))));
    Set<String> read = new HashSet<>();
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
        broker.config("group.id", owned, "group.protocol", "consumer", "auto.offset.reset", "earliest"),
        new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(topic));
      produce(broker, topic, 0, 100);
      waitFor("both groups have the first records", () -> {
        consumer.poll(POLL).forEach(record -> read.add(record.value()));
        return read.size() == 100 && put.size() == 100;
      });
      consumer.commitSync();
      try (Admin admin = broker.admin()) {
        Map<String, GroupType> types = admin.listGroups().all().get().stream()
            .filter(group -> List.of(shared, owned).contains(group.groupId()))
            .collect(Collectors.toMap(GroupListing::groupId, group -> group.type().orElseThrow()));
        same(Map.of(shared, GroupType.SHARE, owned, GroupType.CONSUMER), types, "kinds of groups");
      }
      produce(broker, topic, 100, 100);
      waitFor("both groups have the rest", () -> {
        consumer.poll(POLL).forEach(record -> read.add(record.value()));
        return read.size() == 200 && put.size() == 200;
      });
    }
    closeAll(tasks);
    same(values(200), read, "records of the consumer group");
    same(values(200), put, "records of the share group");
  }

  /** C-X3: a record that is released each time is given up when it has been delivered as often as it may be. */
  private static void releasesTooOften(Broker broker) throws Exception {
    String topic = broker.createTopic("sink-poison", 2);
    String group = broker.shareGroup();
    AtomicInteger deliveries = new AtomicInteger();
    Set<String> put = ConcurrentHashMap.newKeySet();
    SinkTask.Sink sink = records -> {
      if ("v0".equals(records.get(0).value())) {
        same((short) deliveries.incrementAndGet(), records.get(0).deliveryCount().orElseThrow(), "delivery count");
        throw new SinkTask.Retriable();
      }
      records.forEach(record -> put.add(record.value()));
    };
    produce(broker, topic, 0, 10);
    List<SinkTask> tasks = List.of(SinkTask.start(broker, topic, group, 1, sink));
    waitFor("the others are put, and that one is given up", () -> put.size() == 9 && deliveries.get() == 5);
    produce(broker, topic, 10, 2);
    waitFor("the task goes on", () -> put.contains("v10") && put.contains("v11"));
    closeAll(tasks);
    same(5, deliveries.get(), "deliveries");
  }

  /** C-X4: a share group cannot have the id of a consumer group. */
  private static void groupIdIsTaken(Broker broker) throws Exception {
    String topic = broker.createTopic("sink-collision", 2);
    String group = broker.fresh("taken");
    produce(broker, topic, 0, 2);
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
        broker.config("group.id", group, "group.protocol", "consumer", "auto.offset.reset", "earliest"),
        new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(topic));
      waitFor("the consumer group has members", () -> !consumer.poll(POLL).isEmpty());
      try (KafkaShareConsumer<String, String> task = broker.shareConsumer(group)) {
        task.subscribe(List.of(topic));
        fails(GroupIdNotFoundException.class, () -> {
          waitFor("it is refused", () -> !task.poll(POLL).isEmpty());
          return null;
        });
      }
    }
  }
}

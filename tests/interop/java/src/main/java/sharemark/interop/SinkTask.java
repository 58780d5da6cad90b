package sharemark.interop;

import java.time.Duration;
import java.util.List;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * A task of a sink connector that reads as a share group (KIP-1302): it polls, puts, says of the whole batch what came
 * of it, and has that stored before it polls again. What it accepts was put before.
 */
final class SinkTask implements AutoCloseable {
  private static final Duration POLL = Duration.ofMillis(200);
  private static final long END_MS = 20_000;

  /** Where records go. */
  interface Sink {
    /** Puts a batch; throws if it is not put. */
    void put(List<ConsumerRecord<String, String>> records) throws Exception;
  }

  /** An error that may pass: the batch is released, and comes again. After any other it is rejected. */
  static final class Retriable extends Exception {
    private static final long serialVersionUID = 1;
  }

  private final Broker broker;
  private final String topic;
  private final String group;
  private final int batch;
  private final Sink sink;
  private final Thread thread;
  private volatile boolean ends;
  private volatile Throwable failure;

  private SinkTask(Broker broker, String topic, String group, int batch, Sink sink) {
    this.broker = broker;
    this.topic = topic;
    this.group = group;
    this.batch = batch;
    this.sink = sink;
    this.thread = new Thread(this::runUntilItFails, "sink task of " + group);
    thread.setDaemon(true);
  }

  /** Starts a task that puts at most `batch` records at once. */
  static SinkTask start(Broker broker, String topic, String group, int batch, Sink sink) {
    SinkTask task = new SinkTask(broker, topic, group, batch, sink);
    task.thread.start();
    return task;
  }

  private void runUntilItFails() {
    try {
      run();
    } catch (Exception | AssertionError thrown) {
      failure = thrown;
    }
  }

  private void run() throws Exception {
    try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group,
        "share.acknowledgement.mode", "explicit", "share.acquire.mode", "record_limit", "max.poll.records", batch)) {
      consumer.subscribe(List.of(topic));
      while (!ends) {
        ConsumerRecords<String, String> records = consumer.poll(POLL);
        if (!records.isEmpty()) {
          AcknowledgeType outcome = put(StreamSupport.stream(records.spliterator(), false).toList());
          records.forEach(record -> consumer.acknowledge(record, outcome));
          // Where that fails the records come again: at least once.
          consumer.commitSync();
        }
      }
    }
  }

  private AcknowledgeType put(List<ConsumerRecord<String, String>> records) {
    try {
      sink.put(records);
      return AcknowledgeType.ACCEPT;
    } catch (Retriable passing) {
      return AcknowledgeType.RELEASE;
    } catch (Exception fatal) {
      return AcknowledgeType.REJECT;
    }
  }

  /** Ends the task after its batch. */
  @Override
  public void close() throws Exception {
    ends = true;
    thread.join(END_MS);
    if (failure != null) {
      throw new AssertionError("a task failed", failure);
    }
    Broker.holds(!thread.isAlive(), "a task ends");
  }

  /** A task that says what it is about to put, and then never comes back from it, for somebody to kill. */
  public static void main(String[] arguments) throws Exception {
    Sink sink = records -> {
      records.forEach(record -> System.out.println(record.value()));
      System.out.println("putting");
      System.out.flush();
      Thread.sleep(Long.MAX_VALUE);
    };
    int batch = Integer.parseInt(arguments[3]);
    SinkTask task = start(new Broker(arguments[0]), arguments[1], arguments[2], batch, sink);
    task.thread.join();
  }
}

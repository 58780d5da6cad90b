package sharemark.interop;

import static sharemark.interop.Broker.same;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Sink tasks while nodes of their cluster fail: row C-S2 of docs/conformance.md. NODES tells how many there are. */
final class SinkFaultCases {
  private static final int RECORDS = 2_000;
  private static final int TASKS = 4;
  private static final long TROUBLE_MS = 500;
  /** Between two records, so that the load lasts as long as the trouble. */
  private static final long PAUSE_NANOS = 3_000_000;
  private static final String[] SEAMS = {"share.state.write", "share.state.read", "group.member.check"};
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  private SinkFaultCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("sink-nodes-fail", SinkFaultCases::nodesFail);
  }

  private static void tell(String method, String path, String body) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + System.getenv("CONTROL") + path))
        .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
    HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
    same(200, answer.statusCode(), method + " " + path + ": " + answer.body());
  }

  /** C-S2: one node after the other stops or is cut off under the load, calls between them are lost, no record is. */
  private static void nodesFail(Broker broker) throws Exception {
    int nodes = Integer.parseInt(System.getenv("NODES"));
    String topic = broker.fresh("sink-nodes");
    try (Admin admin = broker.admin()) {
      admin.createTopics(List.of(new NewTopic(topic, 2 * nodes, (short) nodes))).all().get();
    }
    String group = broker.shareGroup("share.delivery.count.limit", "10", "share.record.lock.duration.ms", "2000");
    Set<String> put = ConcurrentHashMap.newKeySet();
    Set<String> produced = ConcurrentHashMap.newKeySet();
    SinkTask.Sink sink = records -> {
      Thread.sleep(20);
      records.forEach(record -> put.add(record.value()));
    };
    List<SinkTask> tasks = new ArrayList<>();
    for (int i = 0; i < TASKS; i++) {
      tasks.add(SinkTask.start(broker, topic, group, 20, sink));
    }
    Thread load = new Thread(() -> produce(broker, topic, produced), "load");
    load.start();
    for (int number = 0; number < 2 * nodes; number++) {
      trouble(number, nodes);
    }
    load.join();
    same(RECORDS, produced.size(), "records that were produced in the end");
    SinkCases.waitFor("all that was produced is put", () -> put.containsAll(produced));
    for (SinkTask task : tasks) {
      task.close();
    }
  }

  private static void produce(Broker broker, String topic, Set<String> produced) {
    try (KafkaProducer<String, String> producer = broker.producer("acks", "all")) {
      for (int i = 0; i < RECORDS; i++) {
        String value = "v" + i;
        producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
          if (error == null) {
            produced.add(value);
          }
        });
        LockSupport.parkNanos(PAUSE_NANOS);
      }
    }
  }

  private static void trouble(int number, int nodes) throws Exception {
    int node = number % nodes;
    boolean stops = number < nodes;
    String seam = SEAMS[number % SEAMS.length];
    tell("POST", "/faults", "{\"at\": \"" + seam + "\", \"action\": \"drop\", \"count\": 2}");
    tell("POST", "/nodes/" + node + (stops ? "/stop" : "/isolate"), "");
    Thread.sleep(TROUBLE_MS);
    tell("POST", "/nodes/" + node + (stops ? "/start" : "/rejoin"), "");
    tell("DELETE", "/faults", "");
    Thread.sleep(TROUBLE_MS);
  }
}

package sharemark.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Runs named cases against one broker and prints how many there were. */
public final class Main {
  /** A case; it throws when the broker does not behave. */
  public interface Case {
    void run(Broker broker) throws Exception;
  }

  private static final long CASE_SECONDS = 90;

  private Main() {}

  public static void main(String[] names) throws Exception {
    Map<String, Case> cases = new LinkedHashMap<>();
    AdminCases.add(cases);
    ClusterCases.add(cases);
    ProducerCases.add(cases);
    TransactionCases.add(cases);
    ShareCases.add(cases);
    SinkCases.add(cases);
    ClassicGroupCases.add(cases);
    ConsumerGroupCases.add(cases);
    if (System.getenv("CONTROL") != null) {
      ControlCases.add(cases);
    }
    if (System.getenv("NODES") != null) {
      SinkFaultCases.add(cases);
    }
    // Last: it reads what all the others have left in the internal topics.
    InternalTopicCases.add(cases);
    if (names.length > 0) {
      cases.keySet().retainAll(List.of(names));
    }
    Broker broker = new Broker(System.getenv("BOOTSTRAP"));
    ExecutorService threads = Executors.newCachedThreadPool(body -> {
      Thread thread = new Thread(body);
      thread.setDaemon(true);
      return thread;
    });
    int failed = 0;
    for (Map.Entry<String, Case> entry : cases.entrySet()) {
      long start = System.nanoTime();
      Callable<Void> body = () -> {
        entry.getValue().run(broker);
        return null;
      };
      Future<Void> outcome = threads.submit(body);
      try {
        outcome.get(CASE_SECONDS, TimeUnit.SECONDS);
        System.out.printf("ok %s (%d ms)%n", entry.getKey(), (System.nanoTime() - start) / 1_000_000);
      } catch (Exception failure) {
        failed++;
        System.out.printf("FAILED %s%n", entry.getKey());
        failure.printStackTrace(System.out);
      }
    }
    System.out.printf("cases %d%n", cases.size());
    System.out.flush();
    // Halt: a client of a failed case may still wait for its broker.
    Runtime.getRuntime().halt(failed == 0 && !cases.isEmpty() ? 0 : 1);
  }
}

package sharemark.conformance;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Waits for what a test cannot be told of. */
final class Waiting {
    private static final Duration MAX = Duration.ofSeconds(60);
    private static final Duration PAUSE = Duration.ofMillis(20);
    /** Longer than {@code reconnect.backoff.max.ms}, which is a second, with its jitter of a fifth. */
    private static final Duration RECONNECT = Duration.ofMillis(1_500);

    private Waiting() {
    }

    /**
     * Returns when clients have come back to a node that has started.
     *
     * <p>A broker of Kafka takes ten seconds to start, so that its clients are connected again when a test goes on. A
     * client that is not fails what it should send, with another error than these tests expect.
     */
    static void asLongAsClientsBackOff() {
        try {
            Thread.sleep(RECONNECT.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns when {@code condition} holds; its exceptions count as that it does not. */
    static void until(String what, Callable<Boolean> condition) throws InterruptedException {
        long deadline = System.nanoTime() + MAX.toNanos();
        Exception last = null;
        while (System.nanoTime() < deadline) {
            try {
                if (condition.call()) {
                    return;
                }
                last = null;
            } catch (InterruptedException e) {
                throw e;
            } catch (Exception e) {
                last = e;
            }
            Thread.sleep(PAUSE.toMillis());
        }
        throw new AssertionError("after " + MAX.toSeconds() + " s it does not hold that " + what, last);
    }
}

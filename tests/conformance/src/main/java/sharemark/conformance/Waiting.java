package sharemark.conformance;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Asks again until something holds. */
final class Waiting {
    private static final Duration MAX = Duration.ofSeconds(60);
    private static final Duration PAUSE = Duration.ofMillis(20);

    private Waiting() {
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

package sharemark.conformance;

import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.reporting.ReportEntry;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;

/**
 * Prints one line for each run of a test method, parts separated by tabs:
 * {@code run}, class and method, which of the runs, the outcome, milliseconds, the reason it could not run for.
 * The trace of a failure goes to standard error.
 */
public final class Report implements TestExecutionListener {
    private static final String PACKAGE = "org.apache.kafka.";

    private final PrintStream out = System.out;
    private final Map<String, Long> started = new ConcurrentHashMap<>();
    private final Map<String, String> missing = new ConcurrentHashMap<>();

    @Override
    public void executionStarted(TestIdentifier test) {
        started.put(test.getUniqueId(), System.nanoTime());
    }

    @Override
    public void reportingEntryPublished(TestIdentifier test, ReportEntry entry) {
        Optional.ofNullable(entry.getKeyValuePairs().get("missing"))
            .ifPresent(reason -> missing.put(test.getUniqueId(), reason));
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean isGroup = test.isContainer() && result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
        if (isGroup) {
            return;
        }
        long took = (System.nanoTime() - started.getOrDefault(test.getUniqueId(), System.nanoTime())) / 1_000_000;
        String reason = missing.getOrDefault(test.getUniqueId(), "");
        print(test, result.getStatus().toString().toLowerCase(Locale.ROOT), took, reason);
        result.getThrowable().filter(thrown -> reason.isEmpty()).ifPresent(thrown -> trace(test, thrown));
    }

    /** Returns how the report names a method. */
    public static String name(String className, String method) {
        return className.replace(PACKAGE, "") + "." + method;
    }

    /** Reads names of methods, one a line, from a file; none when there is no file. */
    public static Set<String> names(String file) {
        if (file.isEmpty()) {
            return Set.of();
        }
        try {
            return Set.copyOf(Files.readAllLines(Path.of(file)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String name(TestIdentifier test) {
        return test.getSource().filter(MethodSource.class::isInstance).map(MethodSource.class::cast)
            .map(source -> name(source.getClassName(), source.getMethodName()))
            .orElse(test.getUniqueId());
    }

    private void print(TestIdentifier test, String outcome, long took, String reason) {
        String run = test.getUniqueId().replaceAll(".*#", "").replace("]", "");
        String which = test.isTest() ? run : "-";
        out.println(String.join("\t", "run", name(test), which, outcome, String.valueOf(took), reason));
        out.flush();
    }

    private static void trace(TestIdentifier test, Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text));
        System.err.println("== " + name(test) + " " + test.getDisplayName() + "\n" + text);
    }
}

package sharemark.conformance;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A broker that was started for one test: {@code SHAREMARK_BIN}, or a real Kafka of one node where
 * {@code KAFKA_PEER} names the script that starts one.
 */
final class BrokerProcess {
    private static final Pattern READY = Pattern.compile("ready bootstrap=(\\S+) .*");
    private static final Pattern CONTROL = Pattern.compile("control=(\\S+)");
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final Pattern PORT = Pattern.compile(":(\\d+)");
    private static final AtomicInteger STARTED = new AtomicInteger();

    private final Process process;
    private final String bootstrap;
    private final Optional<String> control;

    private BrokerProcess(Process process, String bootstrap, Optional<String> control) {
        this.process = process;
        this.bootstrap = bootstrap;
        this.control = control;
    }

    /** Starts the broker that a test wants and returns once it is ready. */
    static BrokerProcess start(Wanted wanted, String test) {
        String peer = System.getenv("KAFKA_PEER");
        ProcessBuilder builder = peer == null ? sharemark(wanted) : kafka(peer, wanted);
        Path log = Path.of(System.getProperty("sharemark.logs"), test + "-" + STARTED.incrementAndGet() + ".log");
        builder.redirectError(log.toFile());
        try {
            Process process = builder.start();
            var lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            String line = lines.readLine();
            Matcher ready = READY.matcher(line == null ? "" : line);
            if (!ready.matches()) {
                process.destroyForcibly();
                throw new IllegalStateException("the broker does not start: " + builder.command() + ", see " + log);
            }
            Optional<String> control = CONTROL.matcher(line).results().map(found -> found.group(1)).findFirst();
            return new BrokerProcess(process, ready.group(1), control);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static ProcessBuilder sharemark(Wanted wanted) {
        List<String> command = new ArrayList<>(List.of(
            System.getenv("SHAREMARK_BIN"), "--profile", "kafka-4.4", "--listen", "127.0.0.1:0",
            "--control", "127.0.0.1:0", "--brokers", String.valueOf(wanted.brokers())));
        wanted.properties().forEach((key, value) -> command.addAll(List.of("-c", key + "=" + value)));
        wanted.features().forEach((name, level) -> command.addAll(List.of("--feature", name + "=" + level)));
        wanted.racks().forEach((node, rack) -> command.addAll(List.of("-c", "node." + node + ".broker.rack=" + rack)));
        return new ProcessBuilder(command);
    }

    private static ProcessBuilder kafka(String peer, Wanted wanted) {
        if (wanted.brokers() != 1 || !wanted.racks().isEmpty()) {
            throw new IllegalArgumentException("the real Kafka has one node without a rack");
        }
        ProcessBuilder builder = new ProcessBuilder(peer, "run");
        builder.environment().put("KAFKA_PEER_PROPERTIES", joined(wanted.properties(), ";"));
        builder.environment().put("KAFKA_PEER_NODE_ID", "0"); // As the tests count nodes.
        builder.environment().put("KAFKA_PEER_FEATURES", joined(wanted.features(), " "));
        return builder;
    }

    private static String joined(Map<String, ?> pairs, String separator) {
        return pairs.entrySet().stream().map(Object::toString).collect(Collectors.joining(separator));
    }

    /** Returns the addresses of all nodes. */
    String bootstrap() {
        return bootstrap;
    }

    /** Returns the ports of all nodes. */
    List<Integer> ports() {
        return PORT.matcher(bootstrap).results().map(port -> Integer.valueOf(port.group(1))).toList();
    }

    /** Returns whether single nodes can be stopped and started. */
    boolean hasControl() {
        return control.isPresent();
    }

    /** Stops ("stop") or starts ("start") one node, and returns when it is done. */
    void node(int id, String verb) {
        URI uri = URI.create("http://" + control.orElseThrow() + "/nodes/" + id + "/" + verb);
        HttpRequest request = HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.noBody()).build();
        try {
            HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(uri + ": " + answer.statusCode() + " " + answer.body());
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /** Ends the broker: Sharemark by a signal, the script of a real Kafka by the end of its input. */
    void stop() {
        try {
            process.getOutputStream().close();
            if (System.getenv("KAFKA_PEER") == null) {
                process.destroy();
            }
            if (!process.waitFor(30, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IllegalStateException("the broker does not end");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}

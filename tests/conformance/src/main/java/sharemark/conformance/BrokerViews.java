package sharemark.conformance;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.function.BiFunction;

import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;

/**
 * Stands in for the objects of a broker inside the JVM where a client can find out the same: its configuration, which
 * nodes are alive, which topics are there. Whatever else is asked of them is unreachable.
 */
final class BrokerViews {
    private final OutsideCluster cluster;
    private final BiFunction<Reason, String, Unreachable> unreachable;

    BrokerViews(OutsideCluster cluster, BiFunction<Reason, String, Unreachable> unreachable) {
        this.cluster = cluster;
        this.unreachable = unreachable;
    }

    /** Returns one for each node. */
    Map<Integer, KafkaBroker> all() {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        cluster.brokerIds().forEach(id -> brokers.put(id, broker(id)));
        return brokers;
    }

    private KafkaBroker broker(int id) {
        return proxy(KafkaBroker.class, (self, method, arguments) -> switch (method.getName()) {
            case "config" -> config(id);
            case "metadataCache" -> proxy(MetadataCache.class, this::metadata);
            case "groupCoordinator" -> proxy(GroupCoordinator.class, this::coordinator);
            case "clusterId" -> cluster.clusterId();
            case "boundPort" -> nodes().stream().filter(node -> node.id() == id).findFirst().orElseThrow().port();
            case "isShutdown" -> cluster.isDown(id);
            case "awaitShutdown" -> null; // A node is down when the call that stops it returns.
            case "hashCode" -> id;
            case "equals" -> self == arguments[0];
            case "toString" -> "broker " + id;
            case "shutdown" -> {
                cluster.shutdownBroker(id);
                yield null;
            }
            case "startup" -> {
                cluster.startBroker(id);
                yield null;
            }
            default -> throw unreachable.apply(Reason.INSIDE_JVM, "KafkaBroker." + method.getName());
        });
    }

    private Object metadata(Object self, Method method, Object[] arguments) {
        return switch (method.getName()) {
            case "getAliveBrokerNodes", "getBrokerNodes" -> nodes();
            case "hasAliveBroker" -> cluster.brokerIds().contains((Integer) arguments[0]);
            case "contains" -> arguments[0] instanceof TopicPartition partition
                ? topic(partition.topic()).filter(of -> partition.partition() < of.partitions().size()).isPresent()
                : topic((String) arguments[0]).isPresent();
            case "numPartitions" -> topic((String) arguments[0]).map(of -> of.partitions().size());
            case "getTopicId" -> topic((String) arguments[0]).map(TopicDescription::topicId)
                .orElse(Uuid.ZERO_UUID);
            case "getLeaderAndIsr" -> topic((String) arguments[0])
                .flatMap(of -> of.partitions().stream().filter(at -> arguments[1].equals(at.partition())).findFirst())
                .filter(at -> at.leader() != null)
                .map(at -> new LeaderAndIsr(at.leader().id(), at.isr().stream().map(Node::id).toList()));
            default -> throw unreachable.apply(Reason.INSIDE_JVM, "MetadataCache." + method.getName());
        };
    }

    private Object coordinator(Object self, Method method, Object[] arguments) {
        if (!method.getName().equals("groupMetadataTopicConfigs")) {
            throw unreachable.apply(Reason.INSIDE_JVM, "GroupCoordinator." + method.getName());
        }
        Properties ofTopic = new Properties();
        ofTopic.put(TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_COMPACT);
        return ofTopic;
    }

    private KafkaConfig config(int id) {
        Map<String, String> properties = new TreeMap<>(cluster.config().serverProperties());
        properties.putAll(cluster.config().perServerOverrideProperties().getOrDefault(id, Map.of()));
        properties.put("node.id", String.valueOf(id));
        properties.put("process.roles", "broker");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("controller.quorum.bootstrap.servers", "localhost:1");
        properties.put("listener.security.protocol.map", "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT");
        properties.put("inter.broker.listener.name", "EXTERNAL");
        properties.put("listeners", "EXTERNAL://localhost:0");
        return new KafkaConfig(properties, false);
    }

    private List<Node> nodes() {
        try {
            return List.copyOf(cluster.asking().describeCluster().nodes().get());
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private Optional<TopicDescription> topic(String name) {
        try {
            return Optional.of(cluster.asking().describeTopics(List.of(name)).allTopicNames().get().get(name));
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static <T> T proxy(Class<T> kind, InvocationHandler handler) {
        return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, handler));
    }
}

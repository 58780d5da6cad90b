package sharemark.conformance;

import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;

/** A cluster as a test sees it, of a broker in another process: what a client can do works, the rest says why not. */
public final class OutsideCluster implements ClusterInstance {
    private final ClusterConfig config;
    private final Type type;
    private String name = "unnamed";
    private BrokerProcess process;
    private Admin asking;
    private Set<Integer> ids = Set.of();
    private final Set<Integer> down = ConcurrentHashMap.newKeySet();
    private boolean stopped;
    private Reason missing;

    public OutsideCluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
    }

    /** Names the test, for the file with the broker's words. */
    public void name(String test) {
        name = test;
    }

    /** Returns the first thing that the test asked for and could not get. */
    public synchronized Optional<Reason> missing() {
        return Optional.ofNullable(missing);
    }

    private synchronized Unreachable unreachable(Reason reason, String what) {
        if (missing == null) {
            missing = reason;
            System.err.println("missing in " + name + ": " + reason.words() + ": " + what);
        }
        return new Unreachable(reason, what);
    }

    @Override
    public void start() {
        Wanted wanted;
        try {
            wanted = Wanted.of(config);
        } catch (Unreachable e) {
            throw unreachable(e.reason(), e.getMessage());
        }
        process = BrokerProcess.start(wanted, name);
        asking = admin();
        ids = nodeIds(); // Which also connects it, before a test waits for something.
    }

    @Override
    public boolean started() {
        return process != null;
    }

    @Override
    public void stop() {
        stopped = true;
        if (asking != null) {
            asking.close(Duration.ZERO);
        }
        if (process != null) {
            process.stop();
        }
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public String bootstrapServers() {
        return process.bootstrap();
    }

    @Override
    public void shutdownBroker(int brokerId) {
        requireControl();
        if (down.add(brokerId)) {
            process.node(brokerId, "stop");
        }
    }

    @Override
    public void startBroker(int brokerId) {
        requireControl();
        if (down.remove(brokerId)) {
            process.node(brokerId, "start");
            Waiting.asLongAsClientsBackOff();
        }
    }

    private void requireControl() {
        if (!process.hasControl()) {
            throw unreachable(Reason.BROKER_STOPPED, "one node of a cluster");
        }
    }

    /** Returns whether a node was stopped. */
    boolean isDown(int brokerId) {
        return down.contains(brokerId);
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return new BrokerViews(this, this::unreachable).all();
    }

    @Override
    public Map<Integer, KafkaBroker> aliveBrokers() {
        Map<Integer, KafkaBroker> alive = brokers();
        alive.keySet().removeAll(down);
        return alive;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(); // There is none in this JVM, so that there is none to wait for either.
    }

    @Override
    public Set<Integer> controllerIds() {
        throw unreachable(Reason.INSIDE_JVM, "controllerIds");
    }

    @Override
    public ListenerName controllerListenerName() {
        throw unreachable(Reason.INSIDE_JVM, "controllerListenerName");
    }

    @Override
    public String bootstrapControllers() {
        throw unreachable(Reason.INSIDE_JVM, "bootstrapControllers");
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw unreachable(Reason.INSIDE_JVM, "controllerBoundPorts");
    }

    @Override
    public List<Authorizer> authorizers() {
        throw unreachable(Reason.INSIDE_JVM, "authorizers");
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        throw unreachable(Reason.INSIDE_JVM, "firstFatalException");
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        throw unreachable(Reason.INSIDE_JVM, "firstNonFatalException");
    }

    @Override
    public Type type() {
        return type;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    /** Returns a client that asks for what a test wants to know, and is closed with the cluster. */
    Admin asking() {
        return asking;
    }

    @Override
    public Set<Integer> brokerIds() {
        return ids;
    }

    private Set<Integer> nodeIds() {
        try {
            Set<Integer> found = new TreeSet<>();
            asking.describeCluster().nodes().get().forEach(node -> found.add(node.id()));
            return found;
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return process.ports();
    }

    @Override
    public String clusterId() {
        try {
            return asking.describeCluster().clusterId().get();
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void waitForReadyBrokers() {
        // A broker in another process has said that it is ready before anyone is told its address.
    }

    @Override
    public void ensureConsistentMetadata() {
        // Seen by a client that asks, as the next method does.
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        // The same.
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        Waiting.until(topic + " has " + partitions + " partitions with leaders", () -> {
            var described = asking.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            List<TopicPartitionInfo> found = described.partitions();
            return found.size() == partitions && found.stream().allMatch(of -> of.leader() != null);
        });
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        if (Topic.isInternal(topic)) {
            return; // One test waits for this right after it asks for the topic, before Kafka has got the request.
        }
        Waiting.until(topic + " is gone", () -> {
            try {
                asking.describeTopics(List.of(topic)).allTopicNames().get();
                return false;
            } catch (ExecutionException e) {
                return e.getCause() instanceof UnknownTopicOrPartitionException;
            }
        });
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        Waiting.until("the access control list is " + entries, () -> {
            Set<AccessControlEntry> found = new HashSet<>();
            for (AclBinding binding : asking.describeAcls(filter).values().get()) {
                found.add(binding.entry());
            }
            return found.equals(new HashSet<>(entries));
        });
    }
}

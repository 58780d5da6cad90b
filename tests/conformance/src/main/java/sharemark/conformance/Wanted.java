package sharemark.conformance;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.TestKitDefaults;
import org.apache.kafka.server.common.Feature;

/**
 * What a broker in another process is started with: the fields of a {@link ClusterConfig} as properties and features.
 * A field that could not be honoured is an error, so that no test passes on a cluster that it did not ask for.
 */
public record Wanted(int brokers, Map<String, String> properties, Map<Integer, String> racks,
                     Map<String, Short> features) {
    /** Properties that name a class of the test, which Kafka would load into the broker. */
    private static final Set<String> PLUG_INS = Set.of(
        "alter.config.policy.class.name", "client.quota.callback.class", "create.topic.policy.class.name",
        "group.consumer.assignors", "group.share.assignors", "metric.reporters", "principal.builder.class");
    private static final Set<String> SECURITY = Set.of("authorizer.class.name", "sasl.enabled.mechanisms");
    private static final Set<String> BUILT_IN = Set.of("uniform", "range", "simple");
    private static final String RACK = "broker.rack";

    /** Returns what {@code config} asks for. */
    public static Wanted of(ClusterConfig config) {
        refuseSecurity(config);
        refuseWhatIsNotThere(config);
        Map<String, String> properties = new TreeMap<>(config.serverProperties());
        Map<Integer, String> racks = new TreeMap<>();
        for (var server : config.perServerOverrideProperties().entrySet()) {
            addServer(config, server.getKey(), server.getValue(), properties, racks);
        }
        properties.forEach(Wanted::refuseClasses);
        if (config.numControllers() != 1) {
            throw new Unreachable(Reason.INSIDE_JVM, config.numControllers() + " controllers");
        }
        return new Wanted(config.numBrokers(), properties, racks, features(config));
    }

    private static void refuseSecurity(ClusterConfig config) {
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT
            || config.controllerSecurityProtocol() != SecurityProtocol.PLAINTEXT
            || config.trustStoreFile().isPresent()) {
            throw new Unreachable(Reason.SECURITY, config.brokerSecurityProtocol() + " between client and broker");
        }
    }

    private static void refuseWhatIsNotThere(ClusterConfig config) {
        refuse(config.numDisksPerBroker() != 1, "disksPerBroker=" + config.numDisksPerBroker());
        refuse(config.standalone(), "standalone");
        refuse(!config.brokerListenerName().value().equals(TestKitDefaults.DEFAULT_BROKER_LISTENER_NAME),
            "brokerListener=" + config.brokerListenerName().value());
        refuse(!config.controllerListenerName().value().equals(TestKitDefaults.DEFAULT_CONTROLLER_LISTENER_NAME),
            "controllerListener=" + config.controllerListenerName().value());
    }

    private static void refuse(boolean isSet, String field) {
        if (isSet) {
            throw new IllegalArgumentException("the test asks for what is not built: " + field);
        }
    }

    /** The nodes of the other process share one set of properties, but for the rack of each. */
    private static void addServer(ClusterConfig config, int id, Map<String, String> of,
                                  Map<String, String> properties, Map<Integer, String> racks) {
        for (var property : of.entrySet()) {
            if (property.getKey().equals(RACK)) {
                racks.put(id, property.getValue());
                continue;
            }
            refuseClasses(property.getKey(), property.getValue());
            String before = properties.putIfAbsent(property.getKey(), property.getValue());
            refuse(before != null && !before.equals(property.getValue()) && !config.serverProperties()
                .containsKey(property.getKey()), property.getKey() + " that differs from node to node");
            properties.put(property.getKey(), property.getValue());
        }
    }

    private static void refuseClasses(String key, String value) {
        if (SECURITY.contains(key)) {
            throw new Unreachable(Reason.SECURITY, key + "=" + value);
        }
        if (PLUG_INS.contains(key) && !BUILT_IN.containsAll(List.of(value.split(",")))) {
            throw new Unreachable(Reason.PLUG_IN, key + "=" + value);
        }
    }

    /** Features that are told, and for an older metadata version those that a cluster formatted with it has. */
    private static Map<String, Short> features(ClusterConfig config) {
        Map<String, Short> features = new TreeMap<>();
        features.put("metadata.version", config.metadataVersion().featureLevel());
        if (config.metadataVersion() != ClusterConfig.defaultBuilder().build().metadataVersion()) {
            for (Feature feature : Feature.PRODUCTION_FEATURES) {
                features.put(feature.featureName(), feature.defaultLevel(config.metadataVersion()));
            }
        }
        config.features().forEach((feature, level) -> features.put(feature.featureName(), level));
        return features;
    }
}

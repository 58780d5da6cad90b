package sharemark.conformance;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.api.AutoStart;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterConfigProperty;
import org.apache.kafka.common.test.api.ClusterFeature;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;

/** Reads what the annotations of a test ask of its cluster: those of the method over those of the class. */
public final class Annotations {
    private static final int ALL_NODES = -1;

    private Annotations() {
    }

    /** Carries the defaults of the annotation. */
    @ClusterTestDefaults
    private static final class WithoutDefaults {
    }

    /** Returns what the class says for all of its methods. */
    public static ClusterTestDefaults defaults(Class<?> test) {
        Class<?> carrier = test.isAnnotationPresent(ClusterTestDefaults.class) ? test : WithoutDefaults.class;
        return carrier.getAnnotation(ClusterTestDefaults.class);
    }

    /** Returns the cluster that one annotation asks for. */
    public static ClusterConfig config(ClusterTest test, ClusterTestDefaults defaults) {
        boolean autoStart = test.autoStart() == AutoStart.DEFAULT
            ? defaults.autoStart()
            : test.autoStart() == AutoStart.YES;
        Map<String, String> everywhere = new TreeMap<>();
        Map<Integer, Map<String, String>> perServer = new TreeMap<>();
        for (ClusterConfigProperty[] properties : List.of(defaults.serverProperties(), test.serverProperties())) {
            for (ClusterConfigProperty property : properties) {
                Map<String, String> of = property.id() == ALL_NODES
                    ? everywhere
                    : perServer.computeIfAbsent(property.id(), id -> new TreeMap<>());
                of.put(property.key(), property.value());
            }
        }
        Map<Feature, Short> features = new HashMap<>();
        for (ClusterFeature feature : test.features()) {
            features.put(feature.feature(), feature.version());
        }
        Type[] types = test.types().length == 0 ? defaults.types() : test.types();
        return ClusterConfig.builder()
            .setTypes(Set.of(types))
            .setBrokers(orDefault(test.brokers(), defaults.brokers()))
            .setControllers(orDefault(test.controllers(), defaults.controllers()))
            .setDisksPerBroker(orDefault(test.disksPerBroker(), defaults.disksPerBroker()))
            .setAutoStart(autoStart)
            .setBrokerListenerName(ListenerName.normalised(test.brokerListener()))
            .setBrokerSecurityProtocol(test.brokerSecurityProtocol())
            .setControllerListenerName(ListenerName.normalised(test.controllerListener()))
            .setControllerSecurityProtocol(test.controllerSecurityProtocol())
            .setServerProperties(everywhere)
            .setPerServerProperties(perServer)
            .setMetadataVersion(test.metadataVersion())
            .setTags(Arrays.asList(test.tags()))
            .setFeatures(features)
            .setStandalone(test.standalone())
            .build();
    }

    /** Returns the clusters that the method called {@code name} of the test class makes. */
    @SuppressWarnings("unchecked")
    public static List<ClusterConfig> generated(Class<?> test, String name) {
        try {
            Method method = test.getDeclaredMethod(name);
            method.setAccessible(true);
            return (List<ClusterConfig>) method.invoke(null);
        } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException e) {
            throw new IllegalStateException(test.getName() + "." + name + " makes no clusters", e);
        }
    }

    private static int orDefault(int wanted, int otherwise) {
        return wanted == 0 ? otherwise : wanted;
    }
}

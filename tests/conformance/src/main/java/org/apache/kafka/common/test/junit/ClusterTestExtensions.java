package org.apache.kafka.common.test.junit;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.stream.Stream;

import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterTemplate;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;
import sharemark.conformance.Annotations;
import sharemark.conformance.OutsideCluster;
import sharemark.conformance.Report;

/**
 * Gives Kafka's own tests a cluster that runs in another process.
 *
 * <p>It has the name of the class that JUnit finds in Kafka's jar, and stands before that jar on the class path.
 */
public final class ClusterTestExtensions implements TestTemplateInvocationContextProvider, ExecutionCondition {
    /** A cluster without and one with combined nodes look the same from outside; normally one of them is run. */
    private static final boolean ALL_TYPES = Boolean.getBoolean("sharemark.types.all");
    /** The methods to run, as the report names them; none means all. */
    private static final Set<String> ONLY = Report.names(System.getProperty("sharemark.methods", ""));
    /** Kafka's test interceptors count in static fields, so one test at a time may use them. */
    private static final Semaphore INTERCEPTORS = new Semaphore(1);

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        boolean isWanted = ONLY.isEmpty() || context.getTestMethod()
            .map(method -> ONLY.contains(Report.name(context.getRequiredTestClass().getName(), method.getName())))
            .orElse(true);
        return isWanted ? ConditionEvaluationResult.enabled("wanted") : ConditionEvaluationResult.disabled("not wanted");
    }

    @Override
    public boolean supportsTestTemplate(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        return Stream.of(ClusterTest.class, ClusterTests.class, ClusterTemplate.class)
            .anyMatch(method::isAnnotationPresent);
    }

    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        ClusterTestDefaults defaults = Annotations.defaults(context.getRequiredTestClass());
        List<ClusterConfig> configs = new ArrayList<>();
        Optional.ofNullable(method.getAnnotation(ClusterTest.class))
            .ifPresent(test -> configs.add(Annotations.config(test, defaults)));
        Optional.ofNullable(method.getAnnotation(ClusterTests.class)).stream()
            .flatMap(tests -> Stream.of(tests.value()))
            .forEach(test -> configs.add(Annotations.config(test, defaults)));
        Optional.ofNullable(method.getAnnotation(ClusterTemplate.class)).ifPresent(template ->
            configs.addAll(Annotations.generated(context.getRequiredTestClass(), template.value())));
        return configs.stream().flatMap(config -> types(config).map(type -> new Invocation(config, type)));
    }

    private static Stream<Type> types(ClusterConfig config) {
        Stream<Type> sorted = config.clusterTypes().stream().sorted();
        return ALL_TYPES ? sorted : sorted.limit(1);
    }

    /** One run of a test method, with a cluster of its own. */
    private record Invocation(ClusterConfig config, Type type) implements TestTemplateInvocationContext {
        @Override
        public String getDisplayName(int index) {
            return type + " " + config.features() + " " + config.serverProperties();
        }

        @Override
        public List<Extension> getAdditionalExtensions() {
            return List.of(new Surroundings(new OutsideCluster(config, type)));
        }
    }

    /** Starts the cluster around a test and hands it to the test. */
    private record Surroundings(OutsideCluster cluster)
        implements BeforeEachCallback, AfterEachCallback, ParameterResolver {
        @Override
        public void beforeEach(ExtensionContext context) {
            String method = context.getRequiredTestMethod().getName();
            cluster.name(context.getRequiredTestClass().getSimpleName() + "." + method);
            if (countsInterceptions(context)) {
                INTERCEPTORS.acquireUninterruptibly();
            }
            if (cluster.config().isAutoStart()) {
                cluster.start();
            }
        }

        @Override
        public void afterEach(ExtensionContext context) {
            if (countsInterceptions(context)) {
                INTERCEPTORS.release();
            }
            cluster.stop();
            cluster.missing().ifPresent(reason -> context.publishReportEntry("missing", reason.words()));
        }

        private static boolean countsInterceptions(ExtensionContext context) {
            return context.getRequiredTestMethod().getName().contains("Intercept");
        }

        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ClusterInstance.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster;
        }
    }
}

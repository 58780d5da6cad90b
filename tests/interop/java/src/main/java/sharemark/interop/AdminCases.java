package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.same;
import static sharemark.interop.Broker.set;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.message.ApiVersionsRequestData;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.ApiVersionsRequest;
import org.apache.kafka.common.requests.ApiVersionsResponse;
import org.apache.kafka.common.requests.RequestHeader;

/** The admin client: topics, configs, cluster, features, share groups; and the API keys that are announced. */
final class AdminCases {
  private AdminCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("api-keys", AdminCases::apiKeys);
    cases.put("admin-topics", AdminCases::topics);
    cases.put("admin-topic-errors", AdminCases::topicErrors);
    cases.put("admin-topic-configs", AdminCases::topicConfigs);
    cases.put("admin-group-configs", AdminCases::groupConfigs);
    cases.put("admin-broker-configs", AdminCases::brokerConfigs);
    cases.put("admin-cluster", AdminCases::cluster);
    cases.put("admin-features", AdminCases::features);
    cases.put("admin-offsets", AdminCases::offsets);
    cases.put("admin-share-groups", AdminCases::shareGroups);
  }

  /** The clients of all other cases accept the unknown keys; this one sees that they are there. */
  private static void apiKeys(Broker broker) throws Exception {
    ApiVersionsResponse response = apiVersions(broker, (short) 4);
    Set<String> unknown = new TreeSet<>();
    for (ApiVersion api : response.data().apiKeys()) {
      if (!ApiKeys.hasId(api.apiKey())) {
        unknown.add(Short.toString(api.apiKey()));
      }
    }
    String expected = System.getenv().getOrDefault("EXPECT_UNKNOWN_KEYS", "");
    Set<String> wanted = new TreeSet<>(List.of(expected.split(",")));
    wanted.remove("");
    same(wanted, unknown, "API keys that Kafka 4.4 does not know");
    for (ApiKeys key : List.of(ApiKeys.PRODUCE, ApiKeys.FETCH, ApiKeys.SHARE_FETCH, ApiKeys.SHARE_ACKNOWLEDGE,
        ApiKeys.SHARE_GROUP_HEARTBEAT, ApiKeys.INIT_PRODUCER_ID, ApiKeys.END_TXN)) {
      holds(response.apiVersion(key.id) != null, key + " is announced");
    }
    for (short version = 0; version <= 5; version++) {
      same(response.data().apiKeys().size(), apiVersions(broker, version).data().apiKeys().size(),
          "API keys at version " + version);
    }
  }

  private static ApiVersionsResponse apiVersions(Broker broker, short version) throws Exception {
    ApiVersionsRequestData data = new ApiVersionsRequestData()
        .setClientSoftwareName("interop").setClientSoftwareVersion("1");
    RequestHeader header = new RequestHeader(ApiKeys.API_VERSIONS, version, "interop", 7);
    ByteBuffer frame = new ApiVersionsRequest(data, version).serializeWithHeader(header);
    String[] address = broker.bootstrap.split(":");
    try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
      DataOutputStream out = new DataOutputStream(socket.getOutputStream());
      out.writeInt(frame.remaining());
      out.write(frame.array(), frame.arrayOffset() + frame.position(), frame.remaining());
      out.flush();
      DataInputStream in = new DataInputStream(socket.getInputStream());
      ByteBuffer answer = ByteBuffer.wrap(in.readNBytes(in.readInt()));
      same(7, answer.getInt(), "correlation id");
      return ApiVersionsResponse.parse(new ByteBufferAccessor(answer), version);
    }
  }

  private static void topics(Broker broker) throws Exception {
    String topic = broker.createTopic("admin", 2);
    try (Admin admin = broker.admin()) {
      holds(admin.listTopics().names().get().contains(topic), "the topic is listed");
      TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
      same(2, described.partitions().size(), "partitions");
      holds(!described.isInternal(), "it is not internal");
      same(1, described.partitions().get(0).replicas().size(), "replicas");
      same(described.topicId(), admin.listTopics().namesToListings().get().get(topic).topicId(), "topic id");
      admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
      long deadline = System.currentTimeMillis() + 5_000;
      int partitions = 2;
      while (partitions != 3 && System.currentTimeMillis() < deadline) {
        partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
      }
      same(3, partitions, "partitions after the increase");
      admin.deleteTopics(List.of(topic)).all().get();
      boolean gone = false;
      while (!gone && System.currentTimeMillis() < deadline) {
        gone = !admin.listTopics().names().get().contains(topic);
      }
      holds(gone, "the topic is gone");
      fails(UnknownTopicOrPartitionException.class,
          () -> admin.describeTopics(List.of(topic)).allTopicNames().get());
      Set<String> all = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
      holds(!all.contains(topic), "nor among the internal ones");
    }
  }

  private static void topicErrors(Broker broker) throws Exception {
    String topic = broker.createTopic("errors", 1);
    try (Admin admin = broker.admin()) {
      fails(TopicExistsException.class,
          () -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
      fails(InvalidTopicException.class,
          () -> admin.createTopics(List.of(new NewTopic("no/slash", 1, (short) 1))).all().get());
      fails(InvalidPartitionsException.class,
          () -> admin.createTopics(List.of(new NewTopic(broker.fresh("zero"), 0, (short) 1))).all().get());
      fails(InvalidConfigurationException.class, () -> admin.createTopics(List.of(
          new NewTopic(broker.fresh("bad"), 1, (short) 1).configs(Map.of("cleanup.policy", "x")))).all().get());
      fails(InvalidPartitionsException.class,
          () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all().get());
      fails(UnknownTopicOrPartitionException.class,
          () -> admin.deleteTopics(List.of(broker.fresh("missing"))).all().get());
    }
  }

  private static Config describe(Admin admin, ConfigResource resource) throws Exception {
    return admin.describeConfigs(List.of(resource)).all().get().get(resource);
  }

  private static void alter(Admin admin, ConfigResource resource, AlterConfigOp... ops) throws Exception {
    admin.incrementalAlterConfigs(Map.of(resource, (Collection<AlterConfigOp>) List.of(ops))).all().get();
  }

  private static void waitFor(Admin admin, ConfigResource resource, String name, String value) throws Exception {
    long deadline = System.currentTimeMillis() + 5_000;
    while (!value.equals(describe(admin, resource).get(name).value())) {
      holds(System.currentTimeMillis() < deadline, name + " becomes " + value);
      Thread.sleep(20);
    }
  }

  private static void topicConfigs(Broker broker) throws Exception {
    String topic = broker.createTopic("configs", 1);
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    try (Admin admin = broker.admin()) {
      ConfigEntry before = describe(admin, resource).get("retention.ms");
      holds(before.isDefault(), "retention.ms is a default");
      alter(admin, resource, set("retention.ms", "86400000"), set("cleanup.policy", "compact"));
      waitFor(admin, resource, "retention.ms", "86400000");
      ConfigEntry after = describe(admin, resource).get("retention.ms");
      same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, after.source(), "source");
      alter(admin, resource,
          new AlterConfigOp(new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE),
          new AlterConfigOp(new ConfigEntry("cleanup.policy", "delete"), AlterConfigOp.OpType.APPEND));
      waitFor(admin, resource, "retention.ms", before.value());
      same("compact,delete", describe(admin, resource).get("cleanup.policy").value(), "appended list");
      fails(InvalidConfigurationException.class, () -> {
        alter(admin, resource, set("retention.ms", "many"));
        return null;
      });
    }
  }

  private static void groupConfigs(Broker broker) throws Exception {
    String group = broker.fresh("group");
    ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
    try (Admin admin = broker.admin()) {
      alter(admin, resource, set("share.record.lock.duration.ms", "20000"),
          set("share.auto.offset.reset", "earliest"));
      waitFor(admin, resource, "share.record.lock.duration.ms", "20000");
      same("earliest", describe(admin, resource).get("share.auto.offset.reset").value(), "reset policy");
      same("read_uncommitted", describe(admin, resource).get("share.isolation.level").value(), "isolation level");
      fails(InvalidConfigurationException.class, () -> {
        alter(admin, resource, set("share.delivery.count.limit", "1"));
        return null;
      });
    }
  }

  private static void brokerConfigs(Broker broker) throws Exception {
    try (Admin admin = broker.admin()) {
      int node = admin.describeCluster().nodes().get().iterator().next().id();
      Config config = describe(admin, new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(node)));
      for (String name : List.of("group.share.delivery.count.limit", "transaction.max.timeout.ms",
          "message.max.bytes", "num.partitions")) {
        holds(config.get(name) != null && config.get(name).value() != null, name + " is described");
      }
    }
  }

  private static void cluster(Broker broker) throws Exception {
    try (Admin admin = broker.admin()) {
      DescribeClusterResult cluster = admin.describeCluster();
      holds(!cluster.clusterId().get().isEmpty(), "there is a cluster id");
      holds(!cluster.nodes().get().isEmpty(), "there are nodes");
      holds(cluster.nodes().get().contains(cluster.controller().get()), "the controller is one of them");
    }
  }

  private static void features(Broker broker) throws Exception {
    try (Admin admin = broker.admin()) {
      FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
      same((short) 2, features.finalizedFeatures().get("transaction.version").maxVersionLevel(),
          "transaction.version");
      holds(features.finalizedFeatures().get("share.version").maxVersionLevel() >= 1, "share.version is on");
      same((short) 1, features.finalizedFeatures().get("group.version").maxVersionLevel(), "group.version");
      holds(features.supportedFeatures().containsKey("metadata.version"), "metadata.version is supported");
    }
  }

  private static void offsets(Broker broker) throws Exception {
    String topic = broker.createTopic("offsets", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    long base = System.currentTimeMillis() - 10_000;
    try (Admin admin = broker.admin(); KafkaProducer<String, String> producer = broker.producer()) {
      for (long timestamp : new long[] {base, base + 3000, base + 1000}) {
        producer.send(new ProducerRecord<>(topic, 0, timestamp, null, "v")).get();
      }
      same(0L, admin.listOffsets(Map.of(tp, OffsetSpec.earliest())).all().get().get(tp).offset(), "earliest");
      same(3L, admin.listOffsets(Map.of(tp, OffsetSpec.latest())).all().get().get(tp).offset(), "latest");
      same(1L, admin.listOffsets(Map.of(tp, OffsetSpec.maxTimestamp())).all().get().get(tp).offset(), "largest");
      same(1L, admin.listOffsets(Map.of(tp, OffsetSpec.forTimestamp(base + 500))).all().get().get(tp).offset(),
          "by time");
    }
  }

  private static void shareGroups(Broker broker) throws Exception {
    String topic = broker.createTopic("groups", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    String group = broker.shareGroup();
    try (Admin admin = broker.admin(); KafkaProducer<String, String> producer = broker.producer()) {
      fails(GroupIdNotFoundException.class, () -> admin.describeShareGroups(List.of(group)).all().get());
      for (int i = 0; i < 3; i++) {
        producer.send(new ProducerRecord<>(topic, "v" + i)).get();
      }
      try (KafkaShareConsumer<String, String> consumer = broker.shareConsumer(group)) {
        consumer.subscribe(List.of(topic));
        Broker.pollUntil(consumer, all -> all.size() == 3);
        consumer.commitSync();
        ShareGroupDescription described = admin.describeShareGroups(List.of(group)).all().get().get(group);
        same(GroupState.STABLE, described.groupState(), "state");
        same(1, described.members().size(), "members");
        same(Set.of(tp), described.members().iterator().next().assignment().topicPartitions(), "assignment");
      }
      holds(admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group)
          && g.type().map(type -> type.toString().equalsIgnoreCase("share")).orElse(false)), "it is listed");
      producer.send(new ProducerRecord<>(topic, "later")).get();
      var offsets = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
          .partitionsToOffsetInfo(group).get().get(tp);
      same(1L, offsets.lag().orElseThrow(), "lag");
      same(GroupState.EMPTY, admin.describeShareGroups(List.of(group)).all().get().get(group).groupState(),
          "state after the member left");
    }
  }
}

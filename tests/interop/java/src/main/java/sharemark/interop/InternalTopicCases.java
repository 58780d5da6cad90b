package sharemark.interop;

import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.same;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/** Decodes every record of the internal topics with the classes of Kafka's own coordinators. */
final class InternalTopicCases {
  private InternalTopicCases() {}

  /** One kind of coordinator record. */
  private record Kind(String name, ApiMessage key, ApiMessage value, short lowest, short highest) {}

  private interface Kinds {
    Kind of(short id);
  }

  static void add(Map<String, Main.Case> cases) {
    cases.put("internal-topics-are-internal", InternalTopicCases::areInternal);
    cases.put("decode-share-group-state", broker -> decode(broker, "__share_group_state", id -> {
      var type = org.apache.kafka.coordinator.share.generated.CoordinatorRecordType.fromId(id);
      return new Kind(type.name(), type.newRecordKey(), type.newRecordValue(), type.lowestSupportedVersion(),
          type.highestSupportedVersion());
    }, Set.of("SHARE_SNAPSHOT", "SHARE_UPDATE")));
    cases.put("decode-transaction-state", broker -> decode(broker, "__transaction_state", id -> {
      var type = org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType.fromId(id);
      return new Kind(type.name(), type.newRecordKey(), type.newRecordValue(), type.lowestSupportedVersion(),
          type.highestSupportedVersion());
    }, Set.of("TRANSACTION_LOG")));
    cases.put("decode-consumer-offsets", broker -> decode(broker, "__consumer_offsets", id -> {
      var type = org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.fromId(id);
      return new Kind(type.name(), type.newRecordKey(), type.newRecordValue(), type.lowestSupportedVersion(),
          type.highestSupportedVersion());
    }, Set.of("SHARE_GROUP_MEMBER_METADATA", "SHARE_GROUP_METADATA", "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA",
        "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER", "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT",
        "SHARE_GROUP_STATE_PARTITION_METADATA")));
  }

  private static void areInternal(Broker broker) throws Exception {
    try (Admin admin = broker.admin()) {
      Set<String> visible = admin.listTopics().names().get();
      Set<String> all = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
      for (String topic : List.of("__share_group_state", "__transaction_state", "__consumer_offsets")) {
        holds(all.contains(topic), topic + " exists");
        holds(!visible.contains(topic), topic + " is hidden by default");
        TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        holds(described.isInternal(), topic + " is internal");
      }
    }
  }

  private static void decode(Broker broker, String topic, Kinds kinds, Set<String> wanted) throws Exception {
    Map<String, Integer> seen = new TreeMap<>();
    int tombstones = 0;
    int partitions;
    try (Admin admin = broker.admin()) {
      partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }
    for (int partition = 0; partition < partitions; partition++) {
      for (ConsumerRecord<byte[], byte[]> record : broker.readAll(topic, partition, "read_uncommitted")) {
        String name = decodeOne(record, kinds);
        seen.merge(name, 1, Integer::sum);
        tombstones += record.value() == null ? 1 : 0;
      }
    }
    System.out.printf("  %s: %s, tombstones %d%n", topic, seen, tombstones);
    holds(seen.keySet().containsAll(wanted), "every kind of " + wanted + " is in " + topic + ": " + seen.keySet());
  }

  private static String decodeOne(ConsumerRecord<byte[], byte[]> record, Kinds kinds) {
    String where = record.topic() + "-" + record.partition() + " offset " + record.offset() + " key "
        + HexFormat.of().formatHex(record.key());
    ByteBuffer key = ByteBuffer.wrap(record.key());
    Kind kind = kinds.of(key.getShort());
    kind.key().read(new ByteBufferAccessor(key), (short) 0);
    same(0, key.remaining(), "bytes left of the key of " + where);
    same(HexFormat.of().formatHex(record.key(), 2, record.key().length), hex(kind.key(), (short) 0),
        "the key written again, " + where);
    if (record.value() != null) {
      ByteBuffer value = ByteBuffer.wrap(record.value());
      short version = value.getShort();
      holds(kind.lowest() <= version && version <= kind.highest(), "value version " + version + " of " + where);
      kind.value().read(new ByteBufferAccessor(value), version);
      same(0, value.remaining(), "bytes left of the value of " + where);
      same(HexFormat.of().formatHex(record.value(), 2, record.value().length), hex(kind.value(), version),
          "the value written again, " + where);
      if (!kind.value().unknownTaggedFields().isEmpty()) {
        return kind.name() + "+tags";
      }
    }
    return kind.name();
  }

  private static String hex(ApiMessage message, short version) {
    ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
    byte[] bytes = new byte[written.remaining()];
    written.get(bytes);
    return HexFormat.of().formatHex(bytes);
  }
}

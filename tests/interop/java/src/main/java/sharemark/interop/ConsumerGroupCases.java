package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.same;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.errors.UnsupportedAssignorException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Consumers of the new protocol (KIP-848): subscriptions, rebalances, static members, what an admin sees. */
final class ConsumerGroupCases {
  private static final Duration POLL = Duration.ofMillis(100);
  private static final long WAIT_MS = 40_000;

  private ConsumerGroupCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("consumer-subscribe-and-commit", ConsumerGroupCases::subscribeAndCommit);
    cases.put("consumer-regex", ConsumerGroupCases::regex);
    cases.put("consumer-two-members", ConsumerGroupCases::twoMembers);
    cases.put("consumer-static-member", ConsumerGroupCases::staticMember);
    cases.put("consumer-range-assignor", ConsumerGroupCases::rangeAssignor);
    cases.put("consumer-describe-and-delete", ConsumerGroupCases::describeAndDelete);
    cases.put("consumer-refused", ConsumerGroupCases::refused);
    cases.put("consumer-migration", ConsumerGroupCases::migration);
  }

  private static KafkaConsumer<String, String> consumer(Broker broker, String group, Object... pairs) {
    Map<String, Object> config = broker.config("group.id", group, "group.protocol", "consumer",
        "auto.offset.reset", "earliest", "enable.auto.commit", false);
    config.putAll(broker.config(pairs));
    return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
  }

  private static KafkaConsumer<String, String> classicConsumer(Broker broker, String group, Object... pairs) {
    Map<String, Object> config = broker.config("group.id", group, "group.protocol", "classic",
        "auto.offset.reset", "earliest", "enable.auto.commit", false, "heartbeat.interval.ms", 300);
    config.putAll(broker.config(pairs));
    return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
  }

  /** A group is upgraded member by member, read from all the while, and taken back the same way. */
  private static void migration(Broker broker) throws Exception {
    String topic = broker.createTopic("migration", 4);
    String group = broker.fresh("group");
    produce(broker, topic, 4, 40);
    String cooperative = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
    try (Admin admin = broker.admin();
        KafkaConsumer<String, String> old = classicConsumer(broker, group);
        KafkaConsumer<String, String> cautious = classicConsumer(broker, group,
            "partition.assignment.strategy", cooperative + ",org.apache.kafka.clients.consumer.RangeAssignor")) {
      old.subscribe(List.of(topic));
      same(40, values(old, 40).size(), "values");
      old.commitSync();
      same(GroupType.CLASSIC, type(admin, group), "the group's type");
      try (KafkaConsumer<String, String> modern = consumer(broker, group)) {
        modern.subscribe(List.of(topic));
        shared(List.of(old, modern), 4);
        same(GroupType.CONSUMER, type(admin, group), "the group's type once a member speaks the other protocol");
        cautious.subscribe(List.of(topic));
        shared(List.of(old, modern, cautious), 4);
        ConsumerGroupDescription described =
            admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        same(Set.of(true, false), described.members().stream().map(it -> it.upgraded().orElseThrow())
            .collect(Collectors.toSet()), "who is upgraded");
        produce(broker, topic, 4, 12);
        same(12, together(List.of(old, modern, cautious), 12).size(), "values by members of both protocols");
        for (KafkaConsumer<String, String> consumer : List.of(old, modern, cautious)) {
          consumer.commitSync();
        }
      }
      shared(List.of(old, cautious), 4);
      same(GroupType.CLASSIC, type(admin, group), "the group's type once no member speaks the other protocol");
      produce(broker, topic, 4, 8);
      same(8, together(List.of(old, cautious), 8).size(), "values by classic members");
    }
  }

  private static GroupType type(Admin admin, String group) throws Exception {
    for (GroupListing listing : admin.listGroups().all().get()) {
      if (listing.groupId().equals(group)) {
        return listing.type().orElseThrow();
      }
    }
    throw new AssertionError("the group is not listed");
  }

  /** Polls all in turn until each has something and all partitions belong to somebody. */
  private static void shared(List<KafkaConsumer<String, String>> consumers, int partitions) throws Exception {
    until("each has some of " + partitions + " partitions", () -> {
      consumers.forEach(consumer -> consumer.poll(POLL));
      Set<TopicPartition> all = new HashSet<>();
      consumers.forEach(consumer -> all.addAll(consumer.assignment()));
      int count = consumers.stream().mapToInt(consumer -> consumer.assignment().size()).sum();
      return all.size() == partitions && count == partitions
          && consumers.stream().noneMatch(consumer -> consumer.assignment().isEmpty());
    });
  }

  private static Set<String> together(List<KafkaConsumer<String, String>> consumers, int count) throws Exception {
    Set<String> values = new HashSet<>();
    until(count + " values came", () -> {
      for (KafkaConsumer<String, String> consumer : consumers) {
        consumer.poll(POLL).forEach(record -> values.add(record.value()));
      }
      return values.size() >= count;
    });
    return values;
  }

  private static void produce(Broker broker, String topic, int partitions, int count) throws Exception {
    try (KafkaProducer<String, String> producer = broker.producer("linger.ms", 20)) {
      for (int i = 0; i < count; i++) {
        producer.send(new ProducerRecord<>(topic, i % partitions, null, "v" + i));
      }
    }
  }

  /** Polls until this many different values came. */
  private static Set<String> values(KafkaConsumer<String, String> consumer, int count) {
    Set<String> values = new HashSet<>();
    long end = System.currentTimeMillis() + WAIT_MS;
    while (values.size() < count) {
      holds(System.currentTimeMillis() < end, "only " + values.size() + " of " + count + " values came");
      for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
        values.add(record.value());
      }
    }
    return values;
  }

  private interface Condition {
    boolean holds() throws Exception;
  }

  private static void until(String what, Condition condition) throws Exception {
    long end = System.currentTimeMillis() + WAIT_MS;
    while (!condition.holds()) {
      holds(System.currentTimeMillis() < end, "never so: " + what);
    }
  }

  private static void subscribeAndCommit(Broker broker) throws Exception {
    String topic = broker.createTopic("consumer", 2);
    String group = broker.fresh("group");
    produce(broker, topic, 2, 20);
    try (KafkaConsumer<String, String> consumer = consumer(broker, group)) {
      consumer.subscribe(List.of(topic));
      same(20, values(consumer, 20).size(), "values");
      consumer.commitSync();
    }
    produce(broker, topic, 2, 2);
    try (KafkaConsumer<String, String> consumer = consumer(broker, group)) {
      consumer.subscribe(List.of(topic));
      same(Set.of("v0", "v1"), values(consumer, 2), "what came after the commit");
      OffsetAndMetadata committed = consumer.committed(Set.of(new TopicPartition(topic, 0)))
          .get(new TopicPartition(topic, 0));
      same(10L, committed.offset(), "the committed offset");
    }
  }

  private static void regex(Broker broker) throws Exception {
    String prefix = broker.fresh("pattern");
    String first = broker.createTopic(prefix + "-a", 1);
    produce(broker, first, 1, 3);
    try (KafkaConsumer<String, String> consumer = consumer(broker, broker.fresh("group"))) {
      consumer.subscribe(new SubscriptionPattern(prefix + "-[ab].*"));
      values(consumer, 3);
      // Topics that appear later are found too.
      String second = broker.createTopic(prefix + "-b", 1);
      String other = broker.createTopic(prefix + "-c", 1);
      until("the second topic is assigned", () -> {
        consumer.poll(POLL);
        return consumer.assignment().contains(new TopicPartition(second, 0));
      });
      holds(!consumer.assignment().contains(new TopicPartition(other, 0)), "another topic is not assigned");
    }
    try (KafkaConsumer<String, String> consumer = consumer(broker, broker.fresh("group"))) {
      consumer.subscribe(new SubscriptionPattern("("));
      fails(InvalidRegularExpression.class, () -> {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (System.currentTimeMillis() < end) {
          consumer.poll(POLL);
        }
        return null;
      });
    }
  }

  private static void twoMembers(Broker broker) throws Exception {
    String topic = broker.createTopic("rebalance", 4);
    String group = broker.fresh("group");
    AtomicInteger revoked = new AtomicInteger();
    ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
      @Override
      public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        revoked.addAndGet(partitions.size());
      }

      @Override
      public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
    };
    try (KafkaConsumer<String, String> one = consumer(broker, group, "client.id", "one")) {
      one.subscribe(List.of(topic), listener);
      until("one has all", () -> {
        one.poll(POLL);
        return one.assignment().size() == 4;
      });
      try (KafkaConsumer<String, String> two = consumer(broker, group, "client.id", "two")) {
        two.subscribe(List.of(topic));
        until("each has two", () -> {
          one.poll(POLL);
          two.poll(POLL);
          return one.assignment().size() == 2 && two.assignment().size() == 2;
        });
        Set<TopicPartition> all = new HashSet<>(one.assignment());
        all.addAll(two.assignment());
        same(4, all.size(), "partitions of both");
        same(2, revoked.get(), "partitions that were revoked");
        produce(broker, topic, 4, 8);
        Set<String> values = new HashSet<>();
        until("both get theirs", () -> {
          for (KafkaConsumer<String, String> consumer : List.of(one, two)) {
            consumer.poll(POLL).forEach(record -> holds(values.add(record.value()), "each value comes once"));
          }
          return values.size() == 8;
        });
      }
      until("one has all again", () -> {
        one.poll(POLL);
        return one.assignment().size() == 4;
      });
    }
  }

  private static void staticMember(Broker broker) throws Exception {
    String topic = broker.createTopic("static", 2);
    String group = broker.fresh("group");
    try (KafkaConsumer<String, String> other = consumer(broker, group, "group.instance.id", "other")) {
      other.subscribe(List.of(topic));
      Set<TopicPartition> had;
      try (KafkaConsumer<String, String> member = consumer(broker, group, "group.instance.id", "member")) {
        member.subscribe(List.of(topic));
        until("each has one", () -> {
          member.poll(POLL);
          other.poll(POLL);
          return member.assignment().size() == 1 && other.assignment().size() == 1;
        });
        had = member.assignment();
        try (KafkaConsumer<String, String> twin = consumer(broker, group, "group.instance.id", "member")) {
          twin.subscribe(List.of(topic));
          fails(UnreleasedInstanceIdException.class, () -> {
            long end = System.currentTimeMillis() + WAIT_MS;
            while (System.currentTimeMillis() < end) {
              twin.poll(POLL);
            }
            return null;
          });
        }
      }
      // It left for a while: nobody else gets what it had.
      other.poll(POLL);
      same(1, other.assignment().size(), "partitions of the other while the member is away");
      try (KafkaConsumer<String, String> member = consumer(broker, group, "group.instance.id", "member")) {
        member.subscribe(List.of(topic));
        until("it is back", () -> {
          member.poll(POLL);
          return !member.assignment().isEmpty();
        });
        same(had, member.assignment(), "what it had before");
      }
    }
  }

  private static void rangeAssignor(Broker broker) throws Exception {
    String first = broker.createTopic("range", 3);
    String second = broker.createTopic("range", 3);
    String group = broker.fresh("group");
    try (KafkaConsumer<String, String> one = consumer(broker, group, "group.remote.assignor", "range");
        KafkaConsumer<String, String> two = consumer(broker, group, "group.remote.assignor", "range")) {
      one.subscribe(List.of(first, second));
      two.subscribe(List.of(first, second));
      until("the ranges are dealt out", () -> {
        one.poll(POLL);
        two.poll(POLL);
        return one.assignment().size() + two.assignment().size() == 6
            && Math.abs(one.assignment().size() - two.assignment().size()) == 2;
      });
      for (KafkaConsumer<String, String> consumer : List.of(one, two)) {
        Map<String, Set<Integer>> byTopic = consumer.assignment().stream().collect(Collectors.groupingBy(
            TopicPartition::topic, Collectors.mapping(TopicPartition::partition, Collectors.toSet())));
        same(byTopic.get(first), byTopic.get(second), "the same partitions of both topics");
      }
    }
  }

  private static void describeAndDelete(Broker broker) throws Exception {
    String topic = broker.createTopic("describe", 2);
    String group = broker.fresh("group");
    try (Admin admin = broker.admin()) {
      try (KafkaConsumer<String, String> consumer = consumer(broker, group, "client.id", "looker")) {
        consumer.subscribe(List.of(topic));
        until("it has both", () -> {
          consumer.poll(POLL);
          return consumer.assignment().size() == 2;
        });
        ConsumerGroupDescription description =
            admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        same(GroupType.CONSUMER, description.type(), "the type");
        same(GroupState.STABLE, description.groupState(), "the state");
        same("uniform", description.partitionAssignor(), "the assignor");
        same(1, description.members().size(), "members");
        MemberDescription member = description.members().iterator().next();
        same("looker", member.clientId(), "the client id");
        same(2, member.assignment().topicPartitions().size(), "its partitions");
        same(consumer.assignment(), member.targetAssignment().orElseThrow().topicPartitions(), "its target");
        same(Optional.of(Boolean.TRUE), member.upgraded(), "it speaks the new protocol");
        Collection<GroupListing> listed =
            admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).all().get();
        holds(listed.stream().anyMatch(it -> it.groupId().equals(group)), "it is listed by its type");
        fails(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
      }
      same(GroupState.EMPTY,
          admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState(), "its state after");
      admin.deleteConsumerGroups(List.of(group)).all().get();
      List<String> left = new ArrayList<>();
      admin.listGroups().all().get().forEach(it -> left.add(it.groupId()));
      holds(!left.contains(group), "it is deleted");
    }
  }

  private static void refused(Broker broker) throws Exception {
    String topic = broker.createTopic("refused", 1);
    try (KafkaConsumer<String, String> consumer =
        consumer(broker, broker.fresh("group"), "group.remote.assignor", "sticky")) {
      consumer.subscribe(List.of(topic));
      fails(UnsupportedAssignorException.class, () -> {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (System.currentTimeMillis() < end) {
          consumer.poll(POLL);
        }
        return null;
      });
    }
  }
}

package sharemark.interop;

import static sharemark.interop.Broker.fails;
import static sharemark.interop.Broker.holds;
import static sharemark.interop.Broker.same;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidUpdateVersionException;
import org.apache.kafka.common.errors.LogDirNotFoundException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** The admin client: directories, leaders, the quorum, quotas, credentials, features, and transactions that hang. */
final class ClusterCases {
  private ClusterCases() {}

  static void add(Map<String, Main.Case> cases) {
    cases.put("cluster-log-dirs", ClusterCases::logDirs);
    cases.put("cluster-leaders", ClusterCases::leaders);
    cases.put("cluster-quorum", ClusterCases::quorum);
    cases.put("cluster-quotas", ClusterCases::quotas);
    cases.put("cluster-credentials", ClusterCases::credentials);
    cases.put("cluster-features", ClusterCases::features);
    cases.put("cluster-refusals", ClusterCases::refusals);
    cases.put("cluster-fencing", ClusterCases::fencing);
    cases.put("cluster-hanging-transaction", ClusterCases::hangingTransaction);
    cases.put("cluster-delete-records", ClusterCases::deleteRecords);
  }

  private static int node(Admin admin) throws Exception {
    return admin.describeCluster().nodes().get().iterator().next().id();
  }

  private static void logDirs(Broker broker) throws Exception {
    String topic = broker.createTopic("dirs", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    try (Admin admin = broker.admin(); KafkaProducer<String, String> producer = broker.producer()) {
      producer.send(new ProducerRecord<>(topic, "v")).get();
      int node = node(admin);
      Map<String, LogDirDescription> dirs = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
      same(1, dirs.size(), "directories");
      Map.Entry<String, LogDirDescription> dir = dirs.entrySet().iterator().next();
      holds(dir.getValue().replicaInfos().get(tp).size() > 0, "the partition takes room");
      holds(dir.getValue().usableBytes().getAsLong() <= dir.getValue().totalBytes().getAsLong(), "room is told");
      TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, node);
      same(dir.getKey(), admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica)
          .getCurrentReplicaLogDir(), "the directory of the replica");
      admin.alterReplicaLogDirs(Map.of(replica, dir.getKey())).all().get();
      fails(LogDirNotFoundException.class,
          () -> admin.alterReplicaLogDirs(Map.of(replica, "/no/such/directory")).all().get());
    }
  }

  private static void leaders(Broker broker) throws Exception {
    String topic = broker.createTopic("leaders", 2);
    TopicPartition tp = new TopicPartition(topic, 0);
    try (Admin admin = broker.admin()) {
      Optional<Throwable> error = admin.electLeaders(ElectionType.PREFERRED, Set.of(tp)).partitions().get().get(tp);
      holds(error.orElseThrow() instanceof ElectionNotNeededException, "it leads already: " + error);
      admin.electLeaders(ElectionType.PREFERRED, null).all().get();
      int node = node(admin);
      admin.alterPartitionReassignments(Map.of(tp, Optional.of(new NewPartitionReassignment(List.of(node)))))
          .all().get();
      same(Map.of(), admin.listPartitionReassignments(Set.of(tp)).reassignments().get(), "reassignments");
      fails(InvalidReplicaAssignmentException.class, () -> admin.alterPartitionReassignments(
          Map.of(tp, Optional.of(new NewPartitionReassignment(List.of(9999))))).all().get());
      fails(NoReassignmentInProgressException.class,
          () -> admin.alterPartitionReassignments(Map.of(tp, Optional.empty())).all().get());
    }
  }

  private static void quorum(Broker broker) throws Exception {
    try (Admin admin = broker.admin()) {
      QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
      same(admin.describeCluster().controller().get().id(), quorum.leaderId(), "the controller leads");
      holds(quorum.voters().stream().anyMatch(voter -> voter.replicaId() == quorum.leaderId()), "and votes");
    }
  }

  private static void quotas(Broker broker) throws Exception {
    String user = broker.fresh("user");
    ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user));
    ClientQuotaFilter filter = ClientQuotaFilter.containsOnly(
        List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, user)));
    try (Admin admin = broker.admin()) {
      admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
          List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1000.0))))).all().get();
      Map<ClientQuotaEntity, Map<String, Double>> wanted = Map.of(entity, Map.of("producer_byte_rate", 1000.0));
      waitFor(() -> wanted.equals(admin.describeClientQuotas(filter).entities().get()), "the quota is kept");
      admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
          List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
      waitFor(() -> admin.describeClientQuotas(filter).entities().get().isEmpty(), "the quota is gone");
    }
  }

  private static void credentials(Broker broker) throws Exception {
    String user = broker.fresh("user");
    try (Admin admin = broker.admin()) {
      ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
      admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, "secret"))).all().get();
      waitFor(() -> admin.describeUserScramCredentials().users().get().contains(user), "the user has one");
      same(List.of(info), admin.describeUserScramCredentials(List.of(user)).description(user).get()
          .credentialInfos(), "credentials");
      admin.alterUserScramCredentials(
          List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))).all().get();
      waitFor(() -> !admin.describeUserScramCredentials().users().get().contains(user), "it is gone");
      fails(ResourceNotFoundException.class,
          () -> admin.describeUserScramCredentials(List.of(user)).description(user).get());
    }
  }

  private static void features(Broker broker) throws Exception {
    try (Admin admin = broker.admin()) {
      UpdateFeaturesOptions dry = new UpdateFeaturesOptions().validateOnly(true);
      FeatureUpdate down = new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
      admin.updateFeatures(Map.of("transaction.version", down), dry).all().get();
      FeatureUpdate up = new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE);
      fails(InvalidUpdateVersionException.class,
          () -> admin.updateFeatures(Map.of("transaction.version", up), dry).all().get());
      same((short) 2, admin.describeFeatures().featureMetadata().get().finalizedFeatures()
          .get("transaction.version").maxVersionLevel(), "a dry run changes nothing");
    }
  }

  private static void refusals(Broker broker) throws Exception {
    try (Admin admin = broker.admin()) {
      fails(SecurityDisabledException.class, () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
      fails(SecurityDisabledException.class, () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
      fails(BrokerIdNotRegisteredException.class, () -> admin.unregisterBroker(9999).all().get());
    }
  }

  private static void fencing(Broker broker) throws Exception {
    String topic = broker.createTopic("fenced", 1);
    String id = broker.fresh("txn");
    try (Admin admin = broker.admin(); KafkaProducer<String, String> producer = broker.producer("transactional.id", id, "max.block.ms", 20_000)) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "v")).get();
      admin.fenceProducers(List.of(id)).all().get();
      waitFor(() -> admin.describeTransactions(List.of(id)).description(id).get().state()
          != TransactionState.ONGOING, "its transaction is over");
      try {
        producer.commitTransaction();
        holds(false, "a fenced producer commits");
      } catch (ProducerFencedException expected) {
        same(0L, 0L, "fenced");
      }
    }
  }

  private static void hangingTransaction(Broker broker) throws Exception {
    String topic = broker.createTopic("hanging", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    String id = broker.fresh("txn");
    try (Admin admin = broker.admin(); KafkaProducer<String, String> producer = broker.producer("transactional.id", id, "max.block.ms", 20_000)) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "v")).get();
      ProducerState open = producerState(admin, tp);
      same(0L, open.currentTransactionStartOffset().getAsLong(), "it begins with the first record");
      holds(admin.listTransactions().all().get().stream().anyMatch(one -> one.transactionalId().equals(id)
          && one.state() == TransactionState.ONGOING && one.producerId() == open.producerId()), "it is listed");
      same(Set.of(tp), admin.describeTransactions(List.of(id)).description(id).get().topicPartitions(), "partitions");
      admin.abortTransaction(new AbortTransactionSpec(tp, open.producerId(), (short) open.producerEpoch(),
          open.coordinatorEpoch().orElse(0))).all().get();
      holds(producerState(admin, tp).currentTransactionStartOffset().isEmpty(), "nothing is open there any more");
    }
  }

  private static ProducerState producerState(Admin admin, TopicPartition tp) throws Exception {
    return admin.describeProducers(List.of(tp)).partitionResult(tp).get().activeProducers().get(0);
  }

  private static void deleteRecords(Broker broker) throws Exception {
    String topic = broker.createTopic("deleted", 1);
    TopicPartition tp = new TopicPartition(topic, 0);
    try (Admin admin = broker.admin(); KafkaProducer<String, String> producer = broker.producer()) {
      for (int i = 0; i < 5; i++) {
        producer.send(new ProducerRecord<>(topic, "v" + i)).get();
      }
      same(3L, admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(3))).lowWatermarks().get(tp).get()
          .lowWatermark(), "where the log begins");
    }
  }

  /** Something that becomes true a moment after it was answered, or at once. */
  private interface Question {
    boolean ask() throws Exception;
  }

  private static void waitFor(Question question, String what) throws Exception {
    long deadline = System.currentTimeMillis() + 5_000;
    while (!question.ask()) {
      holds(System.currentTimeMillis() < deadline, what);
      Thread.sleep(20);
    }
  }
}

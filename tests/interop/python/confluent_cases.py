"""Cases for confluent-kafka (librdkafka)."""

import time

from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from harness import BOOTSTRAP, WAIT_SECONDS, case, control, control_case, fresh, numbered, same

def config(**more):
    settings = {"bootstrap.servers": BOOTSTRAP}
    settings.update({name.replace("_", "."): value for name, value in more.items()})
    return settings


def create_topic(prefix, partitions=1):
    name = fresh(prefix)
    admin = AdminClient(config())
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(WAIT_SECONDS)
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        topic = admin.list_topics(name, timeout=WAIT_SECONDS).topics[name]
        if topic.error is None and topic.partitions and all(p.leader >= 0 for p in topic.partitions.values()):
            return name
        time.sleep(0.02)
    raise AssertionError(f"no leaders for {name}")


def share_group(**settings):
    name = fresh("share")
    settings = {"share.auto.offset.reset": "earliest"} | {k.replace("_", "."): v for k, v in settings.items()}
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=entries)
    admin = AdminClient(config())  # It must live until the answer is there.
    admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)
    time.sleep(0.1)  # Kafka applies it after its answer.
    return name


def send(topic, values, **settings):
    failed = []
    producer = Producer(config(**settings))
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: error and failed.append(error))
    same("messages left in the queue", 0, producer.flush(WAIT_SECONDS))
    same("failed deliveries", [], failed)


def read(topic, isolation, count):
    consumer = Consumer(config(group_id=fresh("reader"), isolation_level=isolation, enable_auto_commit=False))
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    end = time.monotonic() + WAIT_SECONDS
    while len(values) < count and time.monotonic() < end:
        for message in consumer.consume(500, 0.2):
            if message.error():
                raise KafkaException(message.error())
            values.append(message.value().decode())
    values += [message.value().decode() for message in consumer.consume(500, 0.5) if not message.error()]
    consumer.close()
    return values


def share_consumer(group, **settings):
    return ShareConsumer(config(group_id=group, **settings))


def take(consumer, count):
    messages = []
    end = time.monotonic() + WAIT_SECONDS
    while len(messages) < count and time.monotonic() < end:
        for message in consumer.poll(0.5):
            if message.error():
                raise KafkaException(message.error())
            messages.append(message)
    if len(messages) < count:
        raise AssertionError(f"only {len(messages)} of {count} records came")
    return messages


def nothing(consumer, polls=3):
    for _ in range(polls):
        same("records where none should come", 0, len(list(consumer.poll(0.4))))


def commit(consumer):
    for partition, error in consumer.commit_sync(WAIT_SECONDS).items():
        same(f"commit of {partition}", None, error)


@case
def produce_and_consume():
    topic = create_topic("round")
    send(topic, numbered(300))
    same("values", numbered(300), read(topic, "read_uncommitted", 300))


@case
def idempotent_producer():
    topic = create_topic("idempotent")
    send(topic, numbered(200), enable_idempotence=True)
    same("values", numbered(200), read(topic, "read_committed", 200))


@case
def compression():
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topic = create_topic("codec")
        send(topic, numbered(100), compression_type=codec, linger_ms=50)
        same(f"values with {codec}", numbered(100), read(topic, "read_committed", 100))


@case
def admin_topics_and_configs():
    topic = create_topic("admin", 2)
    admin = AdminClient(config())
    same("partitions", 2, len(admin.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(WAIT_SECONDS)
    same("retention.ms", "604800000", described["retention.ms"].value)
    cluster = admin.describe_cluster(request_timeout=WAIT_SECONDS).result(WAIT_SECONDS)
    same("there are nodes", True, len(cluster.nodes) > 0)
    admin.delete_topics([topic])[topic].result(WAIT_SECONDS)


@case
def transactions():
    topic = create_topic("txn")
    producer = Producer(config(transactional_id=fresh("id")))
    producer.init_transactions(WAIT_SECONDS)
    for values, end in ((["a", "b"], "commit"), (["c"], "abort"), (["d"], "commit")):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(WAIT_SECONDS)
        if end == "commit":
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
    same("committed", ["a", "b", "d"], read(topic, "read_committed", 3))
    same("uncommitted", ["a", "b", "c", "d"], read(topic, "read_uncommitted", 4))


@case
def fenced_producer():
    topic = create_topic("fenced")
    name = fresh("id")
    old = Producer(config(transactional_id=name))
    old.init_transactions(WAIT_SECONDS)
    old.begin_transaction()
    old.produce(topic, "old")
    old.flush(WAIT_SECONDS)
    young = Producer(config(transactional_id=name))
    young.init_transactions(WAIT_SECONDS)
    young.begin_transaction()
    young.produce(topic, "young")
    young.commit_transaction(WAIT_SECONDS)
    try:
        old.commit_transaction(WAIT_SECONDS)
    except KafkaException as refused:
        same("the refusal is fatal", True, refused.args[0].fatal())
    else:
        raise AssertionError("the old producer could commit")
    same("committed", ["young"], read(topic, "read_committed", 1))


@case
def share_implicit():
    topic, group = create_topic("implicit"), share_group()
    send(topic, numbered(50))
    with share_consumer(group) as consumer:
        consumer.subscribe([topic])
        same("values", numbered(50), [m.value().decode() for m in take(consumer, 50)])
        commit(consumer)
    with share_consumer(group) as consumer:
        consumer.subscribe([topic])
        nothing(consumer)


@case
def share_explicit():
    topic, group = create_topic("explicit"), share_group()
    send(topic, numbered(4))
    with share_consumer(group, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe([topic])
        messages = take(consumer, 4)
        types = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RELEASE)
        for message, kind in zip(messages, types):
            same("delivery count", 1, message.delivery_count())
            consumer.acknowledge(message, kind)
        commit(consumer)
        again = {}
        while len(again) < 2:
            for message in take(consumer, 1):
                again[message.value().decode()] = message.delivery_count()
                consumer.acknowledge(message)
        same("released records", {"v1": 2, "v3": 2}, again)
        commit(consumer)
        nothing(consumer)


@case
def share_close_releases():
    topic, group = create_topic("close"), share_group()
    send(topic, numbered(10))
    with share_consumer(group, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe([topic])
        for message in take(consumer, 10)[:3]:
            consumer.acknowledge(message)
        commit(consumer)
        # It fails at the fourth, and closes with seven in its hands.
    with share_consumer(group, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe([topic])
        rest = take(consumer, 7)
        same("what was left", numbered(10)[3:], [message.value().decode() for message in rest])
        same("delivery counts", [2] * 7, [message.delivery_count() for message in rest])
        for message in rest:
            consumer.acknowledge(message)
        commit(consumer)
        nothing(consumer)


@case
def share_lock_lapses():
    topic, group = create_topic("lapse"), share_group(share_record_lock_duration_ms="1000")
    send(topic, ["slow"])
    with share_consumer(group, share_acknowledgement_mode="explicit") as slow, share_consumer(group) as quick:
        slow.subscribe([topic])
        held = take(slow, 1)[0]
        quick.subscribe([topic])
        same("delivery count after a lapse", 2, take(quick, 1)[0].delivery_count())
        slow.acknowledge(held)
        same("an acknowledgement after the lapse fails", True, any(slow.commit_sync(WAIT_SECONDS).values()))
        commit(quick)


@control_case
def share_lock_lapses_by_the_clock():
    """The lock lasts 30 seconds, as by default; nobody waits for it."""
    topic, group = create_topic("clock"), share_group()
    send(topic, ["slow"])
    before = control("/clock/hold")["nowMs"]
    try:
        with share_consumer(group, share_acknowledgement_mode="explicit") as slow, share_consumer(group) as quick:
            slow.subscribe([topic])
            held = take(slow, 1)[0]
            quick.subscribe([topic])
            same("the clock", before + 29_999, control("/clock/advance", ms=29_999)["nowMs"])
            nothing(quick, 1)
            same("the clock", before + 30_000, control("/clock/advance", ms=1)["nowMs"])
            same("delivery count after a lapse", 2, take(quick, 1)[0].delivery_count())
            slow.acknowledge(held)
            same("an acknowledgement after the lapse fails", True, any(slow.commit_sync(WAIT_SECONDS).values()))
            commit(quick)
    finally:
        control("/clock/release")


def group_consumer(group, **more):
    return Consumer(
        config(group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **more)
    )


def poll_values(consumer, count):
    values, end = [], time.monotonic() + WAIT_SECONDS
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
    return values


@case
def group_commits():
    topic, group = create_topic("group"), fresh("group")
    send(topic, ["a", "b", "c"])
    consumer = group_consumer(group)
    consumer.subscribe([topic])
    same("values", ["a", "b", "c"], poll_values(consumer, 3))
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    consumer = group_consumer(group)
    consumer.subscribe([topic])
    same("what was not committed", ["c"], poll_values(consumer, 1))
    consumer.commit(asynchronous=False)
    same("committed", 3, consumer.committed([TopicPartition(topic, 0)], WAIT_SECONDS)[0].offset)
    consumer.close()


@case
def group_of_two():
    topic, group = create_topic("pair", 4), fresh("group")
    settings = {"heartbeat_interval_ms": 300, "session_timeout_ms": 10000}
    members = [group_consumer(group, **settings) for _ in range(2)]
    for member in members:
        member.subscribe([topic])
    end = time.monotonic() + WAIT_SECONDS
    while [len(member.assignment()) for member in members] != [2, 2]:
        if end < time.monotonic():
            raise AssertionError(f"no balance: {[member.assignment() for member in members]}")
        for member in members:
            member.poll(0.1)
    for member in members:
        member.close()


@case
def group_transaction():
    source, target, group = create_topic("in"), create_topic("out"), fresh("group")
    send(source, ["a", "b"])
    producer = Producer(config(transactional_id=fresh("id")))
    producer.init_transactions(WAIT_SECONDS)
    for commits in (False, True):
        consumer = group_consumer(group, isolation_level="read_committed")
        consumer.subscribe([source])
        values = poll_values(consumer, 2)
        same("values", ["a", "b"], values)
        producer.begin_transaction()
        for value in values:
            producer.produce(target, value + "!")
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_SECONDS)
        if commits:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
        consumer.close()
    consumer = group_consumer(group)
    same("committed", 2, consumer.committed([TopicPartition(source, 0)], WAIT_SECONDS)[0].offset)
    consumer.close()

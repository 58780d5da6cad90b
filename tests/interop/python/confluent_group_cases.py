"""Cases for consumer groups with confluent-kafka, in both protocols."""

import time

from confluent_cases import config, create_topic, read, send
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from harness import WAIT_SECONDS, case, fresh, numbered, same, until


def member(group, topic, protocol, **settings):
    if protocol == "classic":
        settings.setdefault("session_timeout_ms", 6000)
    consumer = Consumer(
        config(
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )
    )
    consumer.subscribe([topic])
    return consumer


def poll(consumer, messages):
    for message in consumer.consume(500, 0.1):
        if message.error():
            raise KafkaException(message.error())
        messages.append(message)


def take(consumer, count):
    messages = []
    until(f"{count} records", lambda: poll(consumer, messages) or count <= len(messages))
    return messages


def commit(consumer):
    """Commits what a member has had, which may be nothing: keyless records gather on few partitions."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        same("why it did not commit", KafkaError._NO_OFFSET, error.args[0].code())


def values(messages):
    return sorted(message.value().decode() for message in messages)


def one_after_the_other(protocol):
    """The second member begins where the first one has committed."""
    topic, group = create_topic("group", 3), fresh("group")
    send(topic, numbered(90))
    first = member(group, topic, protocol)
    same("values", sorted(numbered(90)), values(take(first, 90)))
    first.commit(asynchronous=False)
    first.close()
    send(topic, ["more"])
    second = member(group, topic, protocol)
    same("what is left", ["more"], values(take(second, 1)))
    second.close()


def side_by_side(protocol):
    """Two members share the partitions; when one leaves, the other gets all of them."""
    topic, group = create_topic("shared", 4), fresh("group")
    one, two = member(group, topic, protocol), member(group, topic, protocol)
    got = []

    def shared():
        poll(one, got), poll(two, got)
        return len(one.assignment()) == 2 and len(two.assignment()) == 2

    until("each has half of the partitions", shared)
    send(topic, numbered(80))
    until("all records", lambda: poll(one, got) or poll(two, got) or 80 <= len(got))
    same("values", sorted(numbered(80)), values(got))
    commit(one), commit(two)
    two.close()
    until("one has all partitions", lambda: poll(one, got) or len(one.assignment()) == 4)
    same("nothing comes twice", 80, len(got))
    one.close()


@case
def group_classic():
    one_after_the_other("classic")


@case
def group_consumer_protocol():
    one_after_the_other("consumer")


@case
def group_classic_rebalance():
    side_by_side("classic")


@case
def group_consumer_protocol_rebalance():
    side_by_side("consumer")


@case
def group_described():
    topic, group = create_topic("described"), fresh("group")
    send(topic, ["a"])
    consumer = member(group, topic, "classic")
    take(consumer, 1)
    consumer.commit(asynchronous=False)
    admin = AdminClient(config())
    described = admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
    same("state", "STABLE", described.state.name)
    same("members", 1, len(described.members))
    same("assigned", [TopicPartition(topic, 0)], described.members[0].assignment.topic_partitions)
    listed = admin.list_consumer_groups().result(WAIT_SECONDS)
    same("it is listed", True, group in [one.group_id for one in listed.valid])
    consumer.close()
    same("it is deleted", None, admin.delete_consumer_groups([group])[group].result(WAIT_SECONDS))


def offsets_in_a_transaction(protocol):
    """Consumed offsets commit together with what was made of the records, or not at all."""
    source, target, group = create_topic("source"), create_topic("target"), fresh("group")
    send(source, numbered(30))
    producer = Producer(config(transactional_id=fresh("id")))
    producer.init_transactions(WAIT_SECONDS)
    consumer = member(group, source, protocol, isolation_level="read_committed")
    for round_number, end in enumerate(("abort", "commit")):
        messages = take(consumer, 30)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, f"{message.value().decode()}-{round_number}")
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_SECONDS)
        if end == "commit":
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
            consumer.seek(TopicPartition(source, 0, 0))
    committed = consumer.committed([TopicPartition(source, 0)], WAIT_SECONDS)
    same("the committed offset", 30, committed[0].offset)
    same("what is in the target", [f"v{index}-1" for index in range(30)], read(target, "read_committed", 30))
    consumer.close()


@case
def group_classic_transaction():
    offsets_in_a_transaction("classic")


@case
def group_consumer_protocol_transaction():
    offsets_in_a_transaction("consumer")


@case
def group_static_member():
    """A member that comes back under its own name gets its partitions without a rebalance."""
    topic, group = create_topic("static", 2), fresh("group")
    send(topic, numbered(20))
    consumer = member(group, topic, "classic", group_instance_id="one")
    take(consumer, 20)
    consumer.commit(asynchronous=False)
    consumer.close()
    start = time.monotonic()
    again = member(group, topic, "classic", group_instance_id="one")
    send(topic, ["more"])
    same("what is left", ["more"], values(take(again, 1)))
    same("it did not wait for its session to end", True, time.monotonic() - start < 5)
    again.close()

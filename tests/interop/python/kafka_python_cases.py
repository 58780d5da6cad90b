"""Cases for kafka-python."""

import threading
import time

from harness import BOOTSTRAP, WAIT_SECONDS, case, fresh, numbered, same, until
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic

WAIT_MS = WAIT_SECONDS * 1000


def create_topic(prefix, partitions=1):
    name = fresh(prefix)
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(name, partitions, 1)])
    until("the topic is there", lambda: name in admin.list_topics())
    admin.close()
    return name


def send(topic, values, **settings):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, **settings)
    sent = [producer.send(topic, value.encode()) for value in values]
    producer.flush(WAIT_SECONDS)
    for future in sent:
        future.get(WAIT_SECONDS)
    producer.close()


def consumer(**settings):
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | settings
    return KafkaConsumer(bootstrap_servers=BOOTSTRAP, **settings)


def subscribe(reader, topic):
    """Subscribes once the topic is known: kafka-python 3.0 may fall silent when a group answers before the metadata."""
    until("the topic is known", lambda: reader.partitions_for_topic(topic))
    reader.subscribe([topic])


def poll(reader, messages):
    for batch in reader.poll(100).values():
        messages += batch


def take(reader, count):
    messages = []
    until(f"{count} records", lambda: poll(reader, messages) or count <= len(messages))
    return messages


def texts(messages):
    return [message.value.decode() for message in messages]


def read(topic, isolation, count):
    reader = consumer(isolation_level=isolation)
    reader.assign([TopicPartition(topic, 0)])
    messages = take(reader, count)
    poll(reader, messages)
    reader.close()
    return texts(messages)


@case
def kafka_python_produce_and_consume():
    topic = create_topic("kp")
    send(topic, numbered(200), acks="all")
    same("values", numbered(200), read(topic, "read_uncommitted", 200))


@case
def kafka_python_transactions():
    topic = create_topic("kp-txn")
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=fresh("id"))
    producer.init_transactions()
    for values, end in ((["a", "b"], "commit"), (["c"], "abort"), (["d"], "commit")):
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode())
        producer.flush(WAIT_SECONDS)
        if end == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    same("committed", ["a", "b", "d"], read(topic, "read_committed", 3))
    same("uncommitted", ["a", "b", "c", "d"], read(topic, "read_uncommitted", 4))


@case
def kafka_python_group():
    topic, group = create_topic("kp-group", 3), fresh("group")
    send(topic, numbered(60))
    first = consumer(group_id=group)
    subscribe(first, topic)
    same("values", sorted(numbered(60)), sorted(texts(take(first, 60))))
    first.commit()
    first.close()
    send(topic, ["more"])
    second = consumer(group_id=group)
    subscribe(second, topic)
    same("what is left", ["more"], texts(take(second, 1)))
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    described = admin.describe_groups([group])[group]
    same("state", "Stable", described["group_state"])
    same("members", 1, len(described["members"]))
    admin.close()
    second.close()


class Member(threading.Thread):
    """A member of a group in a thread of its own: two that take turns in one thread wait for each other."""

    def __init__(self, topic, group, messages):
        super().__init__(daemon=True)
        self.messages, self.partitions, self.leaves = messages, 0, False
        self.reader = consumer(group_id=group)
        subscribe(self.reader, topic)
        self.start()

    def run(self):
        while not self.leaves:
            poll(self.reader, self.messages)
            self.partitions = len(self.reader.assignment())
        self.reader.commit()
        self.reader.close()

    def leave(self):
        self.leaves = True
        self.join(WAIT_SECONDS)
        same("it is still running", False, self.is_alive())


@case
def kafka_python_group_rebalance():
    topic, group, got = create_topic("kp-shared", 4), fresh("group"), []
    one, two = Member(topic, group, got), Member(topic, group, got)
    until("each has half of the partitions", lambda: pause() or one.partitions == two.partitions == 2)
    send(topic, numbered(80))
    until("all records", lambda: pause() or 80 <= len(got))
    same("values", sorted(numbered(80)), sorted(texts(got)))
    two.leave()
    until("one has all partitions", lambda: pause() or one.partitions == 4)
    one.leave()


def pause():
    time.sleep(0.02)


@case
def kafka_python_group_transaction():
    source, target, group = create_topic("kp-source"), create_topic("kp-target"), fresh("group")
    send(source, numbered(20))
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=fresh("id"))
    producer.init_transactions()
    reader = consumer(group_id=group, isolation_level="read_committed")
    subscribe(reader, source)
    partition = TopicPartition(source, 0)
    for round_number, end in enumerate(("abort", "commit")):
        messages = take(reader, 20)
        producer.begin_transaction()
        for text in texts(messages):
            producer.send(target, f"{text}-{round_number}".encode())
        position = OffsetAndMetadata(reader.position(partition), "", -1)
        producer.send_offsets_to_transaction({partition: position}, reader.group_metadata())
        if end == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
            reader.seek(partition, 0)
    same("the committed offset", 20, reader.committed(partition))
    same("what is in the target", [f"v{index}-1" for index in range(20)], read(target, "read_committed", 20))
    reader.close()
    producer.close()

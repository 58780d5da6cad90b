"""Cases for aiokafka."""

import asyncio
import functools

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from harness import BOOTSTRAP, WAIT_SECONDS, case, fresh, numbered, same


def asynchronous(body):
    @functools.wraps(body)
    def run():
        asyncio.run(asyncio.wait_for(body(), 2 * WAIT_SECONDS))

    return case(run)


async def create_topic(prefix, partitions=1):
    name = fresh(prefix)
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    await admin.create_topics([NewTopic(name, partitions, 1)])
    while name not in await admin.list_topics():
        await asyncio.sleep(0.02)
    await admin.close()
    return name


async def send(topic, values, **settings):
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, **settings) as producer:
        for sent in [await producer.send(topic, value.encode()) for value in values]:
            await sent


def consumer(*topics, **settings):
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | settings
    return AIOKafkaConsumer(*topics, bootstrap_servers=BOOTSTRAP, **settings)


async def poll(reader, messages):
    for batch in (await reader.getmany(timeout_ms=100)).values():
        messages += batch


async def take(reader, count):
    messages = []
    while len(messages) < count:
        await poll(reader, messages)
    return messages


def texts(messages):
    return [message.value.decode() for message in messages]


async def read(topic, isolation, count):
    reader = consumer(isolation_level=isolation)
    reader.assign([TopicPartition(topic, 0)])
    async with reader:
        messages = await take(reader, count)
        await poll(reader, messages)
        return texts(messages)


@asynchronous
async def aiokafka_produce_and_consume():
    topic = await create_topic("aio")
    await send(topic, numbered(200), enable_idempotence=True)
    same("values", numbered(200), await read(topic, "read_committed", 200))


@asynchronous
async def aiokafka_transactions():
    topic = await create_topic("aio-txn")
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=fresh("id")) as producer:
        for values, end in ((["a", "b"], "commit"), (["c"], "abort"), (["d"], "commit")):
            await producer.begin_transaction()
            for value in values:
                await producer.send_and_wait(topic, value.encode())
            if end == "commit":
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
    same("committed", ["a", "b", "d"], await read(topic, "read_committed", 3))
    same("uncommitted", ["a", "b", "c", "d"], await read(topic, "read_uncommitted", 4))


@asynchronous
async def aiokafka_group():
    topic, group = await create_topic("aio-group", 3), fresh("group")
    await send(topic, numbered(60))
    async with consumer(topic, group_id=group) as first:
        same("values", sorted(numbered(60)), sorted(texts(await take(first, 60))))
        await first.commit()
    await send(topic, ["more"])
    async with consumer(topic, group_id=group) as second:
        same("what is left", ["more"], texts(await take(second, 1)))


@asynchronous
async def aiokafka_group_rebalance():
    topic, group = await create_topic("aio-shared", 4), fresh("group")
    settings = {"group_id": group, "heartbeat_interval_ms": 500, "session_timeout_ms": 6000}
    got = []
    async with consumer(topic, **settings) as one:
        async with consumer(topic, **settings) as two:
            while len(one.assignment()) != 2 or len(two.assignment()) != 2:
                await poll(one, got), await poll(two, got)
            await send(topic, numbered(80))
            while len(got) < 80:
                await poll(one, got), await poll(two, got)
            same("values", sorted(numbered(80)), sorted(texts(got)))
            await one.commit(), await two.commit()
        while len(one.assignment()) != 4:
            await poll(one, got)
        same("nothing comes twice", 80, len(got))


@asynchronous
async def aiokafka_group_transaction():
    source, target, group = await create_topic("aio-source"), await create_topic("aio-target"), fresh("group")
    await send(source, numbered(20))
    partition = TopicPartition(source, 0)
    settings = {"group_id": group, "isolation_level": "read_committed"}
    async with (
        AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=fresh("id")) as producer,
        consumer(source, **settings) as reader,
    ):
        for round_number, end in enumerate(("abort", "commit")):
            messages = await take(reader, 20)
            await producer.begin_transaction()
            for text in texts(messages):
                await producer.send(target, f"{text}-{round_number}".encode())
            await producer.send_offsets_to_transaction({partition: messages[-1].offset + 1}, group)
            if end == "commit":
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
                reader.seek(partition, 0)
        while await reader.committed(partition) is None:  # It does not ask for stable offsets.
            await asyncio.sleep(0.02)
        same("the committed offset", 20, await reader.committed(partition))
    same("what is in the target", [f"v{index}-1" for index in range(20)], await read(target, "read_committed", 20))

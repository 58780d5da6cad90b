// Cases for @platformatic/kafka. They run against the broker at BOOTSTRAP; arguments name cases.

import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { bootstrapBrokers, fresh, main, numbered, same, test, until } from './harness.mjs'

const READ_UNCOMMITTED = 0
const READ_COMMITTED = 1

function admin () {
  return new Admin({ clientId: 'js', bootstrapBrokers })
}

function producer (settings) {
  return new Producer({ clientId: 'js', bootstrapBrokers, serializers: stringSerializers, ...settings })
}

function consumer (settings) {
  return new Consumer({
    clientId: 'js',
    bootstrapBrokers,
    deserializers: stringDeserializers,
    autocommit: false,
    maxWaitTime: 200,
    isolationLevel: READ_COMMITTED,
    ...settings
  })
}

async function createTopic (prefix, partitions = 1) {
  const name = fresh(prefix)
  const client = admin()
  await client.createTopics({ topics: [name], partitions, replicas: 1 })
  await until('the topic is there', async () => (await client.listTopics()).includes(name))
  await client.close()
  return name
}

function messages (topic, values, partitions = 1) {
  return values.map((value, index) => ({ topic, value, partition: index % partitions }))
}

async function send (topic, values, partitions = 1, settings = {}) {
  const client = producer(settings)
  await client.send({ messages: messages(topic, values, partitions), acks: -1 })
  await client.close()
}

// Takes messages until there are as many different values as asked, and leaves the stream open. This client's members
// of classic groups read some records twice, whatever the broker.
function take (stream, count) {
  const taken = []
  return new Promise((resolve, reject) => {
    const onData = message => {
      taken.push(message)
      if (values(taken).length === count) {
        stream.pause()
        stream.off('data', onData)
        resolve(taken)
      }
    }
    stream.on('error', reject)
    stream.on('data', onData)
  })
}

function values (taken) {
  return [...new Set(taken.map(({ value }) => value))].sort()
}

async function read (topic, isolationLevel, count) {
  const client = consumer({ groupId: fresh('reader'), isolationLevel })
  const stream = await client.consume({ topics: [topic], mode: 'earliest' })
  const taken = await take(stream, count)
  await client.close(true)
  return values(taken)
}

test('produce_and_consume', async () => {
  const topic = await createTopic('round', 2)
  await send(topic, numbered(200), 2, { idempotent: true })
  same('values', numbered(200).sort(), await read(topic, READ_UNCOMMITTED, 200))
})

test('compression', async () => {
  for (const compression of ['gzip', 'snappy', 'lz4']) {
    const topic = await createTopic('codec')
    await send(topic, numbered(100), 1, { compression })
    same(`values with ${compression}`, numbered(100).sort(), await read(topic, READ_COMMITTED, 100))
  }
})

test('transactions', async () => {
  const topic = await createTopic('txn')
  const client = producer({ idempotent: true, transactionalId: fresh('id') })
  for (const [texts, end] of [[['a', 'b'], 'commit'], [['c'], 'abort'], [['d'], 'commit']]) {
    const transaction = await client.beginTransaction()
    await transaction.send({ messages: messages(topic, texts) })
    await transaction[end]()
  }
  await client.close()
  same('committed', ['a', 'b', 'd'], await read(topic, READ_COMMITTED, 3))
  same('uncommitted', ['a', 'b', 'c', 'd'], await read(topic, READ_UNCOMMITTED, 4))
})

// The second member begins where the first one has committed.
async function oneAfterTheOther (settings) {
  const topic = await createTopic('group', 3)
  const groupId = fresh('group')
  await send(topic, numbered(60), 3)
  const first = consumer({ groupId, ...settings })
  const taken = await take(await first.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' }), 60)
  same('values', numbered(60).sort(), values(taken))
  for (const message of taken) {
    await message.commit()
  }
  await first.close(true)
  await send(topic, ['more'])
  const second = consumer({ groupId, ...settings })
  const left = await take(await second.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' }), 1)
  same('what is left', ['more'], values(left))
  await second.close(true)
}

test('group_classic', () => oneAfterTheOther({ sessionTimeout: 6000, heartbeatInterval: 500 }))

test('group_consumer_protocol', () => oneAfterTheOther({ groupProtocol: 'consumer' }))

function partitionCount (client) {
  return (client.assignments ?? []).reduce((sum, { partitions }) => sum + partitions.length, 0)
}

// Two members share the partitions; when one leaves, the other gets all of them.
async function sideBySide (settings) {
  const topic = await createTopic('shared', 4)
  const groupId = fresh('group')
  const [one, two] = [consumer({ groupId, ...settings }), consumer({ groupId, ...settings })]
  const got = []
  for (const client of [one, two]) {
    const stream = await client.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' })
    stream.on('data', message => got.push(message))
    stream.on('error', error => same('an error while the client is open', true, client.closed || error.closed))
  }
  await until('each has half', () => partitionCount(one) === 2 && partitionCount(two) === 2)
  await send(topic, numbered(80), 4)
  await until('all records', () => values(got).length === 80)
  same('values', numbered(80).sort(), values(got))
  await two.close(true)
  await until('one has all', () => partitionCount(one) === 4)
  await one.close(true)
}

test('group_classic_rebalance', () => sideBySide({ sessionTimeout: 6000, heartbeatInterval: 500 }))

test('group_consumer_protocol_rebalance', () => sideBySide({ groupProtocol: 'consumer' }))

test('group_described', async () => {
  const topic = await createTopic('described')
  const groupId = fresh('group')
  const member = consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500 })
  await member.consume({ topics: [topic] })
  const client = admin()
  const described = (await client.describeGroups({ groups: [groupId] })).get(groupId)
  same('state', 'STABLE', described.state)
  same('members', 1, described.members.size)
  same('it is listed', true, (await client.listGroups()).has(groupId))
  await member.close(true)
  await client.deleteGroups({ groups: [groupId] })
  same('it is listed when it is deleted', false, (await client.listGroups()).has(groupId))
  await client.close()
})

// Consumed offsets commit together with what was made of the records, or not at all.
test('group_transaction', async () => {
  const [source, target, groupId] = [await createTopic('source'), await createTopic('target'), fresh('group')]
  await send(source, numbered(20))
  const client = producer({ idempotent: true, transactionalId: fresh('id') })
  const member = consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500 })
  for (const end of ['abort', 'commit']) {
    // After the abort nothing is committed, so the second round reads everything again.
    const stream = await member.consume({ topics: [source], mode: 'committed', fallbackMode: 'earliest' })
    const taken = await take(stream, 20)
    const transaction = await client.beginTransaction()
    await transaction.send({ messages: messages(target, taken.map(({ value }) => `${value}-${end}`)) })
    await transaction.addConsumer(member)
    await transaction.addOffset(taken.at(-1))
    await transaction[end]()
    await stream.close()
  }
  await until('the offset is committed', async () => {
    const committed = await member.listCommittedOffsets({ topics: [{ topic: source, partitions: [0] }] })
    return committed.get(source)[0] === 20n
  })
  await member.close(true)
  await client.close()
  same('what is in the target', numbered(20).map(value => `${value}-commit`).sort(), await read(target, READ_COMMITTED, 20))
})

await main(process.argv.slice(2))

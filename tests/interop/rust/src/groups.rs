//! Consumer groups of both protocols, and their offsets in transactions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRecord, GroupProtocol, IsolationLevel};
use krafka::producer::TopicPartitionOffset;
use krafka::{Kafka, Record};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::support::{
    Outcome, POLL, connect, create_topic, fresh, numbered, read, same, send, sorted, texts,
};

async fn member(kafka: &Kafka, group: &str, topic: &str, new_protocol: bool) -> Outcome<Consumer> {
    let mut builder = kafka
        .consumer(group)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .enable_auto_commit(false)
        .isolation_level(IsolationLevel::ReadCommitted);
    builder = if new_protocol {
        builder.group_protocol(GroupProtocol::Consumer)
    } else {
        builder.session_timeout(Duration::from_secs(6)).heartbeat_interval(Duration::from_millis(500))
    };
    let consumer = builder.build().await?;
    consumer.subscribe([topic]).await?;
    Ok(consumer)
}

async fn take(consumer: &Consumer, count: usize) -> Outcome<Vec<ConsumerRecord>> {
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(consumer.poll(POLL).await?);
    }
    Ok(records)
}

/// The second member begins where the first one has committed.
pub async fn one_after_the_other(new_protocol: bool) -> Outcome<()> {
    let kafka = connect().await?;
    let (topic, group) = (create_topic(&kafka, "group", 3).await?, fresh("group"));
    send(&kafka, &topic, &numbered(60), 3).await?;
    let first = member(&kafka, &group, &topic, new_protocol).await?;
    same("values", &sorted(numbered(60)), &sorted(texts(&take(&first, 60).await?)))?;
    first.commit().await?;
    first.close().await?;
    send(&kafka, &topic, &["more".to_owned()], 1).await?;
    let second = member(&kafka, &group, &topic, new_protocol).await?;
    same("what is left", &vec!["more".to_owned()], &texts(&take(&second, 1).await?))?;
    second.close().await?;
    Ok(())
}

/// A member that is polled by a task of its own, as a rebalance needs both members at once.
struct Polled {
    consumer: Arc<Consumer>,
    task: JoinHandle<krafka::Result<()>>,
}

impl Polled {
    fn start(consumer: Consumer, records: &Arc<Mutex<Vec<ConsumerRecord>>>) -> Self {
        let (consumer, records) = (Arc::new(consumer), Arc::clone(records));
        let polled = Arc::clone(&consumer);
        let task = tokio::spawn(async move {
            while !polled.is_closed() {
                let some = polled.poll(POLL).await?;
                records.lock().unwrap().extend(some);
                polled.commit().await?;
            }
            Ok(())
        });
        Self { consumer, task }
    }

    async fn partition_count(&self) -> usize {
        self.consumer.assignment().await.values().map(Vec::len).sum()
    }

    async fn close(self) -> Outcome<()> {
        self.task.abort();
        self.consumer.close().await?;
        Ok(())
    }
}

/// Two members share the partitions; when one leaves, the other gets all of them.
pub async fn side_by_side(new_protocol: bool) -> Outcome<()> {
    let kafka = connect().await?;
    let (topic, group) = (create_topic(&kafka, "shared", 4).await?, fresh("group"));
    let records = Arc::new(Mutex::new(Vec::new()));
    // Each has connections of its own: a member that waits to join would hold up the other's heartbeats.
    let one = Polled::start(member(&connect().await?, &group, &topic, new_protocol).await?, &records);
    let two = Polled::start(member(&connect().await?, &group, &topic, new_protocol).await?, &records);
    while one.partition_count().await != 2 || two.partition_count().await != 2 {
        sleep(POLL).await;
    }
    send(&kafka, &topic, &numbered(80), 4).await?;
    while records.lock().unwrap().len() < 80 {
        sleep(POLL).await;
    }
    same("values", &sorted(numbered(80)), &sorted(texts(&records.lock().unwrap())))?;
    sleep(2 * POLL).await; // Until both have committed.
    two.close().await?;
    while one.partition_count().await != 4 {
        sleep(POLL).await;
    }
    sleep(2 * POLL).await;
    same("nothing comes twice", &80, &records.lock().unwrap().len())?;
    one.close().await
}

/// Consumed offsets commit together with what was made of the records, or not at all.
pub async fn transaction(new_protocol: bool) -> Outcome<()> {
    let kafka = connect().await?;
    let (source, target) =
        (create_topic(&kafka, "source", 1).await?, create_topic(&kafka, "target", 1).await?);
    send(&kafka, &source, &numbered(20), 1).await?;
    let producer = kafka.producer().build_transactional(fresh("id")).await?;
    let consumer = member(&kafka, &fresh("group"), &source, new_protocol).await?;
    for end in ["abort", "commit"] {
        let records = take(&consumer, 20).await?;
        producer.begin()?;
        for text in texts(&records) {
            let _ = producer.send(Record::new(&*target, format!("{text}-{end}"))).await?;
        }
        let metadata = consumer.group_metadata().await.ok_or("it is not a member")?;
        producer.send_offsets(&[TopicPartitionOffset::new(&*source, 0, 20)], &metadata).await?;
        if end == "commit" {
            producer.commit().await?;
        } else {
            producer.abort().await?;
            consumer.seek(&source, 0, 0).await?;
        }
    }
    let committed = consumer.committed(&[(&source, 0)]).await?;
    same("the committed offset", &Some(20), &committed.get(&(source, 0)).map(|position| position.offset))?;
    consumer.close().await?;
    producer.close().await?;
    let expected: Vec<String> = numbered(20).iter().map(|text| format!("{text}-commit")).collect();
    same("what is in the target", &expected, &read(&kafka, &target, IsolationLevel::ReadCommitted, 20).await?)
}

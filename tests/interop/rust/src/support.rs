//! Topics, records and readers that the cases use.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use krafka::admin::{
    ConfigOp, ConfigResource, CreateTopicsOptions, IncrementalAlterConfigsOptions, NewTopic,
};
use krafka::consumer::{AutoOffsetReset, ConsumerRecord, IsolationLevel};
use krafka::{Kafka, Record};

pub type Outcome<T> = Result<T, Box<dyn Error>>;
pub type Case = Pin<Box<dyn Future<Output = Outcome<()>>>>;

pub const POLL: Duration = Duration::from_millis(100);

/// Fails with what was compared, if the two differ.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, actual: &T) -> Outcome<()> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, got {actual:?}").into())
}

/// Returns a name that no other run and no other case has.
pub fn fresh(prefix: &str) -> String {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-rs-{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

pub fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("v{index}")).collect()
}

pub fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

pub fn texts(records: &[ConsumerRecord]) -> Vec<String> {
    records.iter().map(|record| record.value_str().unwrap_or("?").to_owned()).collect()
}

pub async fn connect() -> Outcome<Kafka> {
    Ok(Kafka::builder(std::env::var("BOOTSTRAP")?).client_id("krafka").connect().await?)
}

pub async fn create_topic(kafka: &Kafka, prefix: &str, partitions: i32) -> Outcome<String> {
    let name = fresh(prefix);
    let topic = NewTopic::new(&*name, partitions, 1)?;
    let created = kafka.admin().create_topics([topic], CreateTopicsOptions::default()).await?;
    for (_, result) in created {
        result?;
    }
    Ok(name)
}

/// Returns the name of a share group that reads from the beginning.
pub async fn share_group(kafka: &Kafka) -> Outcome<String> {
    let name = fresh("share");
    let change = (ConfigResource::group(&*name), vec![ConfigOp::set("share.auto.offset.reset", "earliest")]);
    let options = IncrementalAlterConfigsOptions::default();
    for (_, result) in kafka.admin().incremental_alter_configs([change], options).await? {
        result?;
    }
    tokio::time::sleep(POLL).await; // Kafka applies it after its answer.
    Ok(name)
}

/// Sends the texts, turn by turn to each partition.
pub async fn send(kafka: &Kafka, topic: &str, texts: &[String], partitions: usize) -> Outcome<()> {
    let producer = kafka.producer().build().await?;
    let mut sent = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let mut record = Record::new(topic, text.clone());
        record.partition = Some(i32::try_from(index % partitions)?);
        sent.push(producer.enqueue(record).await?);
    }
    for handle in sent {
        let _ = handle.await?;
    }
    producer.close().await?;
    Ok(())
}

/// Reads so many records of partition 0, without a group.
pub async fn read(
    kafka: &Kafka,
    topic: &str,
    isolation: IsolationLevel,
    count: usize,
) -> Outcome<Vec<String>> {
    let consumer = kafka
        .consumer_without_group()
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(isolation)
        .build()
        .await?;
    consumer.assign(topic, vec![0]).await?;
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(consumer.poll(POLL).await?);
    }
    records.extend(consumer.poll(POLL).await?); // There is no more.
    consumer.close().await?;
    Ok(texts(&records))
}

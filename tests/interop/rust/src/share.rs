//! Share groups.

use krafka::Kafka;
use krafka::consumer::ConsumerRecord;
use krafka::share_consumer::{AcknowledgementMode, ShareConsumer};

use crate::support::{
    Outcome, POLL, connect, create_topic, numbered, same, send, share_group, sorted, texts,
};

async fn member(
    kafka: &Kafka,
    group: &str,
    topic: &str,
    mode: AcknowledgementMode,
) -> Outcome<ShareConsumer> {
    let consumer = kafka.share_consumer(group).acknowledgement_mode(mode).build().await?;
    consumer.subscribe([topic]).await?;
    Ok(consumer)
}

async fn take(consumer: &ShareConsumer, count: usize) -> Outcome<Vec<ConsumerRecord>> {
    let mut records = Vec::new();
    while records.len() < count {
        records.extend(consumer.poll(POLL).await?);
    }
    Ok(records)
}

async fn commit(consumer: &ShareConsumer) -> Outcome<()> {
    for (_, result) in consumer.commit().await? {
        result?;
    }
    Ok(())
}

pub async fn implicit() -> Outcome<()> {
    let kafka = connect().await?;
    let (topic, group) = (create_topic(&kafka, "implicit", 1).await?, share_group(&kafka).await?);
    send(&kafka, &topic, &numbered(50), 1).await?;
    let first = member(&kafka, &group, &topic, AcknowledgementMode::Implicit).await?;
    same("values", &numbered(50), &texts(&take(&first, 50).await?))?;
    commit(&first).await?;
    first.close().await?;
    send(&kafka, &topic, &["more".to_owned()], 1).await?;
    let second = member(&kafka, &group, &topic, AcknowledgementMode::Implicit).await?;
    same("what is left", &vec!["more".to_owned()], &texts(&take(&second, 1).await?))?;
    second.close().await?;
    Ok(())
}

pub async fn explicit() -> Outcome<()> {
    let kafka = connect().await?;
    let (topic, group) = (create_topic(&kafka, "explicit", 1).await?, share_group(&kafka).await?);
    send(&kafka, &topic, &numbered(4), 1).await?;
    let consumer = member(&kafka, &group, &topic, AcknowledgementMode::Explicit).await?;
    let mut records = Vec::new();
    while records.len() < 4 {
        for record in take(&consumer, 1).await? {
            match records.len() {
                0 => consumer.ack(&record)?,
                2 => consumer.reject(&record)?,
                _ => consumer.release(&record)?,
            }
            records.push(record);
        }
        commit(&consumer).await?;
    }
    let mut again = Vec::new();
    while again.len() < 2 {
        for record in take(&consumer, 1).await? {
            consumer.ack(&record)?;
            again.push((texts(&[record.clone()]).remove(0), record.delivery_count));
        }
        commit(&consumer).await?;
    }
    again.sort_unstable();
    same("what came again", &vec![("v1".to_owned(), Some(2)), ("v3".to_owned(), Some(2))], &again)?;
    consumer.close().await?;
    Ok(())
}

pub async fn two_members() -> Outcome<()> {
    let kafka = connect().await?;
    let (topic, group) = (create_topic(&kafka, "both", 2).await?, share_group(&kafka).await?);
    let one = member(&kafka, &group, &topic, AcknowledgementMode::Implicit).await?;
    let two = member(&kafka, &group, &topic, AcknowledgementMode::Implicit).await?;
    send(&kafka, &topic, &numbered(200), 2).await?;
    let mut records = Vec::new();
    while records.len() < 200 {
        records.extend(one.poll(POLL).await?);
        records.extend(two.poll(POLL).await?);
    }
    one.close().await?;
    two.close().await?;
    same("values", &sorted(numbered(200)), &sorted(texts(&records)))
}

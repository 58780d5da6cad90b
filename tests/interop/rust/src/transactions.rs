//! Producers: plain, transactional and fenced.

use krafka::Record;
use krafka::consumer::IsolationLevel::{ReadCommitted, ReadUncommitted};

use crate::support::{Outcome, connect, create_topic, fresh, numbered, read, same, send};

pub async fn produce_and_consume() -> Outcome<()> {
    let kafka = connect().await?;
    let topic = create_topic(&kafka, "round", 1).await?;
    send(&kafka, &topic, &numbered(300), 1).await?;
    same("values", &numbered(300), &read(&kafka, &topic, ReadCommitted, 300).await?)
}

pub async fn transactions() -> Outcome<()> {
    let kafka = connect().await?;
    let topic = create_topic(&kafka, "txn", 1).await?;
    let producer = kafka.producer().build_transactional(fresh("id")).await?;
    for (values, commits) in [(vec!["a", "b"], true), (vec!["c"], false), (vec!["d"], true)] {
        producer.begin()?;
        for value in values {
            let _ = producer.send(Record::new(&*topic, value)).await?;
        }
        if commits { producer.commit().await? } else { producer.abort().await? }
    }
    producer.close().await?;
    let expected = ["a", "b", "d"].map(String::from).to_vec();
    same("committed", &expected, &read(&kafka, &topic, ReadCommitted, 3).await?)?;
    let expected = ["a", "b", "c", "d"].map(String::from).to_vec();
    same("uncommitted", &expected, &read(&kafka, &topic, ReadUncommitted, 4).await?)
}

pub async fn fenced_producer() -> Outcome<()> {
    let kafka = connect().await?;
    let topic = create_topic(&kafka, "fenced", 1).await?;
    let id = fresh("id");
    let old = kafka.producer().build_transactional(&*id).await?;
    old.begin()?;
    let _ = old.send(Record::new(&*topic, "old")).await?;
    let young = kafka.producer().build_transactional(&*id).await?;
    young.begin()?;
    let _ = young.send(Record::new(&*topic, "young")).await?;
    young.commit().await?;
    same("the old one commits", &false, &old.commit().await.is_ok())?;
    same("committed", &vec!["young".to_owned()], &read(&kafka, &topic, ReadCommitted, 1).await?)
}

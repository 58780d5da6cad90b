//! The metrics as Prometheus reads them.
//!
//! A metric that Kafka has keeps Kafka's name: `kafka.server:type=ShareGroupMetrics,name=X,ackType=Y` is
//! `kafka_server_ShareGroupMetrics_X{ackType="Y"}`. A meter is a counter, so its name ends with `_total`; a rate is
//! for the reader to take. Each sample names the node that counted, which in Kafka would be a process of its own.

use std::fmt;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use sharemark_protocol::ApiKey;

use crate::broker::{DeadLetterCounts, Distribution, NodeMetrics, RequestedTopics, SharePartitionMetrics};
use crate::shell::meters::{ApiMeter, LATENCY_BOUNDS_US, Meters};

/// Writes all metrics: what the nodes hold and have counted, and the requests.
///
/// # Errors
///
/// If a metric cannot be written.
pub(in crate::shell) fn render(nodes: Vec<NodeMetrics>, meters: Meters) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { nodes, meters }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    nodes: Vec<NodeMetrics>,
    meters: Meters,
}

/// Labels of a sample: names and values.
type Labels<'a> = Vec<(&'static str, String)>;

/// Labels as the encoder takes them.
struct LabelSet<'a>(&'a Labels<'a>);

impl EncodeLabelSet for LabelSet<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.0 {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

use prometheus_client::encoding::EncodeLabel;

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_groups(&mut encoder)?;
        self.encode_acknowledgements(&mut encoder)?;
        self.encode_topics(&mut encoder)?;
        self.encode_share_partitions(&mut encoder)?;
        self.encode_distributions(&mut encoder)?;
        self.encode_requests(&mut encoder)
    }
}

impl Scrape {
    fn encode_groups(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut by_type = Vec::new();
        let mut by_state = Vec::new();
        for node in &self.nodes {
            let mut share = (0, [("Empty", 0), ("Stable", 0), ("Dead", 0)]);
            let mut others = std::collections::BTreeMap::new();
            for (&(group_type, state), &count) in &node.groups {
                if group_type == "share" {
                    share.0 += count;
                    share.1.iter_mut().filter(|(name, _)| *name == state).for_each(|(_, sum)| *sum += count);
                } else {
                    *others.entry(group_type).or_insert(0) += count;
                }
            }
            others.insert("share", share.0);
            by_type.extend(others.into_iter().map(|(name, count)| {
                (vec![node_label(node), ("protocol", name.to_owned())], integer(count))
            }));
            by_state.extend(
                share.1.into_iter().map(|(state, count)| {
                    (vec![node_label(node), ("state", state.to_owned())], integer(count))
                }),
            );
        }
        let name = "kafka_server_group_coordinator_metrics_group_count";
        gauges(encoder, name, "Groups by the protocol they use", &by_type)?;
        let name = "kafka_server_group_coordinator_metrics_share_group_count";
        gauges(encoder, name, "Share groups by state", &by_state)
    }

    fn encode_acknowledgements(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut acknowledged = Vec::new();
        for node in &self.nodes {
            let counts = node.figures.acknowledged;
            for (name, count) in [
                ("Accept", counts.accept),
                ("Release", counts.release),
                ("Reject", counts.reject),
                ("Renew", counts.renew),
            ] {
                acknowledged.push((vec![node_label(node), ("ackType", name.to_owned())], count));
            }
        }
        let name = "kafka_server_ShareGroupMetrics_RecordAcknowledgementsPerSec";
        counters(encoder, name, "Records acknowledged, by type", &acknowledged)?;
        let pending = self.nodes.iter().map(|node| (vec![node_label(node)], node.txn_pending_records_count));
        let name = "kafka_server_ShareGroupMetrics_TxnPendingRecordsCount";
        gauges(encoder, name, "Records that wait for their transaction", &pending.collect::<Vec<_>>())
    }

    fn encode_topics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Read = fn(&NodeMetrics) -> RequestedTopics;
        let kinds: [(&str, &str, Read); 2] = [
            ("ShareFetch", "share fetches", |node| node.figures.share_fetches),
            ("ShareAcknowledgement", "share acknowledgements", |node| node.figures.share_acknowledges),
        ];
        for (kind, words, read) in kinds {
            let sample = |count: fn(RequestedTopics) -> u64| {
                let samples = self.nodes.iter().map(|node| (vec![node_label(node)], count(read(node))));
                samples.collect::<Vec<_>>()
            };
            let name = format!("kafka_server_BrokerTopicMetrics_Total{kind}RequestsPerSec");
            counters(encoder, &name, &format!("Topics named by {words}"), &sample(|topics| topics.total))?;
            let name = format!("kafka_server_BrokerTopicMetrics_Failed{kind}RequestsPerSec");
            let help = format!("Topics that {words} failed for");
            counters(encoder, &name, &help, &sample(|topics| topics.failed))?;
        }
        Ok(())
    }

    fn encode_share_partitions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let served: Vec<(Labels<'_>, &SharePartitionMetrics)> = self
            .nodes
            .iter()
            .flat_map(|node| {
                node.share_partitions.iter().map(move |it| (share_partition_labels(node, it), it))
            })
            .collect();
        let gauge = |read: fn(&SharePartitionMetrics) -> i64| -> Vec<(Labels<'_>, i64)> {
            served.iter().map(|(labels, it)| (labels.clone(), read(it))).collect()
        };
        let name = "kafka_server_SharePartitionMetrics_InFlightMessageCount";
        gauges(encoder, name, "Offsets in the window", &gauge(|it| it.in_flight_message_count))?;
        let name = "kafka_server_SharePartitionMetrics_InFlightBatchCount";
        gauges(encoder, name, "Batches kept track of", &gauge(|it| integer(it.in_flight_batch_count)))?;
        let lapsed: Vec<_> =
            served.iter().map(|(labels, it)| (labels.clone(), it.figures.lock_timeouts)).collect();
        let name = "kafka_server_SharePartitionMetrics_AcquisitionLockTimeoutPerSec";
        counters(encoder, name, "Records whose lock ran out", &lapsed)?;
        let sizes: Vec<_> =
            served.iter().map(|(labels, it)| (labels.clone(), &it.figures.acquired_range_sizes)).collect();
        let name = "kafka_server_SharePartitionMetrics_InFlightBatchMessageCount";
        histograms(encoder, name, "Records in each range that was acquired", &sizes)
    }

    fn encode_distributions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let nodes = self.nodes.iter();
        let loads: Vec<_> =
            nodes.map(|node| (vec![node_label(node)], &node.figures.partition_load_time_ms)).collect();
        let name = "kafka_server_ShareGroupMetrics_PartitionLoadTimeMs";
        histograms(encoder, name, "How long share partitions took to load", &loads)?;
        let counts: Vec<_> =
            self.nodes.iter().map(|node| (vec![node_label(node)], &node.figures.delivery_counts)).collect();
        let name = "sharemark_share_delivery_count";
        histograms(encoder, name, "Delivery counts that records were handed out with", &counts)?;
        let (mut ratios, mut times) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            for (group_id, figures) in &node.figures.groups {
                let labels = vec![node_label(node), ("group", group_id.to_string())];
                ratios.push((labels.clone(), &figures.fetch_ratio));
                times.push((labels, &figures.acquire_time_ms));
            }
        }
        let name = "kafka_server_ShareGroupMetrics_RequestTopicPartitionsFetchRatio";
        histograms(encoder, name, "Of a hundred partitions of a fetch, those acquired from", &ratios)?;
        let name = "kafka_server_ShareGroupMetrics_TopicPartitionsAcquireTimeMs";
        histograms(encoder, name, "How long a fetch waited for its partitions", &times)?;
        self.encode_dead_letters(encoder)
    }

    fn encode_dead_letters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Read = fn(&DeadLetterCounts) -> u64;
        let kinds: [(&str, &str, Read); 3] = [
            ("RecordCount", "Dead letters that were copied", |counts| counts.records),
            ("TotalProduceRequestsPerSec", "Attempts to copy dead letters", |counts| counts.produce_requests),
            ("FailedProduceRequestsPerSec", "Copies of dead letters that were given up", |counts| {
                counts.failed_produce_requests
            }),
        ];
        for (kind, help, read) in kinds {
            let samples: Vec<_> = self
                .nodes
                .iter()
                .flat_map(|node| {
                    node.figures.groups.iter().map(move |(group, figures)| (node, group, figures))
                })
                .filter(|(_, _, figures)| 0 < figures.dead_letters.produce_requests)
                .map(|(node, group, figures)| {
                    (vec![node_label(node), ("group", group.to_string())], read(&figures.dead_letters))
                })
                .collect();
            let name = format!("kafka_server_ShareGroupMetrics_DeadLetterQueue{kind}");
            counters(encoder, &name, help, &samples)?;
        }
        Ok(())
    }

    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut by_version = Vec::new();
        for (labels, meter) in self.api_meters() {
            for (version, count) in meter.by_version.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if 0 < count {
                    by_version
                        .push(([labels.clone(), vec![("version", version.to_string())]].concat(), count));
                }
            }
        }
        let name = "kafka_network_RequestMetrics_RequestsPerSec";
        counters(encoder, name, "Requests, by API and version", &by_version)?;
        let answered =
            |meter: &ApiMeter| meter.by_latency.iter().any(|count| 0 < count.load(Ordering::Relaxed));
        let times: Vec<_> = self.api_meters().filter(|(_, meter)| answered(meter)).collect();
        let name = "kafka_network_RequestMetrics_TotalTimeMs";
        latencies(encoder, name, "How long requests took to answer", &times)?;
        let staged = self.api_meters().filter(|(_, meter)| meter.key == ApiKey::TxnShareAcknowledge);
        let staged: Vec<_> = staged.map(|(labels, meter)| (labels[..1].to_vec(), meter)).collect();
        let name = "kafka_server_ShareGroupMetrics_TxnShareAcknowledgeRequestLatencyMs";
        latencies(encoder, name, "How long it took to stage acknowledgements", &staged)
    }

    /// Returns what each node counted of each API, with labels for both.
    fn api_meters(&self) -> impl Iterator<Item = (Labels<'_>, &ApiMeter)> {
        self.meters.nodes().flat_map(|(id, meters)| {
            let labels = move |meter: &ApiMeter| {
                vec![("node", id.get().to_string()), ("request", meter.key.api().name.to_owned())]
            };
            meters.apis().iter().map(move |meter| (labels(meter), meter))
        })
    }
}

fn node_label(node: &NodeMetrics) -> (&'static str, String) {
    ("node", node.id.get().to_string())
}

fn share_partition_labels<'a>(node: &NodeMetrics, it: &SharePartitionMetrics) -> Labels<'a> {
    vec![
        node_label(node),
        ("group", it.group_id.to_string()),
        ("topic", it.topic.to_string()),
        ("partition", it.partition.to_string()),
    ]
}

fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn seconds(us: u64) -> f64 {
    std::time::Duration::from_micros(us).as_secs_f64()
}

fn latencies(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: &[(Labels<'_>, &ApiMeter)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, meter) in samples {
        let counts = meter.by_latency.iter().map(|count| count.load(Ordering::Relaxed));
        let bounds = LATENCY_BOUNDS_US.iter().map(|us| seconds(*us) * 1_000.0).chain([f64::INFINITY]);
        let classes: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count: u64 = classes.iter().map(|(_, count)| count).sum();
        let sum = seconds(meter.latency_us.load(Ordering::Relaxed)) * 1_000.0;
        let set = LabelSet(labels);
        metric.encode_family(&set)?.encode_histogram::<NoLabelSet>(sum, count, &classes, None)?;
    }
    Ok(())
}

fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: &[(Labels<'_>, u64)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in samples {
        let set = LabelSet(labels);
        metric.encode_family(&set)?.encode_counter::<NoLabelSet, u64, u64>(count, None)?;
    }
    Ok(())
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: &[(Labels<'_>, i64)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        let set = LabelSet(labels);
        metric.encode_family(&set)?.encode_gauge(value)?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a sum of milliseconds or records, shown")]
fn histograms(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: &[(Labels<'_>, &Distribution)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, distribution) in samples {
        let bound = |bound: Option<i64>| bound.map_or(f64::INFINITY, |bound| bound as f64);
        let classes: Vec<(f64, u64)> =
            distribution.classes().map(|(highest, count)| (bound(highest), count)).collect();
        let (sum, count) = (distribution.sum() as f64, distribution.count());
        let set = LabelSet(labels);
        metric.encode_family(&set)?.encode_histogram::<NoLabelSet>(sum, count, &classes, None)?;
    }
    Ok(())
}

//! Stable names for what differs between runs: ids of topics and producers, times, and the run's own suffix.

use std::collections::BTreeMap;

use sharemark_protocol::{ErrorCode, StrBytes, TopicId};

/// What stands for what, in one run of one transcript.
#[derive(Debug)]
pub struct Names {
    /// Keeps runs apart that share a broker; empty on a broker of their own.
    suffix: String,
    topics: BTreeMap<TopicId, String>,
    /// What was called `t` before another topic got that name: `t.old`, which requests can still name.
    former: BTreeMap<String, TopicId>,
    producers: Vec<i64>,
    base_ms: i64,
}

impl Names {
    /// Returns names for a run that starts at `base_ms`.
    pub fn new(suffix: String, base_ms: i64) -> Self {
        Self { suffix, topics: BTreeMap::new(), former: BTreeMap::new(), producers: Vec::new(), base_ms }
    }

    /// Returns the name on the wire of a topic, group or transactional id.
    pub fn wire(&self, name: &str) -> StrBytes {
        if name.is_empty() || name.starts_with("__") {
            return StrBytes::from(name.to_owned());
        }
        StrBytes::from(format!("{name}{}", self.suffix))
    }

    /// Returns a text without what belongs to this run alone.
    pub fn shown(&self, text: &str) -> String {
        if self.suffix.is_empty() { text.to_owned() } else { text.replace(&self.suffix, "") }
    }

    /// Returns whether a name on the wire belongs to this run.
    pub fn is_ours(&self, name: &str) -> bool {
        self.suffix.is_empty() || name.ends_with(&self.suffix)
    }

    /// Notes the id of a topic; one that had the name before is `t.old` from here on, and shown as unknown.
    pub fn learn_topic(&mut self, id: TopicId, wire_name: &str) {
        let name = self.shown(wire_name);
        if let Some(former) = self.topic_id(&name).filter(|former| *former != id) {
            self.topics.remove(&former);
            self.former.insert(format!("{name}.old"), former);
        }
        self.topics.insert(id, name);
    }

    /// Returns the id of a topic, if it was created here.
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        let known = self.topics.iter().find(|(_, known)| *known == name).map(|(id, _)| *id);
        known.or_else(|| self.former.get(name).copied())
    }

    /// Returns the name of a topic id.
    pub fn topic(&self, id: TopicId) -> String {
        self.topics.get(&id).cloned().unwrap_or_else(|| "unknown-topic".into())
    }

    /// Returns a name for a producer id: `id1` for the first one seen, and so on.
    pub fn producer(&mut self, id: i64) -> String {
        if id < 0 {
            return "none".into();
        }
        let index = self.producers.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.producers.push(id);
            self.producers.len() - 1
        });
        format!("id{}", index + 1)
    }

    /// Returns a time of the wire for one of a transcript.
    pub fn time(&self, after_start_ms: i64) -> i64 {
        self.base_ms + after_start_ms
    }

    /// Returns how a time of the wire is printed: `@` and the milliseconds since the start. Transcripts write
    /// no times after it, so that a later one is the broker's own.
    pub fn shown_time(&self, time_ms: i64) -> String {
        if time_ms < 0 {
            time_ms.to_string()
        } else if self.base_ms < time_ms {
            "@later".into()
        } else {
            format!("@{}", time_ms - self.base_ms)
        }
    }
}

/// Returns Kafka's name of an error code.
pub(super) fn error(code: i16) -> String {
    ErrorCode::from_code(code).map_or_else(|| format!("ERROR_{code}"), |code| code.name().to_owned())
}

//! A topic wished for at the start: `NAME[:PARTITIONS[:key=value,...]]`.

use super::profile::Profile;

/// A topic to be created at the start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it gets; `num.partitions` if not said.
    pub partitions: Option<i32>,
    /// Its properties.
    pub configs: Vec<(String, String)>,
}

impl NewTopic {
    /// Reads the form `NAME[:PARTITIONS[:key=value,...]]` and checks each part.
    ///
    /// # Errors
    ///
    /// Says which part is wrong.
    pub fn parse(text: &str, profile: Profile) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let name = parts.next().unwrap_or_default();
        if !is_legal_topic_name(name) {
            return Err(format!("{name:?} is no legal topic name"));
        }
        let partitions = match parts.next().filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => match text.parse() {
                Ok(count) if (1..=MAX_PARTITIONS).contains(&count) => Some(count),
                Ok(_) | Err(_) => return Err(format!("{text:?} is no number of partitions")),
            },
        };
        let mut configs: Vec<(String, String)> = Vec::new();
        for piece in parts.next().unwrap_or_default().split(',').filter(|piece| !piece.is_empty()) {
            match (piece.split_once('='), configs.last_mut()) {
                (Some((key, value)), _) => configs.push((key.to_owned(), value.to_owned())),
                // A list's value goes on: cleanup.policy=compact,delete.
                (None, Some((_, value))) => {
                    value.push(',');
                    value.push_str(piece);
                }
                (None, None) => return Err(format!("{piece:?} is not of the form key=value")),
            }
        }
        for (name, value) in &configs {
            let key = profile.topic_key(name).ok_or_else(|| format!("no topic property is called {name}"))?;
            key.parse(value).map_err(|error| error.to_string())?;
        }
        Ok(Self { name: name.to_owned(), partitions, configs })
    }
}

/// The most partitions that one topic may have.
const MAX_PARTITIONS: i32 = 100_000;

/// Returns whether Kafka allows a topic of this name.
pub fn is_legal_topic_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= 249 && name != "." && name != ".." && name.bytes().all(legal)
}

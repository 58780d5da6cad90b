//! The broker's only source of randomness: seeded, so that a run can be replayed.

use std::fmt::Write;

use sharemark_protocol::TopicId;

/// A small generator (SplitMix64): ids need to differ, not to be secret.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Starts the sequence that belongs to `seed`.
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number of the sequence.
    pub(super) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a version-4 UUID, as Kafka uses for topics and clusters.
    pub(super) fn uuid(&mut self) -> TopicId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next().to_be_bytes());
        bytes[6] = (bytes[6] & 0x0F) | 0x40;
        bytes[8] = (bytes[8] & 0x3F) | 0x80;
        TopicId::from_bytes(bytes)
    }

    /// Returns a UUID as Java writes one, such as the ids of members end with.
    pub(super) fn unique(&mut self) -> String {
        let mut text = String::with_capacity(36);
        for (index, byte) in self.uuid().bytes().into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            let _never_fails = write!(text, "{byte:02x}");
        }
        text
    }

    /// Returns a topic id whose text does not start with a dash, which tools would take for an option.
    pub(super) fn topic_id(&mut self) -> TopicId {
        loop {
            let id = self.uuid();
            if !id.to_string().starts_with('-') {
                return id;
            }
        }
    }
}

//! Numbers that could be mixed up, each with a type of its own.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name($raw);

        impl $name {
            /// Wraps the number as on the wire.
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// Returns the number as on the wire.
            pub const fn get(self) -> $raw {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Names a node (Kafka's broker id).
    NodeId(i32)
}
id! {
    /// Counts the leaders that a partition has had.
    LeaderEpoch(i32)
}
id! {
    /// Counts the generations of a share partition's state; an offset reset starts a new one.
    StateEpoch(i32)
}
id! {
    /// Counts the assignments that a group member has had.
    MemberEpoch(i32)
}
id! {
    /// Names a producer; the transaction coordinator hands them out.
    ProducerId(i64)
}
id! {
    /// Tells the incarnations of one producer id apart; at most 32767.
    ProducerEpoch(i16)
}

/// A producer id with the epoch of one of its incarnations.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Producer {
    /// The producer id.
    pub id: ProducerId,
    /// The incarnation.
    pub epoch: ProducerEpoch,
}

impl Producer {
    /// Returns the producer, or `None` if either number is negative (a sentinel on the wire).
    pub const fn from_wire(id: i64, epoch: i16) -> Option<Self> {
        if id < 0 || epoch < 0 {
            return None;
        }
        Some(Self { id: ProducerId(id), epoch: ProducerEpoch(epoch) })
    }
}

/// Names one incarnation of a topic: a deleted and re-created topic has a new id.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TopicId([u8; 16]);

impl TopicId {
    /// The id that stands for none.
    pub const ZERO: Self = Self([0; 16]);

    /// Wraps the sixteen bytes as on the wire.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the sixteen bytes as on the wire.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for TopicId {
    /// Writes Kafka's text form: URL-safe base64 without padding, 22 characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bits = 0_u32;
        let mut bit_count = 0;
        for byte in self.0 {
            bits = (bits << 8) | u32::from(byte);
            bit_count += 8;
            while 6 <= bit_count {
                bit_count -= 6;
                let digit = DIGITS[(bits >> bit_count) as usize & 63];
                fmt::Write::write_char(f, char::from(digit))?;
            }
        }
        let digit = DIGITS[(bits << (6 - bit_count)) as usize & 63];
        fmt::Write::write_char(f, char::from(digit))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
